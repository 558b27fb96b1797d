//go:build integration

package command

import (
	"os"
	"testing"

	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

func TestMain(m *testing.M) {
	systemdtest.Beside()
	os.Exit(systemdtest.Run(m))
}
