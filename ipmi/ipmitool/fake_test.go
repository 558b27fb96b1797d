package ipmitool

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fake is a program that behaves as ipmitool does when it executes a script.
type fake struct {
	t    *testing.T
	dir  string
	path string
}

// fakeProgram writes of each command what says has been set for it; it keeps its
// arguments, its environment and all commands.
const fakeProgram = `#!/bin/sh
dir="${0%/*}"
for argument; do echo "$argument"; done >"$dir/arguments"
env >"$dir/environment"
code=0
verbose=
while read -r line; do
	case "$line" in
	"echo "*) echo "${line#echo } "; continue ;;
	"set verbose 1") verbose="verbose "; continue ;;
	esac
	echo "$verbose$line" >>"$dir/commands"
	[ ! -e "$dir/$verbose$line" ] || cat "$dir/$verbose$line"
	[ ! -e "$dir/$verbose$line.stderr" ] || cat "$dir/$verbose$line.stderr" >&2
	[ ! -e "$dir/$verbose$line.fails" ] || code=1
done
exit $code
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

// says sets what a command writes.
func (f *fake) says(command, stdout string) { f.t.Helper(); f.write(command, stdout) }

// complains sets what a command writes to stderr.
func (f *fake) complains(command, stderr string) { f.t.Helper(); f.write(command+".stderr", stderr) }

// fails makes a command fail.
func (f *fake) fails(command string) { f.t.Helper(); f.write(command+".fails", "") }

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

func (f *fake) source(o Options) *Source {
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

// sel sets the SEL to the fixtures' first records.
func (f *fake) sel(records int) {
	f.t.Helper()
	whole := faultsSEL(f.t)
	if records > len(whole.events) {
		f.t.Fatalf("the fixtures have only %d records", len(whole.events))
	}
	info := fixture(f.t, "faults-sel-info.txt")
	f.says("sel info", strings.Replace(info, ": 25", ": "+strconv.Itoa(records), 1))
	f.says("sel elist", strings.Join(strings.SplitAfter(fixture(f.t, "faults-sel-elist.txt"), "\n")[:records], ""))
	f.says("verbose sel list", strings.Join(blocks(fixture(f.t, "faults-sel-list-verbose.txt"), "SEL Record ID  ")[:records], ""))
}
