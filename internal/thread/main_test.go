package thread

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// hungEnv makes the test's program one that has a file of this name locked, and hangs.
const hungEnv = "NODEMEND_TEST_HUNG"

func TestMain(m *testing.M) {
	if path := os.Getenv(hungEnv); path != "" {
		fmt.Fprintln(os.Stderr, hang(path, os.Args[1]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// hang holds a file, and asks a dead disk for another one.
func hang(path, dead string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	if _, err := Hold(file); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	_, err = os.Stat(dead)
	return err
}
