package sim

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
		{condition: "ContainerRuntimeUnhealthy", reason: "Timeout", after: 50 * time.Second},
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
		{condition: "ContainerRuntimeUnhealthy", reason: "Timeout", after: 50 * time.Second},
		{condition: "KernelDeadlock", reason: "DockerHung", after: 2 * time.Minute},
	}
	fanFails      = []symptom{{condition: "HardwareFailure", reason: "FanFailure"}}
	diskIsFull    = []symptom{{condition: "DiskPressure", reason: "KubeletHasDiskPressure"}}
	diskFails     = []symptom{{condition: "FilesystemUnhealthy", reason: "FilesystemReadOnly"}}
	diskHangs     = []symptom{{condition: "FilesystemUnhealthy", reason: "FilesystemHung", after: 3 * time.Minute}}
	pidsRunOut    = []symptom{{condition: "ResourcesExhausted", reason: "ProcessesExhausted", after: 90 * time.Second}}
	tasksWait     = []symptom{{condition: "TasksBlocked", reason: "TasksBlocked", after: 4 * time.Minute}}
	driveIsGone   = []symptom{{condition: "StorageDeviceFailed", reason: "NVMeRemoved"}}
	gpuFails      = []symptom{{condition: "GPUFailed", reason: "GPUFellOffTheBus"}}
	gpuIsMissing  = []symptom{{condition: "GPUUnhealthy", reason: "GPUMissing", after: 3 * time.Minute}}
	gpuIsLost     = []symptom{gpuFails[0], {condition: "GPUUnhealthy", reason: "GPUFellOffTheBus", after: 3 * time.Minute}}
	clockIsOff    = []symptom{{condition: "ClockUnhealthy", reason: "ClockOff", after: 4 * time.Minute}}
	cableIsBroken = []symptom{{condition: "NetworkUnhealthy", reason: "LinkFlapping", after: 10 * time.Minute}}
	driveFails    = []symptom{{condition: "DrivesUnhealthy", reason: "DriveFailing", after: 2 * time.Minute}}
	memoryFails   = []symptom{{condition: "MemoryUnhealthy", reason: "UncorrectedErrors", after: time.Minute}}
	proxyIsStale  = []symptom{{condition: "ServiceNetworkUnhealthy", reason: "KubeProxyStale", after: 2 * time.Minute}}
	diskIsBroken  = []symptom{{condition: "ReadonlyFilesystem", reason: "FilesystemIsReadOnly"}}
	kubeletUnwell = []symptom{{condition: "Ready"}}
)

func TestEveryShippedPolicyHealsTheFaultThatItIsForAndTheGentlestActsFirst(t *testing.T) {
	const restart, command, reboot = v1alpha1.RemedyRestartUnit, v1alpha1.RemedyCommand, v1alpha1.RemedyReboot
	for _, test := range []struct {
		name string
		// symptoms of the fault; none: the node is switched off.
		symptoms []symptom
		// cure is the remedy that helps; "": a repair, once the node is out of service.
		cure string
		// want is what was executed, in the order of time, as policy, step and attempt.
		want []string
	}{
		{"a hung runtime", runtimeHangs, restart, []string{"container-runtime 1/1"}},
		{"a runtime that hangs again", runtimeHangs, reboot, []string{
			"container-runtime 1/1", "container-runtime 1/2", "kubelet 1/1", "kubelet 1/2", "node-not-ready 1/1", "container-runtime 2/1",
		}},
		{"a hung shim", shimHangs, restart, []string{"pleg 1/1"}},
		{"a shim that hangs again", shimHangs, reboot, []string{
			"pleg 1/1", "pleg 2/1", "kubelet 1/1", "kubelet 1/2", "node-not-ready 1/1", "pleg 3/1",
		}},
		{"a hung kubelet", kubeletHangs, restart, []string{"kubelet 1/1"}},
		{"a hung kernel", kernelHangs, reboot, []string{"container-runtime 1/1", "container-runtime 1/2", "kernel-deadlock 1/1"}},
		{"a broken fan", fanFails, "", []string{"hardware-failure 1/1"}},
		{"a full disk", diskIsFull, command, []string{"disk-pressure 1/1"}},
		{"a disk that fails", diskFails, "", []string{"filesystem 1/1"}},
		{"a disk that hangs", diskHangs, "", []string{"filesystem 1/1"}},
		{"processes that run out", pidsRunOut, "", []string{"exhaustion 1/1"}},
		{"tasks that wait in the kernel", tasksWait, reboot, []string{"tasks-blocked 1/1"}},
		{"a drive that the kernel has given up", driveIsGone, "", []string{"kernel-hardware 1/1"}},
		{"a GPU that fell off the bus", gpuFails, reboot, []string{"gpu-failed 1/1"}},
		{"a GPU that is broken", gpuFails, "", []string{"gpu-failed 1/1", "gpu-failed 2/1"}},
		{"a GPU that is missing until a reboot", gpuIsMissing, reboot, []string{"gpu 1/1"}},
		{"a GPU that is missing", gpuIsMissing, "", []string{"gpu 1/1", "gpu 2/1"}},
		{"a GPU that both the log and the check tell of", gpuIsLost, reboot, []string{"gpu-failed 1/1"}},
		{"a clock that is off", clockIsOff, restart, []string{"clock 1/1"}},
		{"a broken cable", cableIsBroken, "", []string{"network 1/1"}},
		{"a drive that fails", driveFails, "", []string{"drives 1/1"}},
		{"memory that fails", memoryFails, "", []string{"memory 1/1"}},
		{"a stale kube-proxy", proxyIsStale, command, []string{"services 1/1"}},
		{"a kube-proxy that is stale for good", proxyIsStale, "", []string{"services 1/1", "services 1/2", "services 2/1"}},
		{"a broken disk", diskIsBroken, "", []string{"readonly-filesystem 1/1"}},
		{"a kubelet that is not ready", kubeletUnwell, restart, []string{"node-not-ready 1/1"}},
		{"a node that is not ready until it reboots", kubeletUnwell, reboot, []string{"node-not-ready 1/1", "node-not-ready 2/1"}},
		{"a node that is off", nil, "", []string{"node-not-ready 3/1"}},
	} {
		tellAll(t, 60, story{test.name, func(s *stage) {
			n := s.scene("n1")
			s.applyPolicies(n)
			s.begin()
			s.pass(time.Hour) // the node has joined long ago
			s.show(n, test.symptoms, test.cure)
			approved, repaired := false, false
			s.until("all is over", func() bool {
				if !approved && s.approvable(n, len(test.want)-1) {
					approved = true
					s.approve(n, test.want[len(test.want)-1])
				}
				if !repaired && s.inMaintenance(n) {
					repaired = true
					s.mend(n)
					n.powerOn()
				}
				return s.allOver(n)
			})
			expect(s, "executed", s.executed(n), test.want)
			s.until("it is in service", func() bool { return n.service() == inService })
		}})
	}
}

