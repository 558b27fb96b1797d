package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAFileThatDoesNotExistIsNoVeto(t *testing.T) {
	host := newHost(t)
	for _, path := range []string{"/etc/nodemend/runner.yaml", "/etc/runner.yaml", "/runner.yaml", "/etc/../runner.yaml"} {
		if v, err := load(host, path, me()); v != nil || err != nil {
			t.Errorf("%s: got %v and error %v, want neither", path, v, err)
		}
	}
	write(t, host, "opt/empty/else")
	link(t, host, "/opt/empty", "etc/nodemend")
	if v, err := load(host, Path, me()); v != nil || err != nil {
		t.Errorf("a link to a directory without it: got %v and error %v, want neither", v, err)
	}
}

func TestTheFileIsNamedInReasonsAsTheHostSeesIt(t *testing.T) {
	host := newHost(t)
	write(t, host, "etc/nodemend/runner.yaml")
	check(t, denied(t, host).Reboot(), "reboots.deny of /etc/nodemend/runner.yaml is true")
}

// A directory that is mounted into a container stays the one that it was.
func TestAVetoInADirectoryThatWasReplacedCounts(t *testing.T) {
	host := newHost(t)
	write(t, host, "etc/nodemend/other")
	if v, err := load(host, Path, me()); v != nil || err != nil {
		t.Fatalf("got %v and error %v", v, err)
	}
	must(t, os.RemoveAll(filepath.Join(host, "etc", "nodemend")))
	write(t, host, "etc/nodemend/runner.yaml")
	check(t, denied(t, host).Reboot(), "is true")
}

func TestLinksAreFollowedAsTheHostDoes(t *testing.T) {
	for name, links := range map[string]map[string]string{
		"of the file":       {"etc/nodemend/runner.yaml": "../../opt/veto/runner.yaml"},
		"of its directory":  {"etc/nodemend": "/opt/veto"},
		"above the root":    {"etc/nodemend": "../../../../opt/veto/"},
		"of several, there": {"etc/nodemend": "/srv/a", "srv/a": "../srv/./b", "srv/b": "/opt/veto"},
	} {
		t.Run(name, func(t *testing.T) {
			host := newHost(t)
			write(t, host, "opt/veto/runner.yaml")
			for at, target := range links {
				link(t, host, target, at)
			}
			check(t, denied(t, host).Reboot(), "reboots.deny of /etc/nodemend/runner.yaml is true")
		})
	}
}

func TestALinkThatLeadsNowhereIsNotTakenForNoVeto(t *testing.T) {
	for name, links := range map[string]map[string]string{
		"of the file":          {"etc/nodemend/runner.yaml": "/opt/veto.yaml"},
		"of its directory":     {"etc/nodemend": "/opt/veto"},
		"of another directory": {"etc/nodemend": "/srv/a", "srv/a": "b"},
	} {
		t.Run(name, func(t *testing.T) {
			host := newHost(t)
			for at, target := range links {
				link(t, host, target, at)
			}
			refused(t, host, me(), "is a link that leads nowhere: there is no /")
		})
	}
	host := newHost(t)
	link(t, host, "runner.yaml", "etc/nodemend/runner.yaml")
	refused(t, host, me(), "too many levels of symbolic links")
}

func TestAFileThatOthersMayWriteIsRefused(t *testing.T) {
	const file = "etc/nodemend/runner.yaml"
	for name, tc := range map[string]struct {
		place string // relative to the host's root
		mode  os.FileMode
	}{
		"by its group":                        {file, 0o664},
		"by all":                              {file, 0o646},
		"by its directory's group":            {"etc/nodemend", 0o775},
		"by all in its directory":             {"etc/nodemend", 0o757},
		"by all in an old /tmp, too":          {"etc/nodemend", 0o777 | os.ModeSticky},
		"by the group of a directory above":   {"etc", 0o775},
		"by all in the root":                  {"", 0o777},
		"by all where the link leads":         {"opt/veto", 0o777},
		"by all on the way of the link":       {"opt", 0o777 | os.ModeSticky},
		"by the group of the link's own file": {"opt/veto/runner.yaml", 0o660},
	} {
		t.Run(name, func(t *testing.T) {
			host := newHost(t)
			if strings.HasPrefix(tc.place, "opt") {
				write(t, host, "opt/veto/runner.yaml")
				link(t, host, "/opt/veto", "etc/nodemend")
			} else {
				write(t, host, file)
			}
			must(t, os.Chmod(filepath.Join(host, tc.place), tc.mode))
			refused(t, host, me(), "somebody else could lift the veto: chown root /"+tc.place)
		})
	}
	t.Run("by its owner", func(t *testing.T) {
		host := newHost(t)
		write(t, host, file)
		refused(t, host, me()+1, "somebody else could lift the veto: chown root /")
	})
	t.Run("by who may create it", func(t *testing.T) {
		host := newHost(t)
		must(t, os.Mkdir(filepath.Join(host, "etc", "nodemend"), 0o700))
		must(t, os.Chmod(filepath.Join(host, "etc", "nodemend"), 0o777))
		refused(t, host, me(), "chown root /etc/nodemend")
	})
}

