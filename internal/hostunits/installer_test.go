package hostunits

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// virtually runs a test in virtual time: waiting for a unit to settle takes none.
func virtually(t *testing.T, f func(t *testing.T, h *host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newHost(t)) })
}

func TestEverythingIsInstalledWithItsModeAndTheUnitStarted(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		h.options.Args = []string{"--metrics-address=:9102"}
		h.install()
		want := map[string]os.FileMode{
			"/etc/nodemend/runner.kubeconfig":             0o600,
			"/etc/systemd/system/nodemend-runner.service": 0o644,
			"/opt/nodemend/bin/nodemend-runner":           0o755,
			"/var/lib/nodemend/runner.ca.crt":             0o644,
			"/var/lib/nodemend/runner.installed":          0o600,
			"/var/lib/nodemend/runner.token":              0o600,
		}
		for _, name := range h.names() {
			info, err := os.Lstat(h.path(name))
			if err != nil || info.Mode() != want[name] {
				t.Errorf("%s has mode %v, %v, want %v", name, info.Mode(), err, want[name])
			}
			delete(want, name)
		}
		if len(want) > 0 {
			t.Errorf("missing are %v", want)
		}
		if got := h.read("/opt/nodemend/bin/nodemend-runner"); got != "version one" {
			t.Errorf("the program is %q", got)
		}
		command := "\nExecStart=/opt/nodemend/bin/nodemend-runner runner --kubeconfig=/etc/nodemend/runner.kubeconfig --node-name=node-a --host-root=/ --metrics-address=:9102\n"
		if unit := h.read("/etc/systemd/system/nodemend-runner.service"); !strings.Contains(unit, command) {
			t.Errorf("the unit lacks %q:\n%s", command, unit)
		}
		if got := h.systemd.took(); got != "enable nodemend-runner.service, restart nodemend-runner.service" {
			t.Errorf("systemd was asked to %s", got)
		}
	})
}

func TestTheKubeconfigLeadsToTheFilesOfTheHost(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		h.install()
		config, err := clientcmd.LoadFromFile(h.path("/etc/nodemend/runner.kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		current := config.Contexts[config.CurrentContext]
		cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
		if cluster.Server != "https://10.0.0.2:6443" || cluster.CertificateAuthority != "/var/lib/nodemend/runner.ca.crt" || user.TokenFile != "/var/lib/nodemend/runner.token" {
			t.Errorf("got %+v and %+v", cluster, user)
		}
	})
}

func TestASecondInstallationChangesAndRestartsNothing(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		h.install()
		h.systemd.took()
		before := h.tree()
		h.install()
		if after := h.tree(); !slices.Equal(before, after) {
			t.Errorf("before\n%q\nafter\n%q", before, after)
		}
		if calls := h.systemd.took(); calls != "" {
			t.Errorf("systemd was asked to %s", calls)
		}
	})
}

