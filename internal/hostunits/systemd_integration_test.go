//go:build integration

package hostunits

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodemend/nodemend/internal/child"
	client "github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/test/loopback"
	"github.com/nodemend/nodemend/test/systemd"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

const longest = 5 * time.Minute

func TestMain(m *testing.M) { os.Exit(systemdtest.Run(m)) }

// standIn is a role that notes its arguments and stays. The host has a network of its
// own, in which there is no API server.
const standIn = `#!/bin/sh
# version 1
printf '<%s>' "$@" > /run/arguments
exec sleep 1000
`

// newRealHost is a host with a real systemd. All is removed after the test.
func newRealHost(t *testing.T, role Role) (*host, *systemd.Host) {
	t.Helper()
	booted := systemdtest.Shared(t)
	h := newHost(t)
	h.root = fmt.Sprintf("/proc/%d/root", booted.PID())
	h.options.Role, h.options.HostRoot = role, h.root
	h.options.Systemd = DBus{Dialer: client.Dialer{Bus: booted.Bus(), Private: systemdtest.Private(t, booted)}}
	h.program(standIn)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), longest)
		defer cancel()
		if _, err := Remove(ctx, h.options); err != nil {
			t.Error(err)
		}
	})
	return h, booted
}

func (h *host) state() State {
	h.t.Helper()
	state, err := h.options.Systemd.State(h.t.Context(), h.options.Role.Unit())
	if err != nil {
		h.t.Fatal(err)
	}
	return state
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, longest, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// leftovers are the files on the host that have to do with the role.
func (h *host) leftovers(booted *systemd.Host) []string {
	h.t.Helper()
	output, err := booted.Run(h.t.Context(), "find", "/etc", "/opt", "/var/lib", "/run", "-name", "*nodemend-"+string(h.options.Role)+"*", "-o", "-path", "*/nodemend/*"+string(h.options.Role)+"*")
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.Fields(string(output))
}

func TestOnARealHostTheRunnerHasLimits(t *testing.T) {
	h, booted := newRealHost(t, Runner)
	h.install()
	got, err := booted.Run(t.Context(), "systemctl", "show", "--property=MemoryMax,TasksMax", h.options.Role.Unit())
	if want := "MemoryMax=268435456\nTasksMax=1024\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// tries says which of a few things it may do.
const tries = `#!/bin/sh
tries() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "$name: yes"; else echo "$name: no"; fi; }
{
tries "read a file of another user" cat /run/of-nobody
tries "become another user" setpriv --reuid=65534 --regid=65534 --clear-groups true
tries "keep memory from being swapped" test "$(ulimit -l)" -gt 0
tries "end what plugins leave behind" env NODEMEND_TEST_PLUGIN=1 /run/test -test.run='^TestHelperRunsAPlugin$'
tries "make a device" mknod /run/device-$$ c 1 3
tries "have a namespace of its own" unshare --mount true
tries "let others become root" chmod u+s /run/of-nobody
} >/run/tried.new
mv /run/tried.new /run/tried
exec sleep 1000
`

func TestOnARealHostTheDetectorMayDoOnlyWhatItsChecksNeed(t *testing.T) {
	h, booted := newRealHost(t, Detector)
	h.put(filepath.Join(booted.RunDir(), "of-nobody"), "secret")
	h.must(os.Chown(filepath.Join(booted.RunDir(), "of-nobody"), 65534, 65534))
	tried := func() (got string) {
		eventually(t, "all is tried", func() bool {
			data, err := os.ReadFile(filepath.Join(booted.RunDir(), "tried"))
			got = string(data)
			return err == nil
		})
		return got
	}
	own, err := os.ReadFile("/proc/self/exe")
	h.must(err)
	h.must(os.WriteFile(filepath.Join(booted.RunDir(), "test"), own, 0o700))
	h.program(tries)
	h.install()
	const needed = "read a file of another user: yes\nbecome another user: yes\nkeep memory from being swapped: yes\nend what plugins leave behind: yes\n"
	if got, want := tried(), needed+"make a device: no\nhave a namespace of its own: no\nlet others become root: no\n"; got != want {
		t.Errorf("as the detector:\n%swant:\n%s", got, want)
	}

	// Whoever is not held back may do all of it.
	h.must(os.Remove(filepath.Join(booted.RunDir(), "tried")))
	h.put(filepath.Join(booted.RunDir(), "tries"), tries)
	h.must(booted.Unit(t.Context(), "free.service", "[Service]\nExecStart=/bin/sh /run/tries\n"))
	if _, err := booted.Run(t.Context(), "systemctl", "start", "free.service"); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = booted.Run(t.Context(), "systemctl", "stop", "free.service") }() // with the host at the latest
	if got, want := tried(), needed+"make a device: yes\nhave a namespace of its own: yes\nlet others become root: yes\n"; got != want {
		t.Errorf("as root:\n%swant:\n%s", got, want)
	}
}

func TestHelperRunsAPlugin(t *testing.T) {
	if os.Getenv("NODEMEND_TEST_PLUGIN") == "" {
		t.Skip("it is run by a test, as the detector")
	}
	escaped := 0
	groups, err := child.NewGroups(func(count int) { escaped += count })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(groups.Close)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := groups.Start(&exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", "setsid sh -c 'echo; exec sleep 1000' & read line"}, Stdin: in, Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	if err := plugin.Wait(t.Context()); err != nil || escaped != 1 {
		t.Errorf("%d processes have escaped, error %v", escaped, err)
	}
}

func TestOnARealHostARoleIsInstalledUpgradedRepairedAndRemoved(t *testing.T) {
	h, booted := newRealHost(t, Runner)
	h.options.Args = []string{"two words", "100%", "$HOME", "${HOME}", `"`, `\n`, "", "a\nb", ";", "grün", "'", "%n", "#x", "\x7f", "\x01"}
	h.install()
	first := h.state()
	if first.ActiveState != "active" || first.UnitFileState != "enabled" || first.NeedDaemonReload {
		t.Fatalf("installed: %+v", first)
	}
	want := "<runner><--kubeconfig=/etc/nodemend/runner.kubeconfig><--node-name=node-a><--host-root=/><" + strings.Join(h.options.Args, "><") + ">"
	eventually(t, "the arguments", func() bool {
		data, err := os.ReadFile(filepath.Join(booted.RunDir(), "arguments"))
		return err == nil && string(data) == want
	})
	if _, err := os.Lstat(h.path("/etc/systemd/system/multi-user.target.wants/nodemend-runner.service")); err != nil {
		t.Error(err)
	}

	h.renew("token-2", "ca-2")
	h.install()
	if again := h.state(); again != first || h.read("/var/lib/nodemend/runner.token") != "token-2" {
		t.Errorf("after a token was renewed: %+v, before %+v", again, first)
	}

	h.program(strings.Replace(standIn, "version 1", "version 2", 1))
	h.install()
	upgraded := h.state()
	if upgraded.MainPID == first.MainPID || upgraded.ActiveState != "active" {
		t.Errorf("upgraded: %+v", upgraded)
	}

	h.put(h.path("/etc/systemd/system/nodemend-runner.service"), "[Service]\nExecStart=/bin/sleep 1\n")
	if _, err := booted.Run(t.Context(), "systemctl", "daemon-reload"); err != nil {
		t.Fatal(err)
	}
	h.install()
	if repaired := h.state(); repaired.ActiveState != "active" || repaired.NeedDaemonReload || repaired.UnitFileState != "enabled" {
		t.Errorf("repaired: %+v", repaired)
	}

	if _, err := booted.Run(t.Context(), "systemctl", "disable", "--now", h.options.Role.Unit()); err != nil {
		t.Fatal(err)
	}
	h.install()
	repaired := h.state()
	if repaired.ActiveState != "active" || repaired.UnitFileState != "enabled" {
		t.Errorf("enabled and started again: %+v", repaired)
	}

	if _, err := booted.Run(t.Context(), "systemctl", "kill", "--signal=KILL", h.options.Role.Unit()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "systemd restarts it", func() bool { s := h.state(); return s.ActiveState == "active" && s.MainPID != repaired.MainPID })

	done, err := Remove(t.Context(), h.options)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"stopped nodemend-runner.service", "removed " + h.path("/etc/systemd/system/multi-user.target.wants/nodemend-runner.service")} {
		if !slices.Contains(done, want) {
			t.Errorf("done is %q, want %q", done, want)
		}
	}
	if left := h.leftovers(booted); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
	if gone := h.state(); gone.LoadState != "not-found" {
		t.Errorf("removed: %+v", gone)
	}
	if done, err := Remove(t.Context(), h.options); err != nil || len(done) > 0 {
		t.Errorf("a second time: %q, %v", done, err)
	}
}

