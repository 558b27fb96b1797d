//go:build integration

package integration

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/deploy"
)

// symptom is a condition that a fault shows, so long after it began.
type symptom struct {
	condition, reason string
	after             time.Duration
}

// What the faults of real nodes show, as docs/checks.md tells.
var (
	runtimeHangs = []symptom{
		{condition: "ContainerRuntimeUnhealthy", reason: "Timeout", after: 30 * time.Second},
		{condition: "PLEGUnhealthy", reason: "RuntimeStalled", after: 30 * time.Second},
		{condition: "Ready", after: 3 * time.Minute},
		{condition: "KubeletUnhealthy", reason: "SyncLoopFailed", after: 8 * time.Minute},
	}
	shimHangs = []symptom{
		{condition: "PLEGUnhealthy", reason: "RelistOutdated", after: time.Minute},
		{condition: "Ready", after: 3 * time.Minute},
		{condition: "KubeletUnhealthy", reason: "SyncLoopFailed", after: 8 * time.Minute},
	}
	kubeletHangs = []symptom{
		{condition: "KubeletUnhealthy", reason: "HealthzTimeout", after: 30 * time.Second},
	}
	kernelHangs = []symptom{
		{condition: "ContainerRuntimeUnhealthy", reason: "Timeout", after: 30 * time.Second},
		{condition: "KernelDeadlock", reason: "DockerHung", after: 2 * time.Minute},
	}
	fanFails      = []symptom{{condition: "HardwareFailure", reason: "FanFailure"}}
	diskIsFull    = []symptom{{condition: "DiskPressure", reason: "KubeletHasDiskPressure"}}
	diskIsBroken  = []symptom{{condition: "ReadonlyFilesystem", reason: "FilesystemIsReadOnly"}}
	kubeletUnwell = []symptom{{condition: "Ready"}}
)

func TestEveryShippedPolicyHealsTheFaultThatItIsForAndTheGentlestActsFirst(t *testing.T) {
	t.Parallel()
	const restart, command, reboot = v1alpha1.RemedyRestartUnit, v1alpha1.RemedyCommand, v1alpha1.RemedyReboot
	for _, test := range []struct {
		name string
		// symptoms of the fault; none: the machine is switched off.
		symptoms []symptom
		// cure is the remedy that helps; "": a repair, once the node is out of service.
		cure string
		// want is what was executed, in the order of time, as policy, step and attempt.
		want []string
	}{
		{
			name: "a-hung-runtime", symptoms: runtimeHangs, cure: restart,
			want: []string{"container-runtime 1/1"},
		},
		{
			name: "a-runtime-that-hangs-again", symptoms: runtimeHangs, cure: reboot,
			want: []string{
				"container-runtime 1/1", "container-runtime 1/2",
				"kubelet 1/1", "kubelet 1/2", "node-not-ready 1/1",
				"container-runtime 2/1",
			},
		},
		{
			name: "a-hung-shim", symptoms: shimHangs, cure: restart,
			want: []string{"pleg 1/1"},
		},
		{
			name: "a-shim-that-hangs-again", symptoms: shimHangs, cure: reboot,
			want: []string{"pleg 1/1", "pleg 2/1", "kubelet 1/1", "kubelet 1/2", "node-not-ready 1/1", "pleg 3/1"},
		},
		{
			name: "a-hung-kubelet", symptoms: kubeletHangs, cure: restart,
			want: []string{"kubelet 1/1"},
		},
		{
			name: "a-hung-kernel", symptoms: kernelHangs, cure: reboot,
			want: []string{"container-runtime 1/1", "container-runtime 1/2", "kernel-deadlock 1/1"},
		},
		{
			name: "a-broken-fan", symptoms: fanFails,
			want: []string{"hardware-failure 1/1"},
		},
		{
			name: "a-full-disk", symptoms: diskIsFull, cure: command,
			want: []string{"disk-pressure 1/1"},
		},
		{
			name: "a-broken-disk", symptoms: diskIsBroken,
			want: []string{"readonly-filesystem 1/1"},
		},
		{
			name: "a-kubelet-that-is-not-ready", symptoms: kubeletUnwell, cure: restart,
			want: []string{"node-not-ready 1/1"},
		},
		{
			name: "a-node-that-is-not-ready-until-it-reboots", symptoms: kubeletUnwell, cure: reboot,
			want: []string{"node-not-ready 1/1", "node-not-ready 2/1"},
		},
		{
			name: "a-node-that-is-off",
			want: []string{"node-not-ready 3/1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, m := newMachine(t, test.name)
			s.applyPolicies()
			s.leap(time.Hour) // the node has joined long ago
			m.set(func(state *machineState) { state.cure = test.cure })
			s.show(m, test.symptoms)
			s.startController()
			s.Eventually(m.reports).Should(Equal("False"))
			m.breakDown()
			if test.symptoms == nil {
				m.switchOff()
			}

			node := s.nodes[0]
			s.Eventually(func() bool {
				s.leapSeen(node, 5*time.Second)
				if s.healing(node) {
					s.leapSeen(node, 20*time.Second) // nothing else is to come
				}
				if s.approvable(node, len(test.want)-1) {
					s.approve(node, test.want[len(test.want)-1])
				}
				if s.inMaintenance(node) && s.once("repaired") {
					m.repair()
					if test.symptoms == nil {
						m.switchOn()
					}
				}
				return s.allOver(node)
			}).WithPolling(time.Millisecond).Should(BeTrue())
			s.Expect(s.executed(node)).To(Equal(test.want))
			s.Expect(s.service(node)).To(Equal(inService))
		})
	}
}

