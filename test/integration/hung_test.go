//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/systemd"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

// runtimeUnit plays the runtime: it serves as "sleep", and stops itself before that
// as long as it is wedged.
const runtimeUnit = `[Service]
ExecStart=/bin/sh -c 'echo started >> /run/%[1]s.starts; while [ -e /run/%[1]s.wedged ]; do kill -STOP $$$$; done; exec sleep 1000'
`

// hung is a unit of a real systemd that hangs.
type hung struct {
	s    *scene
	host *systemd.Host
	unit string
}

func (s *scene) hung() *hung {
	return &hung{s: s, host: systemdtest.Shared(s.t), unit: s.name + ".service"}
}

// begin starts the unit, stops its process, and makes the node sick by that.
func (h *hung) begin(steps ...v1alpha1.Step) {
	h.s.bus = h.host.Bus()
	h.s.Expect(h.host.Unit(h.s.ctx, h.unit, fmt.Sprintf(runtimeUnit, h.s.name))).To(Succeed())
	h.s.t.Cleanup(func() {
		ctx := context.WithoutCancel(h.s.ctx)
		_, _ = h.host.Run(ctx, "systemctl", "kill", "--signal=KILL", h.unit)
	})
	h.systemctl("start", h.unit)
	h.s.Eventually(h.hangs).Should(BeFalse())
	h.note("before")
	pid := strings.TrimSpace(h.procs())
	h.s.Expect(os.WriteFile(h.run("hung"), []byte(pid), 0o600)).To(Succeed())
	var number int
	h.s.Expect(fmt.Sscan(pid, &number)).To(Equal(1))
	h.s.Expect(syscall.Kill(number, syscall.SIGSTOP)).To(Succeed())
	h.s.Eventually(h.hangs).Should(BeTrue())

	h.s.policy(steps...)
	h.s.detectBy(h.s.nodes[0], h.hangs)
	h.s.startRunners()
}

// run returns the path outside of a file that the unit finds in /run.
func (h *hung) run(suffix string) string {
	return filepath.Join(h.host.RunDir(), h.s.name+"."+suffix)
}

// cgroup returns the file with the processes of the unit.
func (h *hung) cgroup() string {
	return filepath.Join(h.host.Cgroup(), "system.slice", h.unit, "cgroup.procs")
}

// procs returns the processes of the unit, "" when it has none.
func (h *hung) procs() string {
	pids, err := os.ReadFile(h.cgroup())
	if err != nil {
		return ""
	}
	return string(pids)
}

// hangs is the detector's check: does the runtime serve?
func (h *hung) hangs() bool {
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(h.procs()) + "/stat")
	return err != nil || !strings.Contains(string(stat), "(sleep) S")
}

func (h *hung) systemctl(args ...string) string {
	out, err := h.host.Run(h.s.ctx, append([]string{"systemctl"}, args...)...)
	h.s.Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(out))
}

// identity returns the unit's main process and invocation.
func (h *hung) identity() []string {
	return strings.Split(h.systemctl("show", "--property=MainPID,InvocationID", "--value", h.unit), "\n")
}

// note keeps the unit's identity in a file of the scene.
func (h *hung) note(file string) {
	h.s.Expect(os.WriteFile(h.s.path(file), []byte(strings.Join(h.identity(), "\n")), 0o600)).To(Succeed())
}

// expectRestarted expects that the unit was restarted once and serves, that the
// action tells so, and that the condition has cleared.
func (h *hung) expectRestarted() {
	h.s.t.Helper()
	node := h.s.nodes[0]
	starts, err := os.ReadFile(h.run("starts"))
	h.s.Expect(err).NotTo(HaveOccurred())
	h.s.Expect(strings.Count(string(starts), "\n")).To(Equal(2), "starts of the unit")
	h.s.Expect(h.hangs()).To(BeFalse())

	before, err := os.ReadFile(h.s.path("before"))
	h.s.Expect(err).NotTo(HaveOccurred())
	was, is := strings.Split(string(before), "\n"), h.identity()
	var action *v1alpha1.NodeAction
	for _, a := range h.s.actions(node) {
		if a.Spec.Step == 1 {
			h.s.Expect(action).To(BeNil(), "actions of step 1")
			action = &a
		}
	}
	h.s.Expect(action).NotTo(BeNil())
	unit := action.Status.Result.Unit
	h.s.Expect([]string{fmt.Sprint(unit.MainPIDBefore), action.Status.Claim.InvocationID}).To(Equal(was))
	h.s.Expect([]string{fmt.Sprint(unit.MainPIDAfter), unit.InvocationIDAfter}).To(Equal(is))
	h.s.Expect(is[0]).NotTo(Equal(was[0]), "main process")
	h.s.Expect(is[1]).NotTo(Equal(was[1]), "invocation")

	var n corev1.Node
	h.s.Expect(h.s.client.Get(h.s.ctx, types.NamespacedName{Name: node}, &n)).To(Succeed())
	cleared := v1alpha1.FindNodeCondition(&n, sick)
	h.s.Expect(cleared.Status).To(Equal(corev1.ConditionFalse))
	h.s.Expect(cleared.LastTransitionTime.Before(&action.CreationTimestamp)).To(BeFalse(), "cleared after the action began")
	h.s.Expect(h.s.state(node)).To(Equal(v1alpha1.ReasonRecovered))
	h.s.Eventually(h.s.permits).Should(BeEmpty())
}

// restartStep restarts the unit of the scene.
func (h *hung) restartStep() v1alpha1.Step {
	return v1alpha1.Step{
		RestartUnit: &v1alpha1.RestartUnitRemedy{Name: h.unit},
		Timeout:     duration(20 * time.Second), VerifyTimeout: duration(3 * time.Second), Attempts: 1,
	}
}

func TestTheRestartOfAHungRuntimeIsProvedByItsUnit(t *testing.T) {
	t.Parallel()
	s := newSceneApart(t, "proved", 1, "1")
	h := s.hung()
	h.begin(h.restartStep(), shell("echo ran >> "+s.path("second")))
	s.startController()
	s.Eventually(func() bool { return s.ended(s.nodes[0]) }).Should(BeTrue())
	h.expectRestarted()
	s.expectHistory("1/1 Succeeded")
	s.Expect(s.lines("second")).To(BeZero())
	r := s.remediations(s.nodes[0])[0]
	s.Expect(r.Status.History[0].Remedy).To(Equal(v1alpha1.RemedyRestartUnit))
	s.Expect(s.actions(s.nodes[0])[0].Status.Result.Execution).To(Equal(v1alpha1.ExecutionSystemd))
	s.Expect(r.Status.EndTime.Before(&r.Status.History[0].FinishedAt)).To(BeFalse())
}