func TestTheFilesOwnerIsRoot(t *testing.T) {
	host := newHost(t)
	write(t, host, "etc/nodemend/runner.yaml")
	if _, err := LoadNode(host); (err == nil) != (os.Getuid() == 0) {
		t.Errorf("as user %d: %v", os.Getuid(), err)
	}
}

func TestAHostThatCanNotBeLookedAtIsNotTakenForNoVeto(t *testing.T) {
	refused(t, filepath.Join(t.TempDir(), "1", "root"), me(), "can't be looked at: no such file or directory: a pod needs hostPID and privileged")
}

func TestAConfigurationOfManyNodesHasToBeThere(t *testing.T) {
	missing := "/nonexistent/runner.yaml"
	if v, err := LoadConfig(missing); v != nil || err == nil || !strings.Contains(err.Error(), "reading --config="+missing+": there is no such file") {
		t.Errorf("got %v and error %v", v, err)
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"the root":    func(path string) error { return os.Symlink("/", path) },
	} {
		t.Run(name, func(t *testing.T) {
			host := newHost(t)
			must(t, os.Mkdir(filepath.Join(host, "etc", "nodemend"), 0o700))
			must(t, put(filepath.Join(host, Path)))
			refused(t, host, me(), "is not a file")
		})
	}
	host := newHost(t)
	write(t, host, "etc/nodemend")
	refused(t, host, me(), "/etc/nodemend is not a directory")
}

// The file is there all the time, and what lies where the link led before is deleted.
func TestAVetoIsNotMissedWhileItsDirectoryIsReplaced(t *testing.T) {
	host := newHost(t)
	write(t, host, "opt/0/runner.yaml")
	link(t, host, "/opt/0", "etc/nodemend")
	done, replaced := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(replaced)
		for i := 1; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			dir := filepath.Join(host, "opt", fmt.Sprint(i))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Error(err)
				return
			}
			if err := os.WriteFile(filepath.Join(dir, "runner.yaml"), []byte(content), 0o600); err != nil {
				t.Error(err)
				return
			}
			if err := os.Symlink("/opt/"+fmt.Sprint(i), filepath.Join(host, "etc", "next")); err != nil {
				t.Error(err)
				return
			}
			if err := os.Rename(filepath.Join(host, "etc", "next"), filepath.Join(host, "etc", "nodemend")); err != nil {
				t.Error(err)
				return
			}
			if err := os.RemoveAll(filepath.Join(host, "opt", fmt.Sprint(i-1))); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range 3000 {
		if v, err := load(host, Path, me()); v == nil && err == nil {
			t.Error("the veto was missed")
			break
		}
	}
	close(done)
	<-replaced
}

const content = "reboots: {deny: true}\n"

func me() uint32 { return uint32(os.Getuid()) }

// newHost makes a host's root directory, with an /etc.
func newHost(t *testing.T) string {
	t.Helper()
	host := t.TempDir()
	must(t, os.Chmod(host, 0o755))
	must(t, os.Mkdir(filepath.Join(host, "etc"), 0o755))
	return host
}

// write makes a file that denies reboots, and the directories above it.
func write(t *testing.T, host, name string) {
	t.Helper()
	file := filepath.Join(host, name)
	for dir := filepath.Dir(file); dir != host; dir = filepath.Dir(dir) {
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.Chmod(dir, 0o755))
	}
	must(t, os.WriteFile(file, []byte(content), 0o600))
}

// link makes a symbolic link, and the directories above it.
func link(t *testing.T, host, target, name string) {
	t.Helper()
	file := filepath.Join(host, name)
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.Symlink(target, file))
}

// denied returns the host's veto.
func denied(t *testing.T, host string) *Veto {
	t.Helper()
	v, err := load(host, Path, me())
	if err != nil || v == nil {
		t.Fatalf("got %v and error %v, want a veto", v, err)
	}
	return v
}

// refused makes sure that a host's veto is not known.
func refused(t *testing.T, host string, owner uint32, want string) {
	t.Helper()
	if v, err := load(host, Path, owner); v != nil || err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v and error %v, want %q", v, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