func TestOnlyWhatTheProcessDoesNotReadAgainRestartsIt(t *testing.T) {
	const restart, both = "restart nodemend-runner.service", "enable nodemend-runner.service, restart nodemend-runner.service"
	for name, test := range map[string]struct {
		change func(h *host)
		want   string
	}{
		"another token":           {func(h *host) { h.renew("token-2", "ca-1") }, ""},
		"another CA":              {func(h *host) { h.renew("token-1", "ca-2") }, ""},
		"another program":         {func(h *host) { h.program("version two") }, restart},
		"another API server":      {func(h *host) { h.options.Server = "https://10.0.0.3:6443" }, restart},
		"another flag":            {func(h *host) { h.options.Args = []string{"-v=4"} }, both},
		"the program is gone":     {func(h *host) { h.remove("/opt/nodemend/bin/nodemend-runner") }, restart},
		"the program was changed": {func(h *host) { h.put(h.path("/opt/nodemend/bin/nodemend-runner"), "a stranger") }, restart},
		"its mode was changed":    {func(h *host) { h.chmod("/opt/nodemend/bin/nodemend-runner", 0o644) }, restart},
		"the token is readable":   {func(h *host) { h.chmod("/var/lib/nodemend/runner.token", 0o644) }, ""},
		"the unit was changed":    {func(h *host) { h.put(h.path("/etc/systemd/system/nodemend-runner.service"), "[Service]") }, restart},
		"the unit is gone":        {func(h *host) { h.remove("/etc/systemd/system/nodemend-runner.service") }, restart},
		"it was disabled":         {func(h *host) { h.systemd.enabled = false }, "enable nodemend-runner.service"},
		"it was stopped":          {func(h *host) { h.systemd.active = "" }, restart},
		"it has failed":           {func(h *host) { h.systemd.active = "failed" }, restart},
		"killed before a restart": {func(h *host) { h.remove("/var/lib/nodemend/runner.installed") }, restart},
		"the record is broken":    {func(h *host) { h.put(h.path("/var/lib/nodemend/runner.installed"), "{") }, restart},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, h *host) {
				h.install()
				h.systemd.took()
				test.change(h)
				h.install()
				if got := h.systemd.took(); got != test.want {
					t.Errorf("systemd was asked to %q, want %q", got, test.want)
				}
				repaired := newReference(t, h)
				if got := h.content(); got != repaired {
					t.Errorf("the host has\n%s\na new one would have\n%s", got, repaired)
				}
			})
		})
	}
}

// newReference is the content of a new host with the same options.
func newReference(t *testing.T, h *host) string {
	t.Helper()
	fresh := newHost(t)
	options := h.options
	options.HostRoot, options.Systemd = fresh.root, fresh.systemd
	fresh.options = options
	fresh.install()
	return fresh.content()
}

// content is that of all files with their modes.
func (h *host) content() string {
	h.t.Helper()
	var all strings.Builder
	for _, name := range h.names() {
		info, err := os.Lstat(h.path(name))
		if err != nil {
			h.t.Fatal(err)
		}
		all.WriteString(name + " " + info.Mode().String() + " " + h.read(name) + "\n")
	}
	return all.String()
}

func (h *host) remove(file string) {
	h.t.Helper()
	if err := os.Remove(h.path(file)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) chmod(file string, mode os.FileMode) {
	h.t.Helper()
	if err := os.Chmod(h.path(file), mode); err != nil {
		h.t.Fatal(err)
	}
}

func TestAnInstallerSeesAProgramThatWasChangedUnderIt(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		i := h.installer()
		for range 3 {
			for range 2 { // the second one finds it as it should be
				if _, err := i.converge(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if got := h.read("/opt/nodemend/bin/nodemend-runner"); got != "version one" {
				t.Errorf("the program is %q", got)
			}
			h.put(h.path("/opt/nodemend/bin/nodemend-runner"), "version six") // as long
		}
	})
}

func TestWhatWasInstalledButNotStartedIsStartedTheNextTime(t *testing.T) {
	for name, change := range map[string]func(h *host){
		"program":    func(h *host) { h.program("version two") },
		"kubeconfig": func(h *host) { h.options.Server = "https://10.0.0.3:6443" },
		"unit":       func(h *host) { h.options.Args = []string{"-v=4"} },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, h *host) {
				h.install()
				change(h)
				h.systemd.fail(errors.New("systemd does not answer"))
				if _, err := h.installer().converge(t.Context()); err == nil {
					t.Error("no error")
				}
				h.systemd.fail(nil)
				h.systemd.took()
				h.install()
				if got := h.systemd.took(); !strings.HasSuffix(got, "restart nodemend-runner.service") {
					t.Errorf("systemd was asked to %q", got)
				}
			})
		})
	}
}

