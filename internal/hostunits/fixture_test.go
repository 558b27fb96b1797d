package hostunits

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// fakeSystemd behaves as systemd does with the unit files of a directory.
type fakeSystemd struct {
	root string
	// calls are those that change something.
	calls []string
	// loaded is the unit file that was read last.
	loaded, enabled bool
	content         string
	active          string
	pid             uint32
	// dies says that what is started does not stay running.
	dies bool
	// flaps says that it is a new process each time.
	flaps bool

	lock sync.Mutex
	err  error
}

// fail lets all calls fail from now on, or none.
func (s *fakeSystemd) fail(err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.err = err
}

func (s *fakeSystemd) failure() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.err
}

func (s *fakeSystemd) file(unit string) (string, bool) {
	data, err := os.ReadFile(filepath.Join(s.root, "etc", "systemd", "system", unit))
	return string(data), err == nil
}

func (s *fakeSystemd) State(_ context.Context, unit string) (State, error) {
	state := State{LoadState: "not-found", ActiveState: "inactive", SubState: "dead"}
	if s.loaded {
		now, _ := s.file(unit)
		state.LoadState, state.NeedDaemonReload = "loaded", now != s.content
	}
	if s.flaps {
		s.pid++
	}
	if s.active != "" {
		state.ActiveState, state.SubState, state.MainPID = s.active, "running", s.pid
	}
	if s.enabled {
		state.UnitFileState = "enabled"
	}
	if s.dies && s.pid > 0 {
		state.ActiveState, state.SubState, state.Result, state.ExecMainStatus = "activating", "auto-restart", "exit-code", 2
	}
	return state, s.failure()
}

func (s *fakeSystemd) Enable(_ context.Context, unit string) error {
	s.calls = append(s.calls, "enable "+unit)
	s.content, s.loaded = s.file(unit)
	s.enabled = s.loaded
	return s.failure()
}

func (s *fakeSystemd) Restart(_ context.Context, unit string) error {
	if !s.loaded {
		return errors.New("Unit " + unit + " not found.")
	}
	s.calls = append(s.calls, "restart "+unit)
	s.active = "active"
	s.pid++
	return s.failure()
}

func (s *fakeSystemd) Stop(_ context.Context, unit string) error {
	s.calls = append(s.calls, "stop "+unit)
	s.active = ""
	return s.failure()
}

func (s *fakeSystemd) Forget(_ context.Context, unit string) error {
	s.calls = append(s.calls, "forget "+unit)
	_, s.loaded = s.file(unit)
	return s.failure()
}

// took returns the calls since the last time.
func (s *fakeSystemd) took() string {
	calls := strings.Join(s.calls, ", ")
	s.calls = nil
	return calls
}

// host is a host and a pod on it, made of directories.
type host struct {
	t       *testing.T
	root    string
	systemd *fakeSystemd
	options Options
	renewed int
}

func newHost(t *testing.T) *host {
	t.Helper()
	dir := t.TempDir()
	h := &host{t: t, root: filepath.Join(dir, "host"), systemd: &fakeSystemd{root: filepath.Join(dir, "host")}}
	h.options = Options{
		Role: Runner, HostRoot: h.root, BinDir: DefaultBinDir, Systemd: h.systemd, NodeName: "node-a",
		Server: "https://10.0.0.2:6443", Credentials: filepath.Join(dir, "credentials"), Executable: filepath.Join(dir, "nodemend"),
	}
	for _, d := range []string{h.root, h.options.Credentials} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.program("version one")
	h.renew("token-1", "ca-1")
	return h
}

func (h *host) program(content string) {
	h.t.Helper()
	h.put(h.options.Executable, content)
}

func (h *host) put(file, content string) {
	h.t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// renew replaces the pod's credentials as the kubelet does: in a new directory that
// one link is swapped to.
func (h *host) renew(token, ca string) {
	h.t.Helper()
	h.renewed++
	dir, data := h.options.Credentials, fmt.Sprintf("..data-%d", h.renewed)
	if err := os.Mkdir(filepath.Join(dir, data), 0o755); err != nil {
		h.t.Fatal(err)
	}
	h.put(filepath.Join(dir, data, "token"), token)
	h.put(filepath.Join(dir, data, "ca.crt"), ca)
	err := errors.Join(os.Symlink(data, filepath.Join(dir, "..data_tmp")),
		os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	for _, name := range []string{"token", "ca.crt"} {
		if linkErr := os.Symlink("..data/"+name, filepath.Join(dir, name)); !errors.Is(linkErr, fs.ErrExist) {
			err = errors.Join(err, linkErr)
		}
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) installer() *installer {
	h.t.Helper()
	i, err := newInstaller(h.options)
	if err != nil {
		h.t.Fatal(err)
	}
	return i
}

// install is a pod's first installation.
func (h *host) install() {
	h.t.Helper()
	if _, err := h.installer().converge(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) path(file string) string { return filepath.Join(h.root, file) }

func (h *host) read(file string) string {
	h.t.Helper()
	data, err := os.ReadFile(h.path(file))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(data)
}

// tree lists all files of the host with their mode, inode and times of change.
func (h *host) tree() (files []string) {
	h.t.Helper()
	err := filepath.WalkDir(h.root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if status, ok := info.Sys().(*syscall.Stat_t); ok {
			files = append(files, fmt.Sprint(strings.TrimPrefix(file, h.root), " ", info.Mode(), status.Ino, status.Mtim, status.Ctim))
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return files
}

// names are those of the host's files.
func (h *host) names() []string {
	h.t.Helper()
	names := h.tree()
	for i, line := range names {
		names[i], _, _ = strings.Cut(line, " ")
	}
	slices.Sort(names)
	return names
}

// jwt is a token that was valid for so many seconds.
func jwt(seconds int) string {
	payload := fmt.Sprintf(`{"iat":1700000000,"exp":%d}`, 1700000000+seconds)
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}
