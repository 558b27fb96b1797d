package ipmitool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/ipmi/device"
)

// fake is a program that behaves as ipmitool does when it executes commands from its stdin.
type fake struct {
	t    *testing.T
	dir  string
	path string
}

// fakeProgram writes of each raw command what says has been set for it; it keeps its arguments
// of each start, its environment, and all commands.
const fakeProgram = `#!/bin/sh
dir="${0%/*}"
echo "$*" >>"$dir/arguments"
env >"$dir/environment"
echo "IANA PEN registry open failed: No such file or directory" >&2
while read -r line; do
	case "$line" in "echo "*) echo "${line#echo } "; continue ;; esac
	echo "$line" >>"$dir/commands"
	if [ -e "$dir/$line.dies" ]; then rm "$dir/$line.dies"; exit 1; fi
	if [ -e "$dir/$line" ]; then
		cat "$dir/$line"
	else
		echo "Unable to send RAW command (channel=0x0 netfn=0x6 lun=0x0 cmd=0x1 rsp=0xc1): Invalid command" >&2
	fi
done
echo ended >>"$dir/ends"
`

func newFake(t *testing.T, program string) *fake {
	t.Helper()
	f := &fake{t: t, dir: t.TempDir()}
	f.path = filepath.Join(f.dir, "ipmitool")
	if err := os.WriteFile(f.path, []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	return f
}

// Raw commands that a poll sends, and what the fake answers.
const (
	chassisStatus = "raw 0x00 0x01"
	restartCause  = "raw 0x00 0x07"
	on            = " 21 10 40 00\n"
)

// says sets what a command writes.
func (f *fake) says(command, output string) { f.t.Helper(); f.write(command, output) }

func (f *fake) write(name, content string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(content), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// kept returns the lines of what the program has kept since the last call.
func (f *fake) kept(name string) []string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	content, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		f.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}

func (f *fake) source(o Options) *device.Device {
	f.t.Helper()
	o.Path = f.path
	s, err := New(o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return s
}