// It may have to be removed.
func TestTheProgramOfAnInstallationThatWasCutShortIsKnown(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		h.options.BinDir = "/usr/local/bin"
		h.systemd.fail(errors.New("systemd does not answer"))
		if _, err := h.installer().converge(t.Context()); err == nil {
			t.Error("no error")
		}
		if got := readRecord(h.path("/var/lib/nodemend/runner.installed")); got != (record{Program: "/usr/local/bin/nodemend-runner"}) {
			t.Errorf("got %+v", got)
		}
	})
}

func TestOnlyFilesWithTheSameContentAreEqual(t *testing.T) {
	const block = 64 << 10
	long := strings.Repeat("a", 2*block+5)
	for name, test := range map[string]struct {
		a, b string
		want bool
	}{
		"empty":                     {"", "", true},
		"the same":                  {long, long, true},
		"of whole blocks":           {long[:2*block], long[:2*block], true},
		"shorter":                   {long, long[:len(long)-1], false},
		"shorter by its last block": {long, long[:2*block], false},
		"longer":                    {long[:block], long, false},
		"another first byte":        {long, "b" + long[1:], false},
		"another last byte":         {long, long[1:] + "b", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range map[string]string{"a": test.a, "b": test.b} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := equal(filepath.Join(dir, "a"), filepath.Join(dir, "b")); got != test.want || err != nil {
				t.Errorf("got %t, %v", got, err)
			}
		})
	}
}

func TestAProgramThatIsReplacedIsNeverHalfThere(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		h.install()
		old, err := os.Open(h.path("/opt/nodemend/bin/nodemend-runner")) // as a process has it
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = old.Close() }() // was only read
		h.program("version two")
		h.install()
		content := make([]byte, 100)
		if n, _ := old.Read(content); string(content[:n]) != "version one" {
			t.Errorf("the running program was overwritten with %q", content[:n])
		}
	})
}

func TestWhatAKilledInstallerHasLeftIsRemoved(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		h.install()
		h.put(h.path("/opt/nodemend/bin/.nodemend-runner.123"), "half")
		h.program("version two")
		h.install()
		if names := h.names(); slices.Contains(names, "/opt/nodemend/bin/.nodemend-runner.123") {
			t.Errorf("left are %q", names)
		}
	})
}

func TestATokenIsCopiedEvenIfTheRestFails(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		i := h.installer()
		h.put(h.path("opt"), "in the way")
		if _, err := i.converge(t.Context()); err == nil || !strings.Contains(err.Error(), "/opt") {
			t.Errorf("got %v", err)
		}
		if got := h.read("/var/lib/nodemend/runner.token"); got != "token-1" {
			t.Errorf("the token is %q", got)
		}
	})
}

func TestNothingIsInstalledWhereOthersThanRootMayWrite(t *testing.T) {
	for dir, mode := range map[string]os.FileMode{
		"/opt": 0o775, "/opt/nodemend/bin": 0o757, "/etc/systemd/system": 0o777 | os.ModeSticky, "/etc/nodemend": 0o775, "/srv": 0o777, "/srv/opt": 0o775, "/": 0o777,
	} {
		t.Run(dir, func(t *testing.T) {
			virtually(t, func(t *testing.T, h *host) {
				if strings.HasPrefix(dir, "/srv") {
					h.must(os.Symlink("/srv/opt", h.path("opt")))
				}
				place := filepath.Join(h.root, dir)
				h.must(os.MkdirAll(place, 0o755))
				h.must(os.Chmod(place, mode))
				_, err := h.installer().converge(t.Context())
				if err == nil || !strings.Contains(err.Error(), "chown root "+dir+" && chmod go-w "+dir) {
					t.Errorf("got %v", err)
				}
				if called := h.systemd.took(); called != "" {
					t.Errorf("systemd was asked to %s", called)
				}
				h.must(os.Chmod(place, 0o755))
				h.install()
			})
		})
	}
}

