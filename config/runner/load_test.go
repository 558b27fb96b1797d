package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAFileThatDoesNotExistIsNoVeto(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "runner.yaml"), "/nonexistent/runner.yaml"} {
		if v, err := load(path, uint32(os.Getuid())); v != nil || err != nil {
			t.Errorf("%s: got %v and error %v, want neither", path, v, err)
		}
	}
}

func TestTheFileIsNamedInReasons(t *testing.T) {
	path := write(t, 0o644)
	v, err := load(path, uint32(os.Getuid()))
	if err != nil {
		t.Fatal(err)
	}
	check(t, v.Reboot(), "reboots.deny of "+path+" is true")
}

func TestAFileThatOthersMayWriteIsRefused(t *testing.T) {
	me := uint32(os.Getuid())
	for name, tc := range map[string]struct {
		file, dir os.FileMode
		owner     uint32
	}{
		"by its group":               {0o664, 0o755, me},
		"by all":                     {0o646, 0o755, me},
		"by its owner":               {0o600, 0o700, me + 1},
		"by its directory's group":   {0o600, 0o775, me},
		"by all in its directory":    {0o600, 0o757, me},
		"by all in an old /tmp, too": {0o600, 0o777 | os.ModeSticky, me},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, tc.file)
			if err := os.Chmod(filepath.Dir(path), tc.dir); err != nil {
				t.Fatal(err)
			}
			v, err := load(path, tc.owner)
			if v != nil || err == nil || !strings.Contains(err.Error(), "somebody else could lift the veto: chown root "+filepath.Dir(path)) {
				t.Errorf("got %v and error %v", v, err)
			}
		})
	}
}

func TestTheFilesOwnerIsRoot(t *testing.T) {
	path := write(t, 0o600)
	if _, err := Load(path); (err == nil) != (os.Getuid() == 0) {
		t.Errorf("as user %d: %v", os.Getuid(), err)
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	me := uint32(os.Getuid())
	if v, err := load(filepath.Dir(write(t, 0o600)), me); v != nil || err == nil {
		t.Errorf("a directory: got %v and error %v", v, err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := load(pipe, me); v != nil || err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("a pipe: got %v and error %v", v, err)
	}
	inFile := filepath.Join(write(t, 0o600), "runner.yaml")
	if v, err := load(inFile, me); v != nil || err == nil {
		t.Errorf("in a file: got %v and error %v", v, err)
	}
}

// write makes a file that denies reboots, with a mode.
func write(t *testing.T, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runner.yaml")
	if err := os.WriteFile(path, []byte("reboots: {deny: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}
