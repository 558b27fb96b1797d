// Command kwok is kwok alone.
package main

import (
	"os"

	"github.com/nodemend/nodemend/test/controlplane/kwok"
)

func main() { os.Exit(kwok.Run()) }