// applyPolicies creates all policies of deploy/policies, for the scene's nodes and in
// mode Enforce.
func (s *scene) applyPolicies() {
	s.t.Helper()
	files, err := fs.Glob(deploy.Policies, "policies/*.yaml")
	s.Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		data, err := deploy.Policies.ReadFile(file)
		s.Expect(err).NotTo(HaveOccurred())
		var p v1alpha1.RemedyPolicy
		s.Expect(yaml.UnmarshalStrict(data, &p)).To(Succeed())
		p.Name, p.Labels = s.name+"-"+p.Name, s.labels()
		p.Spec.NodeSelector, p.Spec.Mode = s.selector(), v1alpha1.ModeEnforce
		s.create(&p)
	}
}

// show reports the symptoms of the machine, while it is on and its fault has lasted for
// so long.
func (s *scene) show(m *machine, symptoms []symptom) {
	s.spawn("symptoms of "+m.node, func(ctx context.Context) error {
		last := make([]reported, len(symptoms))
		var since time.Time
		tick := time.NewTicker(machineTick)
		defer tick.Stop()
		shower := s.clock.actor("symptoms of " + m.node)
		defer shower.leave()
		for {
			now, state := shower.turn(), m.get()
			switch {
			case !state.faulty:
				since = time.Time{}
			case since.IsZero():
				since = now
			}
			var conditions []corev1.NodeCondition
			for i, symptom := range symptoms {
				ill := state.faulty && now.Sub(since) >= symptom.after
				if symptom.condition == string(corev1.NodeReady) {
					m.set(func(state *machineState) { state.unready = ill })
					continue
				}
				status := corev1.ConditionFalse
				if ill {
					status = corev1.ConditionTrue
				}
				c := last[i].now(symptom.condition, status, now)
				if ill {
					c.Reason = symptom.reason
				}
				conditions = append(conditions, c)
			}
			if !state.off && len(conditions) > 0 {
				if err := m.write(ctx, map[string]any{"conditions": conditions}); err != nil {
					return err
				}
			}
			if !shower.next(ctx, tick.C) {
				return nil
			}
		}
	})
}

// approvable reports whether so many actions were executed, and nothing but an approval
// is missing for the next one.
func (s *scene) approvable(node string, executed int) bool {
	open := 0
	for _, r := range s.remediations(node) {
		switch {
		case r.Ended(), r.State() == v1alpha1.ReasonExhausted:
		case r.BlockedBy() == gates.ReasonApprovalRequired:
			open++
		default:
			return false
		}
	}
	return open > 0 && len(s.executed(node)) == executed
}

// approve approves the step of the remediation of this policy, as executed names it.
func (s *scene) approve(node, action string) {
	s.t.Helper()
	for _, r := range s.remediations(node) {
		if s.name+"-"+action != fmt.Sprintf("%s %d/%d", r.Spec.Policy.Name, r.Status.Step, r.Status.Attempt) {
			continue
		}
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, v1alpha1.ApprovedStepAnnotation, r.Status.Step)
		s.Expect(s.client.Patch(s.ctx, &r, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	}
}

// healing reports whether all remediations of the node that are open wait for it to stay
// well, and there is one.
func (s *scene) healing(node string) bool {
	open := slices.DeleteFunc(s.remediations(node), func(r v1alpha1.Remediation) bool { return r.Ended() })
	return len(open) > 0 && !slices.ContainsFunc(open, func(r v1alpha1.Remediation) bool { return r.State() != v1alpha1.ReasonHealing })
}

// inMaintenance reports whether one of the node's remediations has parked it.
func (s *scene) inMaintenance(node string) bool {
	return slices.ContainsFunc(s.remediations(node), func(r v1alpha1.Remediation) bool { return r.State() == v1alpha1.ReasonInMaintenance })
}

// allOver reports whether the node has had remediations, and none is open.
func (s *scene) allOver(node string) bool {
	all := s.remediations(node)
	return len(all) > 0 && len(s.permits()) == 0 && len(s.maintenances(node)) == 0 &&
		!slices.ContainsFunc(all, func(r v1alpha1.Remediation) bool { return !r.Ended() })
}

// executed returns what was executed on the node, in the order of time.
func (s *scene) executed(node string) []string {
	type record struct {
		text string
		at   time.Time
	}
	var records []record
	for _, r := range s.remediations(node) {
		for _, a := range r.Status.History {
			if a.Executed {
				records = append(records, record{fmt.Sprintf("%s %d/%d", r.Spec.Policy.Name[len(s.name)+1:], a.Step, a.Attempt), a.FinishedAt.Time})
			}
		}
	}
	slices.SortStableFunc(records, func(a, b record) int { return a.at.Compare(b.at) })
	var texts []string
	for _, r := range records {
		texts = append(texts, r.text)
	}
	return texts
}
