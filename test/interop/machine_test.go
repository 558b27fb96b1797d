//go:build integration

package interop

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/runner/command"
	"github.com/nodemend/nodemend/test/process"
)

// machine plays the one of a node: it runs a real runner, and boots anew when that asks the kernel for a reset,
// or when somebody else has given the node another boot ID. A detector that is played says what is wrong with it.
// With its node it is gone.
type machine struct {
	w    *world
	node string
	dir  string
	// kernel is the other end of the runner's SysRq, a pipe. That of this computer is out of its reach.
	kernel *os.File
	// boot is the ID of the present one; "": it has never run.
	boot string
	// resets is how often the runner has had it reset.
	resets atomic.Int32
	// onReset is called before the boot that follows a reset, onBoot before each.
	onReset, onBoot func()

	mu     sync.Mutex
	faults map[string]corev1.NodeCondition
}

// machine is that of a node, switched off.
func (w *world) machine(node string) *machine {
	w.t.Helper()
	m := &machine{
		w: w, node: node, dir: w.t.TempDir(), faults: map[string]corev1.NodeCondition{},
		onReset: func() {}, onBoot: func() {},
	}
	w.Expect(unix.Mkfifo(m.sysrq(), 0o600)).To(Succeed())
	var err error
	m.kernel, err = os.OpenFile(m.sysrq(), os.O_RDWR, 0)
	w.Expect(err).NotTo(HaveOccurred())
	w.t.Cleanup(func() { _ = m.kernel.Close() })
	return m
}

// start switches it on, until the test ends.
func (m *machine) start() {
	m.w.t.Helper()
	m.w.spawn("machine of "+m.node, m.run)
	m.w.spawn("detector of "+m.node, m.detect)
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

func (m *machine) sysrq() string { return m.path("sysrq") }

// set has the detector say from now on whether a condition is True.
func (m *machine) set(kind string, is bool) { m.setSince(kind, is, time.Now()) }

// setSince has it say so, and that it has been so since then.
func (m *machine) setSince(kind string, is bool, since time.Time) {
	c := corev1.NodeCondition{
		Type: corev1.NodeConditionType(kind), Status: corev1.ConditionFalse, Reason: "Test", Message: "reported by a test",
		LastTransitionTime: metav1.NewTime(since),
	}
	if is {
		c.Status = corev1.ConditionTrue
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.faults[kind].Status != c.Status {
		m.faults[kind] = c
	}
}

func (m *machine) detect(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		var said []corev1.NodeCondition
		m.mu.Lock()
		for _, c := range m.faults {
			c.LastHeartbeatTime = metav1.Now()
			said = append(said, c)
		}
		m.mu.Unlock()
		if len(said) > 0 {
			err := m.patch(ctx, types.StrategicMergePatchType, map[string]any{"conditions": said})
			if apierrors.IsNotFound(err) || ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// patch changes the node's status.
func (m *machine) patch(ctx context.Context, kind types.PatchType, status map[string]any) error {
	data, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	return m.w.client.Status().Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.node}}, client.RawPatch(kind, data))
}

// run boots it again and again.
func (m *machine) run(ctx context.Context) error {
	for {
		is, err := m.boots(ctx)
		if err == nil && is {
			is, err = m.runs(ctx)
		}
		if ctx.Err() != nil || !is && err == nil {
			return nil //nolint:nilerr // it is switched off
		}
		if err != nil {
			return err
		}
	}
}

// boots gives it a boot with an ID of its own, which its node has from then on, and reports whether there is a
// node. Another one that somebody has given that, such as Karpenter's provider for kwok, may be longer than any of
// a kernel.
func (m *machine) boots(ctx context.Context) (is bool, err error) {
	id := string(uuid.NewUUID())
	err = m.patch(ctx, types.MergePatchType, map[string]any{"nodeInfo": map[string]any{"bootID": id}})
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if m.boot != "" {
		m.onBoot()
	}
	m.boot = id
	// Nothing below /run outlives a boot.
	return true, errors.Join(os.RemoveAll(m.path("run")), os.WriteFile(m.path("boot_id"), []byte(id), 0o600))
}

// bootID is that of the node, and whether there is one.
func (m *machine) bootID(ctx context.Context) (id string, is bool, err error) {
	var node corev1.Node
	if err := m.w.client.Get(ctx, types.NamespacedName{Name: m.node}, &node); err != nil {
		return "", false, client.IgnoreNotFound(err)
	}
	return node.Status.NodeInfo.BootID, true, nil
}

// runs has the runner run, until the next boot. It reports whether there is one.
func (m *machine) runs(ctx context.Context) (again bool, err error) {
	running, down := context.WithCancel(ctx)
	defer down()
	proc, err := process.OwnProc(m.dir)
	if err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- runner.Run(running, m.account(), runner.Options{
			NodeName: m.node, Execution: command.Direct, Proc: proc, RunDir: m.path("run"),
			SysRqPath: m.sysrq(), BootIDPath: m.path("boot_id"),
			Systemd: &systemd.Dialer{}, DetectorSocket: m.path("detector.sock"),
		})
	}()
	reset, again, err := m.untilBoot(ctx)
	down()
	if err := errors.Join(err, <-ended); err != nil || !reset {
		return again, err
	}
	m.resets.Add(1)
	m.onReset()
	return true, nil
}

// untilBoot returns when the runner has the machine reset, when its node has another boot ID, or, and
// then there is no boot, when the node is gone.
func (m *machine) untilBoot(ctx context.Context) (reset, again bool, err error) {
	asked := make([]byte, 1)
	for ctx.Err() == nil {
		if err := m.kernel.SetReadDeadline(time.Now().Add(poll)); err != nil {
			return false, false, err
		}
		switch _, err := m.kernel.Read(asked); {
		case err == nil && asked[0] == 'b':
			return true, true, nil
		case err == nil:
			continue
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return false, false, err
		}
		id, is, err := m.bootID(ctx)
		if err != nil || !is || id != m.boot {
			return false, is, err
		}
	}
	return false, false, nil
}

// account is what the token of the runner's pod on the node says.
func (m *machine) account() *rest.Config {
	cfg := m.w.cluster.UserConfig("system:serviceaccount:" + namespace + ":nodemend-runner")
	cfg.Impersonate.Extra = map[string][]string{
		"authentication.kubernetes.io/node-name": {m.node},
		"authentication.kubernetes.io/pod-name":  {"nodemend-runner-" + m.node},
	}
	return cfg
}
