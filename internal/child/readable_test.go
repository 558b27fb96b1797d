package child

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A named pipe stands for a file whose disk hangs: to open it takes until somebody writes.
func TestAProgramWhoseDiskHangsIsNotStarted(t *testing.T) {
	dir := t.TempDir()
	hangs, script, program := filepath.Join(dir, "hangs"), filepath.Join(dir, "script"), filepath.Join(dir, "program")
	if err := unix.Mkfifo(hangs, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{script: "#! " + hangs + " -x\n", program: "#!/bin/sh -e\ntrue\n"} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // to be executed
			t.Fatal(err)
		}
	}
	if err := readable(program, time.Hour); err != nil {
		t.Errorf("a program that can be read: %v", err)
	}
	if err := readable(filepath.Join(dir, "missing"), time.Hour); err != nil {
		t.Errorf("of a missing program the start tells: %v", err)
	}
	if err := readable(hangs, 0); !errors.Is(err, errHangs) {
		t.Errorf("got %v", err)
	}
	// Its interpreter is still read.
	if err := readable(script, 0); !errors.Is(err, errHangs) {
		t.Errorf("a script whose interpreter hangs: got %v", err)
	}
	answers, err := os.OpenFile(hangs, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := answers.WriteString("#!"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(answers.Close(), os.Remove(hangs), os.WriteFile(hangs, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := readable(script, time.Hour); err != nil {
		t.Errorf("once the disk answers: %v", err)
	}
}

func TestTheInterpreterOfAScript(t *testing.T) {
	for head, want := range map[string]string{
		"#!/bin/sh":            "/bin/sh",
		"#! /usr/bin/env -S x": "/usr/bin/env",
		"#!\nx":                "",
		"\x7fELF":              "",
		"":                     "",
	} {
		if got := interpreter([]byte(head)); got != want {
			t.Errorf("%q: got %q, want %q", head, got, want)
		}
	}
}
