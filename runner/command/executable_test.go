package command

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/internal/cgroup"
)

// program returns a native program that needs an interpreter.
func program(t *testing.T, interpreter string) string {
	t.Helper()
	own, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	file, err := elf.NewFile(bytes.NewReader(own))
	if err != nil {
		t.Fatal(err)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			path := own[segment.Off : segment.Off+segment.Filesz]
			copy(path, append([]byte(interpreter), make([]byte, len(path)-len(interpreter))...))
			return string(own)
		}
	}
	t.Skip("/bin/sh is linked statically: install one that is not, such as the package dash")
	return ""
}

// foreign returns a program for a machine that is not made any more.
func foreign(t *testing.T) string {
	t.Helper()
	own := []byte(program(t, "/x"))
	own[18], own[19] = 0, 0
	own[18+int(own[elf.EI_DATA])-1] = byte(elf.EM_PDP11)
	return string(own)
}

func TestTheReasonForARefusalIsLookedForInTheHostsFiles(t *testing.T) {
	host := hostProc(t, t.TempDir())
	root := filepath.Join(host, "1", "root")
	for name, content := range map[string]string{
		"program": program(t, "/data"), "unlinked": program(t, "/no/ld.so"), "foreign": foreign(t),
		"plain": "echo\n", "empty": "", "short": "\x7fELF",
		"script": "#!/program -x\n", "orphan": "#! /missing\n", "bare": "#!\n", "below": "#!/data/sh\n",
	} {
		write(t, filepath.Join(root, name), content, 0o755)
	}
	write(t, filepath.Join(root, "data"), "data", 0o644)
	if err := os.Symlink("/program", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/program": "", "/link": "", "/script": "", "/bare": "",
		"/none":     "no such file or directory",
		"/data/x":   "not a directory",
		"/data":     "permission denied",
		"/":         "permission denied",
		"/orphan":   "its interpreter /missing: no such file or directory",
		"/below":    "its interpreter /data/sh: not a directory",
		"/unlinked": "its interpreter /no/ld.so: no such file or directory",
		"/plain":    "exec format error",
		"/empty":    "exec format error",
		"/short":    "exec format error",
		"/foreign":  "exec format error",
	} {
		err := whyNotExecutable(host, path)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(startFailed(path, err).Message, "starting "+path+": "+want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	// Whether the kernel was told of these formats, nobody can say.
	formats := filepath.Join(root, "proc", "sys", "fs", "binfmt_misc")
	if err := os.MkdirAll(formats, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(formats, "register"), "", 0o200)
	if err := whyNotExecutable(host, "/foreign"); err == nil {
		t.Error("no format is known, and a program for another machine is taken for executable")
	}
	write(t, filepath.Join(formats, "pdp11"), "enabled\n", 0o644)
	for _, path := range []string{"/foreign", "/plain"} {
		if err := whyNotExecutable(host, path); err != nil {
			t.Errorf("%s may be executable in a way of its own, got %v", path, err)
		}
	}
}

func TestAGroupIsRemovedWithThoseBelowIt(t *testing.T) {
	root := t.TempDir()
	g := cgroup.Group(filepath.Join(root, "nodemend", "x.service"))
	if err := os.MkdirAll(filepath.Join(string(g), "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(string(g), "c"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(string(g), "cgroup.procs"), "2\n0\n", 0o644)
	write(t, filepath.Join(string(g), "a", "b", "cgroup.procs"), "3\n", 0o644)
	if got := g.PIDs(); !slices.Equal(got, []int{2, 0, 3}) {
		t.Errorf("got processes %v", got)
	}
	for _, file := range []string{"cgroup.procs", "a/b/cgroup.procs"} {
		if err := os.Remove(filepath.Join(string(g), file)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := removeGroup(t.Context(), g); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("left are %v, error %v", left, err)
	}
}
