//go:build integration

package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/cgroup"
	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner/remedy"
	host "github.com/nodemend/nodemend/test/systemd"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

// scene is a remedy that acts on a booted systemd, in one way of execution.
type scene struct {
	testing.TB
	host *host.Host
	opts Options
	*Remedy
}

// newScene skips the test where no systemd can be booted.
func newScene(t testing.TB, mode Mode) *scene {
	t.Helper()
	return sceneOn(t, systemdtest.Shared(t), mode)
}

// ownScene has a systemd for itself, which may be slow, frozen or reloaded. The test runs
// beside others.
func ownScene(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	return sceneOn(t, systemdtest.Own(t), TransientUnit)
}

func sceneOn(t testing.TB, h *host.Host, mode Mode) *scene {
	t.Helper()
	// As on a node, the runner's directory has the same path inside.
	dir := filepath.Join(h.RunDir(), "runner")
	if _, err := h.Run(t.Context(), "sh", "-c", fmt.Sprintf("[ -e %[1]s ] || { mkdir -p %[1]s && mount --bind /run %[1]s; }", h.RunDir())); err != nil {
		t.Fatal(err)
	}
	proc := t.TempDir()
	if err := os.Symlink(fmt.Sprintf("/proc/%d", h.PID()), filepath.Join(proc, "1")); err != nil {
		t.Fatal(err)
	}
	opts := Options{Dialer: systemd.Dialer{Bus: h.Bus(), Private: systemdtest.Private(t, h)}, Execution: mode, Dir: dir, HostProc: proc, Cgroup: h.Cgroup()}
	return &scene{TB: t, host: h, opts: opts, Remedy: New(opts)}
}

// both runs a test with either execution.
func both(t *testing.T, test func(*scene)) {
	for _, mode := range []Mode{TransientUnit, Direct} {
		t.Run(string(mode), func(t *testing.T) { test(newScene(t, mode)) })
	}
}

// bothAtOnce is both for a test that mostly waits, and runs beside others.
func bothAtOnce(t *testing.T, test func(*scene)) {
	t.Parallel()
	for _, mode := range []Mode{TransientUnit, Direct} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			test(newScene(t, mode))
		})
	}
}

// order returns an order for a script, whose remains are removed after the test.
func (s *scene) order(script string, change ...func(*remedy.Order)) remedy.Order {
	s.Helper()
	id := string(uuid.NewUUID())
	o := remedy.Order{
		Action: "test." + id, UID: types.UID(id), StartedAt: time.Now(),
		Env: []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"},
		Step: v1alpha1.Step{
			Command: &v1alpha1.CommandRemedy{Script: script},
			Timeout: v1alpha1.Duration{Duration: time.Minute},
		},
	}
	for _, f := range change {
		f(&o)
	}
	prepared, outcome := s.Prepare(s.Context(), o)
	if outcome != nil {
		s.Fatal("preparing: ", outcome.Message)
	}
	o.Prepared = prepared
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), time.Minute)
		defer cancel()
		if err := s.Clean(ctx, o); err != nil {
			s.Error("cleaning: ", err)
		}
	})
	return o
}

// shortTimeout is the least that a policy can say.
func shortTimeout(o *remedy.Order) { o.Step.Timeout.Duration = time.Second }

func words(argv ...string) func(*remedy.Order) {
	return func(o *remedy.Order) { o.Step.Command = &v1alpha1.CommandRemedy{Argv: argv} }
}

// run executes a script.
func (s *scene) run(script string, change ...func(*remedy.Order)) *remedy.Outcome {
	s.Helper()
	return s.Execute(s.Context(), s.order(script, change...))
}

// expect checks an outcome's reason and how its message begins.
func (s *scene) expect(got *remedy.Outcome, reason, message string) *v1alpha1.ActionResult {
	s.Helper()
	if got == nil {
		s.Fatalf("got no outcome, want %s %q", reason, message)
	}
	if got.Reason != reason || !strings.HasPrefix(got.Message, message) {
		s.Fatalf("got %s %q, want %s %q…", got.Reason, got.Message, reason, message)
	}
	if got.Result == nil {
		return &v1alpha1.ActionResult{}
	}
	return got.Result
}

// group is the control group of an order, as seen from outside.
func (s *scene) group(order remedy.Order) cgroup.Group {
	if order.Prepared.Execution == v1alpha1.ExecutionDirect {
		return s.directGroup(unitOf(order))
	}
	return s.unitGroup(unitOf(order), "")
}

// pids returns the processes of an order. There are some.
func (s *scene) pids(order remedy.Order) []string {
	s.Helper()
	list, err := os.ReadFile(filepath.Join(string(s.group(order)), "cgroup.procs"))
	if err != nil || len(list) == 0 {
		s.Fatalf("no processes: %v", err)
	}
	return strings.Fields(string(list))
}

func (s *scene) expectNothingLeft(order remedy.Order) {
	s.Helper()
	if s.group(order).Populated() {
		s.Errorf("left are the processes %q", s.pids(order))
	}
}

// gate is a named pipe that test and command meet at.
type gate struct {
	*scene
	outside, inside string
}

func (s *scene) fifo(name string) gate {
	s.Helper()
	name = "test-" + name + "-" + string(uuid.NewUUID())
	g := gate{scene: s, outside: filepath.Join(s.host.RunDir(), name), inside: "/run/" + name}
	if err := unix.Mkfifo(g.outside, 0o600); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.Remove(g.outside) })
	return g
}

// await returns when the command has written to the gate.
func (g gate) await() {
	g.Helper()
	file := g.open()
	if err := file.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		g.Fatal(err)
	}
	if _, err := file.Read(make([]byte, 64)); err != nil {
		g.Fatal("waiting for the command: ", err)
	}
}

// release lets the command read a line.
func (g gate) release() {
	g.Helper()
	if _, err := g.open().WriteString("\n"); err != nil {
		g.Fatal(err)
	}
}

// open waits for nobody. The gate is open until the test ends.
func (g gate) open() *os.File {
	g.Helper()
	file, err := os.OpenFile(g.outside, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { _ = file.Close() })
	return file
}

func (s *scene) reload() {
	s.Helper()
	if _, err := s.host.Run(s.Context(), "systemctl", "daemon-reload"); err != nil {
		s.Fatal(err)
	}
}