// applyPolicies creates all policies of deploy/policies, in mode Enforce, for all nodes, and
// lets the node report what they match.
func (s *stage) applyPolicies(n *node) {
	files, err := fs.Glob(deploy.Policies, "policies/*.yaml")
	s.must(err)
	n.checks = nil
	for _, file := range files {
		data, err := deploy.Policies.ReadFile(file)
		s.must(err)
		p := &v1alpha1.RemedyPolicy{}
		s.must(yaml.UnmarshalStrict(data, p))
		p.Spec.NodeSelector, p.Spec.Mode = nil, v1alpha1.ModeEnforce
		for _, m := range p.Spec.Match {
			if m.Type != string(corev1.NodeReady) && !slices.Contains(n.checks, m.Type) {
				n.checks = append(n.checks, m.Type)
			}
		}
		s.create(p)
	}
}

// show lets the node show the symptoms of a fault, as long as it has it; none: it is off.
func (s *stage) show(n *node, symptoms []symptom, cure string) {
	if symptoms == nil {
		n.powerOff()
		return
	}
	healed := false
	n.acts = func(e *execution) bool {
		cures := e.remedy == cure
		if e.remedy == v1alpha1.RemedyReboot && cures {
			healed = true
			s.mend(n)
			return false
		}
		s.after(2*time.Second, func() {
			if e.runs() && cures {
				healed = true
				s.mend(n)
			}
		})
		return false
	}
	for _, symptom := range symptoms {
		s.after(symptom.after, func() {
			switch {
			case healed:
			case symptom.condition == string(corev1.NodeReady):
				s.unready(true, n)
			default:
				n.fail(symptom.condition, "")
				n.faults[symptom.condition].reason = symptom.reason
			}
		})
	}
}

// mend takes a fault away with all of its symptoms.
func (s *stage) mend(n *node) {
	n.repair()
	s.unready(false, n)
}

// approvable reports whether so many actions were executed, and nothing but an approval
// is missing for the next one.
func (s *stage) approvable(n *node, executed int) bool {
	open := 0
	for _, r := range s.remediations(n) {
		switch {
		case r.Ended(), r.State() == v1alpha1.ReasonExhausted:
		case r.BlockedBy() == gates.ReasonApprovalRequired:
			open++
		default:
			return false
		}
	}
	return open > 0 && len(s.executed(n)) == executed
}

// approve approves the step of the remediation of this policy, as executed names it.
func (s *stage) approve(n *node, action string) {
	for _, r := range s.remediations(n) {
		if action == fmt.Sprintf("%s %d/%d", r.Spec.Policy.Name, r.Status.Step, r.Status.Attempt) {
			r = r.DeepCopy()
			annotate(r, v1alpha1.ApprovedStepAnnotation, fmt.Sprint(r.Status.Step))
			s.update(r)
		}
	}
}

// inMaintenance reports whether one of the node's remediations has parked it.
func (s *stage) inMaintenance(n *node) bool {
	return slices.ContainsFunc(s.remediations(n), func(r *v1alpha1.Remediation) bool { return r.State() == v1alpha1.ReasonInMaintenance })
}

// allOver reports whether the node has had remediations, and none is open.
func (s *stage) allOver(n *node) bool {
	all := s.remediations(n)
	return len(all) > 0 && len(s.permits()) == 0 && len(s.maintenances(n)) == 0 &&
		!slices.ContainsFunc(all, func(r *v1alpha1.Remediation) bool { return !r.Ended() })
}

// executed returns what was executed on the node, in the order of time.
func (s *stage) executed(n *node) []string {
	type record struct {
		text string
		at   time.Time
	}
	var records []record
	for _, r := range s.remediations(n) {
		for _, a := range r.Status.History {
			if a.Executed {
				records = append(records, record{fmt.Sprintf("%s %d/%d", r.Spec.Policy.Name, a.Step, a.Attempt), a.FinishedAt.Time})
			}
		}
	}
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.text, b.text)) })
	texts := []string{}
	for _, r := range records {
		texts = append(texts, r.text)
	}
	return texts
}