func TestOnARealHostAnInstallerThatEndsLeavesTheUnitRunning(t *testing.T) {
	h, _ := newRealHost(t, Detector)
	h.options.HealthAddress = loopback.Address(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, h.options) }()
	eventually(t, "it is ready", func() bool {
		response, err := http.Get("http://" + h.options.HealthAddress + "/readyz")
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
	running := h.state()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if after := h.state(); after != running || after.ActiveState != "active" {
		t.Errorf("then %+v, before %+v", after, running)
	}
}

func TestOnARealHostAProgramThatDoesNotStartIsAnErrorWithItsState(t *testing.T) {
	for name, test := range map[string]struct{ program, want string }{
		"ends at once":     {"#!/bin/sh\nexit 2\n", "activating (auto-restart), the last result is exit-code, the last exit status 2"},
		"no interpreter":   {"#!/no/such/shell\n", "the last exit status 203"},
		"dies after start": {"#!/bin/sh\nsleep 1.5\nexit 3\n", "the last exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := newRealHost(t, Runner)
			h.program(test.program)
			_, err := h.installer().converge(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "journalctl -u nodemend-runner.service") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestOnARealHostAFrozenSystemdDelaysNoToken(t *testing.T) {
	h, booted := newRealHost(t, Runner)
	h.install()
	thaw := booted.Freeze(t)
	h.renew("token-2", "ca-1")
	if _, err := h.installer().converge(t.Context()); err == nil || !strings.Contains(err.Error(), "systemd does not answer") {
		t.Errorf("got %v", err)
	}
	if got := h.read("/var/lib/nodemend/runner.token"); got != "token-2" {
		t.Errorf("the token is %q", got)
	}
	thaw()
}

func TestOnAFullDiskTheOldProgramStays(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	virtually(t, fillTheDisk)
}

func fillTheDisk(t *testing.T, h *host) {
	h.install()
	full := h.path("/full")
	if err := os.Mkdir(full, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", full, "tmpfs", 0, "size=64k,mode=755"); err != nil {
		t.Skip("no file system can be mounted here: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(full, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	h.options.BinDir = "/full"
	h.install()
	before := h.read("/full/nodemend-runner")
	h.program(strings.Repeat("too large", 64<<10))
	h.renew("token-2", "ca-1")
	_, err := h.installer().converge(t.Context())
	if err == nil || !strings.Contains(err.Error(), "writing "+h.path("/full/nodemend-runner")) || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("got %v", err)
	}
	if got := h.read("/full/nodemend-runner"); got != before {
		t.Errorf("the program is now %.20q", got)
	}
	entries, err := os.ReadDir(full)
	if err != nil || len(entries) != 1 {
		t.Errorf("left are %v, %v", entries, err)
	}
	if got := h.read("/var/lib/nodemend/runner.token"); got != "token-2" {
		t.Errorf("the token is %q", got)
	}
}
