//go:build integration

package command

import (
	"os"
	"testing"

	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

func TestMain(m *testing.M) { os.Exit(systemdtest.Run(m)) }