func TestNoTokenIsCopiedToWhereOthersThanRootMayWrite(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		h.must(os.MkdirAll(h.path("var/lib/nodemend"), 0o755))
		h.must(os.Chmod(h.path("var/lib"), 0o775))
		if _, err := h.installer().converge(t.Context()); err == nil || !strings.Contains(err.Error(), "could replace /var/lib/nodemend/runner.token") {
			t.Errorf("got %v", err)
		}
		if names := h.names(); len(names) > 0 {
			t.Errorf("written are %q", names)
		}
	})
}

func TestAnEmptyOrMissingTokenLeavesTheHostsAlone(t *testing.T) {
	for name, spoil := range map[string]func(h *host){
		"empty":    func(h *host) { h.renew(" \n", "ca-1") },
		"empty CA": func(h *host) { h.renew("token-2", "") },
		"missing":  func(h *host) { _ = os.Remove(filepath.Join(h.options.Credentials, "..data")) },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, h *host) {
				h.install()
				spoil(h)
				if _, err := h.installer().converge(t.Context()); err == nil || !strings.Contains(err.Error(), h.options.Credentials) {
					t.Errorf("got %v", err)
				}
				if got := h.read("/var/lib/nodemend/runner.token"); got != "token-1" {
					t.Errorf("the token is %q", got)
				}
			})
		})
	}
}

func TestAUnitThatDoesNotStayRunningIsAnErrorThatShowsItsState(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		h.systemd.dies = true
		_, err := h.installer().converge(t.Context())
		want := "nodemend-runner.service does not stay running: it is activating (auto-restart), the last result is exit-code, the last exit status 2"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		h.systemd.took()
		if _, again := h.installer().converge(t.Context()); again == nil || again.Error() != err.Error() {
			t.Errorf("the next time it is %v", again)
		}
		h.systemd.dies = false
		h.install()
		if got := h.systemd.took(); got != "" {
			t.Errorf("systemd, which tries by itself, was asked to %q", got)
		}
	})
}

func TestAUnitThatIsANewProcessAtEachLookDoesNotStayRunning(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		h.systemd.flaps = true
		for range 2 { // the pod is started again
			if _, err := h.installer().converge(t.Context()); err == nil || !strings.Contains(err.Error(), "does not stay running") {
				t.Errorf("got %v", err)
			}
		}
	})
}

// The node has lost its power, and has started the unit when it booted.
func TestAUnitThatWasNotSeenToStayRunningIsLookedAtAndNotStartedOnceMore(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		ctx, loss := context.WithTimeout(t.Context(), settleInterval+settleInterval/2)
		defer loss()
		if _, err := h.installer().converge(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		if got := h.systemd.took(); got != "enable nodemend-runner.service, restart nodemend-runner.service" {
			t.Fatalf("systemd was asked to %q", got)
		}
		for _, want := range []time.Duration{(settleLooks - 1) * settleInterval, 0} {
			begun := time.Now()
			h.install()
			if got := h.systemd.took(); got != "" {
				t.Errorf("systemd was asked to %q", got)
			}
			if took := time.Since(begun); took != want {
				t.Errorf("it was looked at for %s, want %s", took, want)
			}
		}
	})
}

func TestAUnitThatSystemdRestartsIsLeftToSystemd(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		h.install()
		h.systemd.took()
		h.systemd.dies = true
		if _, err := h.installer().converge(t.Context()); err == nil {
			t.Error("no error")
		}
		if got := h.systemd.took(); got != "" {
			t.Errorf("systemd was asked to %q", got)
		}
	})
}

func TestAMaskedUnitIsLeftAlone(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		h.install()
		h.systemd.took()
		h.remove("/etc/systemd/system/nodemend-runner.service")
		if err := os.Symlink("/dev/null", h.path("/etc/systemd/system/nodemend-runner.service")); err != nil {
			t.Fatal(err)
		}
		if _, err := h.installer().converge(t.Context()); err == nil || !strings.Contains(err.Error(), "systemctl unmask nodemend-runner.service") {
			t.Errorf("got %v", err)
		}
		if got := h.systemd.took(); got != "" {
			t.Errorf("systemd was asked to %q", got)
		}
	})
}
