package gates

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestOtherHealer(t *testing.T) {
	tainted := func(key string) func(*Input) {
		return func(in *Input) {
			in.Node.Spec.Taints = append(in.Node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	annotated := func(key, value string) func(*Input) {
		return func(in *Input) {
			if in.Node.Annotations == nil {
				in.Node.Annotations = map[string]string{}
			}
			in.Node.Annotations[key] = value
		}
	}
	labelled := func(key, value string) func(*Input) {
		return func(in *Input) { in.Node.Labels[key] = value }
	}
	condition := func(name string, status corev1.ConditionStatus, since time.Duration) func(*Input) {
		return func(in *Input) {
			in.Node.Status.Conditions = append(in.Node.Status.Conditions, corev1.NodeCondition{
				Type: corev1.NodeConditionType(name), Status: status, LastTransitionTime: ago(since),
			})
		}
	}
	// The reboot takes 10 minutes, and a drain before it twice as long.
	reboot, drain := atStep(3), func(in *Input) {
		in.Remediation.Spec.Steps[2].Reboot.Drain = &v1alpha1.Drain{Timeout: v1alpha1.Duration{Duration: 20 * time.Minute}}
	}
	takes := func(in *Input) { in.Remediation.Spec.Steps[2].Timeout = v1alpha1.Duration{Duration: 10 * time.Minute} }
	aws, azure := labelled("karpenter.k8s.aws/ec2nodeclass", "default"), labelled("karpenter.azure.com/aksnodeclass", "default")
	const (
		snr       = "remediation.medik8s.io/self-node-remediation"
		exclude   = "remediation.medik8s.io/exclude-from-remediation"
		confirmed = "remediation.medik8s.io/manually-confirmed-healthy"
		kured     = "weave.works/kured-reboot-in-progress"
		current   = "machineconfiguration.openshift.io/currentConfig"
		desired   = "machineconfiguration.openshift.io/desiredConfig"
	)
	away := func(since time.Duration) func(*Input) {
		return func(in *Input) {
			in.Node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: ago(since)}}
		}
	}
	gpu := func(since time.Duration) func(*Input) {
		return condition("AcceleratedHardwareReady", corev1.ConditionFalse, since)
	}
	runGate(t, OtherHealer, []gateTest{
		{name: "nobody", in: input(reboot)},
		{name: "a remediator of medik8s", in: input(reboot, tainted(snr)), reason: "OtherHealer",
			messages: []string{"a remediator of medik8s has node w17: it has the taint remediation.medik8s.io/self-node-remediation"}},
		{name: "FAR", in: input(reboot, tainted("remediation.medik8s.io/fence-agents-remediation")), reason: "OtherHealer"},
		{name: "SNR until 0.11", in: input(reboot, tainted("medik8s.io/remediation")), reason: "OtherHealer"},
		{name: "FAR until 0.6", in: input(reboot, tainted("medik8s.io/fence-agents-remediation")), reason: "OtherHealer"},
		{name: "a gentle step disturbs nobody", in: input(tainted(snr))},
		{name: "NMO", in: input(reboot, tainted("medik8s.io/drain")), reason: "OtherHealer", messages: []string{"a NodeMaintenance of medik8s has node w17"}},
		{name: "other taints", in: input(reboot, tainted("node.kubernetes.io/out-of-service"), tainted("medik8s.io/other"))},
		{name: "excluded for medik8s", in: input(reboot, labelled(exclude, "true")), reason: "OtherHealer",
			messages: []string{"kubectl label node w17 remediation.medik8s.io/exclude-from-remediation-"}},
		{name: "excluded is from gentle steps, too", in: input(labelled(exclude, "true")), reason: "OtherHealer"},
		{name: "medik8s takes an empty value for none", in: input(reboot, labelled(exclude, ""))},
		{name: "not excluded", in: input(reboot, labelled(exclude, "false"))},
		{name: "confirmed healthy", in: input(reboot, annotated(confirmed, "")), reason: "OtherHealer",
			messages: []string{"kubectl annotate node w17 remediation.medik8s.io/manually-confirmed-healthy-"}},
		{name: "kured", in: input(reboot, annotated(kured, "2026-03-04T11:59:00Z")), reason: "OtherHealer", messages: []string{"kured is about to reboot node w17"}},
		{name: "a machine config to come", in: input(reboot, annotated(current, "worker-1"), annotated(desired, "worker-2")), reason: "OtherHealer",
			messages: []string{"updates node w17 from worker-1 to worker-2"}},
		{name: "away in its update", in: input(reboot, annotated(current, "worker-1"), annotated(desired, "worker-2"), away(20*time.Minute)), reason: "OtherHealer", recheck: 40 * time.Minute},
		{name: "hung in its update", in: input(reboot, annotated(current, "worker-1"), annotated(desired, "worker-2"), away(time.Hour))},
		{name: "the machine config wanted", in: input(reboot, annotated(current, "worker-1"), annotated(desired, "worker-1"))},
		{name: "no machine config wanted", in: input(reboot, annotated(current, "worker-1"))},

		{name: "Karpenter repairs before the end of the step", in: input(reboot, takes, aws, gpu(5*time.Minute)), reason: "OtherHealer", recheck: 15 * time.Minute,
			messages: []string{"Karpenter repairs node w17 at 2026-03-04T12:05:00Z, if its NodeRepair is on: AcceleratedHardwareReady=False since 2026-03-04T11:55:00Z",
				"kubectl annotate node w17 karpenter.sh/do-not-repair=true"}},
		{name: "and after it", in: input(reboot, takes, aws, gpu(-time.Minute))},
		{name: "but the drain is part of the step", in: input(reboot, takes, drain, aws, gpu(-time.Minute)), reason: "OtherHealer", recheck: 21 * time.Minute},
		{name: "it is overdue", in: input(reboot, takes, aws, gpu(19*time.Minute)), reason: "OtherHealer", recheck: time.Minute},
		{name: "nobody has repaired it", in: input(reboot, takes, aws, gpu(20*time.Minute))},
		{name: "it is left to Nodemend", in: input(reboot, takes, aws, gpu(5*time.Minute), annotated("karpenter.sh/do-not-repair", "true"))},
		{name: "who has forbidden it last the API server is asked", in: input(reboot, takes, aws, gpu(5*time.Minute), annotated("karpenter.sh/do-not-repair", "true"), annotated("nodemend.dev/repair-held-for", "m"))},
		{name: "another value is no veto", in: input(reboot, takes, aws, gpu(5*time.Minute), annotated("karpenter.sh/do-not-repair", "false")), reason: "OtherHealer", recheck: 15 * time.Minute},
		{name: "Karpenter does not repair for it on Azure", in: input(reboot, takes, azure, gpu(5*time.Minute))},
		{name: "not Karpenter's", in: input(reboot, takes, gpu(5*time.Minute))},
		{name: "healthy for Karpenter", in: input(reboot, takes, aws, condition("AcceleratedHardwareReady", corev1.ConditionTrue, 5*time.Minute))},
		{name: "Azure, not Ready", in: input(reboot, takes, azure, func(in *Input) { in.Node.Status.Conditions = nil },
			condition("Ready", corev1.ConditionUnknown, 5*time.Minute)), reason: "OtherHealer", recheck: 15 * time.Minute},
		{name: "AWS, not Ready for as long", in: input(reboot, takes, aws, func(in *Input) { in.Node.Status.Conditions = nil },
			condition("Ready", corev1.ConditionUnknown, 5*time.Minute))},
	})
}
