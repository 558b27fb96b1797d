package outofservice

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const (
	machineUUID = "4c4c4544-0032-3810-8052-b4c04f4a5731"
	boot1       = "11111111-0000-4000-8000-000000000001"
	boot2       = "22222222-0000-4000-8000-000000000002"
)

var start = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// goodFacts are those on which the taint is set.
func goodFacts(t *testing.T) facts {
	t.Helper()
	step := v1alpha1.Step{
		Reboot:  &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle, OutOfService: true},
		Timeout: v1alpha1.Duration{Duration: 20 * time.Minute},
	}
	hash, err := step.Hash()
	if err != nil {
		t.Fatal(err)
	}
	f := facts{off: 2 * time.Second}
	f.policy = &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "node-dead", UID: "policy-1"}, Spec: v1alpha1.RemedyPolicySpec{Steps: []v1alpha1.Step{step}}}
	f.remediation = &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: "incident", UID: "remediation-1"},
		Spec:       v1alpha1.RemediationSpec{NodeName: "worker-1", NodeUID: "node-1", Steps: []v1alpha1.Step{step}},
		Status:     v1alpha1.RemediationStatus{Action: "action"},
	}
	read := v1alpha1.PowerReading{Time: v1alpha1.NewMicroTime(start), GUID: machineUUID, Order: "RFC4122"}
	f.action = &v1alpha1.NodeAction{
		ObjectMeta: metav1.ObjectMeta{Name: "action", UID: "action-1", Finalizers: []string{v1alpha1.PowerFinalizer}},
		Spec: v1alpha1.NodeActionSpec{
			NodeName: "worker-1", NodeUID: "node-1", Executor: v1alpha1.ExecutorRemote, Remediation: "incident", RemediationUID: "remediation-1",
			Policy: v1alpha1.PolicyReference{Name: "node-dead", UID: "policy-1"}, StepHash: hash, Step: 1, Attempt: 1,
		},
		Status: v1alpha1.NodeActionStatus{
			Claim: &v1alpha1.Claim{RunnerID: "r", BootID: boot1, Time: metav1.NewTime(start), Remedy: v1alpha1.RemedyReboot},
			Power: &v1alpha1.PowerCycleStatus{
				RunnerID: "r", Phase: "ProvedOff", Machine: machineUUID, Held: 3,
				Proof: &v1alpha1.PowerProof{
					Kind: "PowerOff", BootID: boot1, Machine: machineUUID, Reader: "r", Switch: "ipmi://10.0.0.1:623",
					First: read, Second: read, Apart: v1alpha1.Duration{Duration: 5 * time.Second},
				},
			},
		},
	}
	f.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", UID: "node-1"}}
	f.node.Status.NodeInfo.BootID, f.node.Status.NodeInfo.SystemUUID = boot1, strings.ToUpper(machineUUID)
	f.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	return f
}

func finished(a *v1alpha1.NodeAction) {
	a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded}}
}

func TestTheTaintIsSetOnlyIfEveryRuleHolds(t *testing.T) {
	now := metav1.NewTime(start)
	ready := func(status corev1.ConditionStatus) func(*facts) {
		return func(f *facts) { f.node.Status.Conditions[0].Status = status }
	}
	broken := map[string]bool{}
	for name, test := range map[string]struct {
		change func(*facts)
		rule   string // "": the taint is set
		why    string
	}{
		"all holds": {change: func(*facts) {}},
		"another taint, and annotation": {change: func(f *facts) {
			f.node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
			f.node.Annotations = map[string]string{"a": "b"}
		}},
		"a pause that is over": {change: func(f *facts) { f.pause = &v1alpha1.RemediationBudget{} }},
		"an approved step": {change: func(f *facts) {
			f.remediation.Annotations = map[string]string{v1alpha1.ApprovedStepAnnotation: "1"}
		}},

		"no action":                   {func(f *facts) { f.action = nil }, "action under way", "gone"},
		"one that is being deleted":   {func(f *facts) { f.action.DeletionTimestamp = &now }, "action under way", "being deleted"},
		"one that has ended":          {func(f *facts) { finished(f.action) }, "action under way", "has ended"},
		"one of the node's runner":    {func(f *facts) { f.action.Spec.Executor = "" }, "action under way", "not that of a machine"},
		"one that nobody has claimed": {func(f *facts) { f.action.Status.Claim = nil }, "action under way", "not that of a machine"},
		"no power was switched":       {func(f *facts) { f.action.Status.Power = nil }, "action under way", "not that of a machine"},
		"before the cut":              {func(f *facts) { f.action.Status.Power.Phase = "Looking" }, "action under way", "Looking"},
		"the off was sent":            {func(f *facts) { f.action.Status.Power.Phase = "Cutting" }, "action under way", "Cutting"},
		"the on may have been sent":   {func(f *facts) { f.action.Status.Power.Phase = "Restoring" }, "action under way", "Restoring"},
		"no proof came":               {func(f *facts) { f.action.Status.Power.Phase = "Watching" }, "action under way", "Watching"},
		"it is on again":              {func(f *facts) { f.action.Status.Power.Phase = "Ended" }, "action under way", "Ended"},

		"no remediation":                {func(f *facts) { f.remediation = nil }, "announced", "gone"},
		"another one of the name":       {func(f *facts) { f.remediation.UID = "other" }, "announced", "gone"},
		"one that a person has deleted": {func(f *facts) { f.remediation.DeletionTimestamp = &now }, "announced", "being deleted"},
		"an ended one":                  {func(f *facts) { f.remediation.Status.EndTime = &now }, "announced", "has ended"},
		"one that has gone on":          {func(f *facts) { f.remediation.Status.Action = "action-2" }, "announced", "does not wait"},
		"one of another node":           {func(f *facts) { f.remediation.Spec.NodeName = "worker-2" }, "announced", "another node"},
		"one of an earlier node":        {func(f *facts) { f.remediation.Spec.NodeUID = "node-0" }, "announced", "another node"},

		"no policy":               {func(f *facts) { f.policy = nil }, "step wants it", "gone"},
		"another one of its name": {func(f *facts) { f.policy.UID = "policy-2" }, "step wants it", "gone"},
		"a policy that goes":      {func(f *facts) { f.policy.DeletionTimestamp = &now }, "step wants it", "gone"},
		"an edited policy": {func(f *facts) {
			f.policy.Spec.Steps[0].Reboot = &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}
		}, "step wants it", "does not have the step"},
		"no such step": {func(f *facts) { f.action.Spec.Step = 2 }, "step wants it", "has no step 2"},
		"another step of the remediation": {func(f *facts) {
			f.remediation.Spec.Steps = []v1alpha1.Step{{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}}}
		}, "step wants it", "is another one"},
		"a step that does not want it": {func(f *facts) {
			f.policy.Spec.Steps[0].Reboot.OutOfService = false // the remediation shares the step
			f.action.Spec.StepHash, _ = f.policy.Spec.Steps[0].Hash()
		}, "step wants it", "does not say outOfService"},
		"an approval that is withdrawn": {func(f *facts) {
			f.policy.Spec.Steps[0].RequireApproval, f.remediation.Spec.Steps[0].RequireApproval = true, true
			f.action.Spec.StepHash, _ = f.policy.Spec.Steps[0].Hash()
		}, "step wants it", "not approved"},

		"a paused policy":  {func(f *facts) { f.policy.Spec.Paused = true }, "nobody holds it", "paused"},
		"a dry run":        {func(f *facts) { f.policy.Spec.Mode = v1alpha1.ModeDryRun }, "nobody holds it", "DryRun"},
		"no node":          {func(f *facts) { f.node = nil }, "nobody holds it", "gone"},
		"an excluded node": {func(f *facts) { f.node.Labels = map[string]string{v1alpha1.ExcludeLabel: "true"} }, "nobody holds it", "excluded"},
		"a paused cluster": {func(f *facts) {
			f.pause = &v1alpha1.RemediationBudget{Spec: v1alpha1.RemediationBudgetSpec{Paused: true}}
		}, "nobody holds it", "paused"},

		"no proof":                        {func(f *facts) { f.action.Status.Power.Proof = nil }, "proof", "there is none"},
		"a proof that is none":            {func(f *facts) { f.action.Status.Power.Proof.Apart.Duration = time.Second }, "proof", "apart"},
		"a reading of another machine":    {func(f *facts) { f.action.Status.Power.Proof.Second.GUID = "5" + machineUUID[1:] }, "proof", "GUID"},
		"another kind of proof":           {func(f *facts) { f.action.Status.Power.Proof.Kind = "Time" }, "proof", "kind"},
		"a proof of another boot":         {func(f *facts) { f.action.Status.Power.Proof.BootID = boot2 }, "proof", "is not for boot"},
		"a claim of another boot":         {func(f *facts) { f.action.Status.Claim.BootID = boot2 }, "proof", "is not for boot"},
		"a node that was registered anew": {func(f *facts) { f.node.UID = "node-2" }, "that boot of that node", "registered anew"},
		"a node that is being deleted":    {func(f *facts) { f.node.DeletionTimestamp = &now }, "that boot of that node", "being deleted"},
		"a newer boot":                    {func(f *facts) { f.node.Status.NodeInfo.BootID = boot2 }, "that boot of that node", "has booted"},
		"no boot ID":                      {func(f *facts) { f.node.Status.NodeInfo.BootID = "" }, "that boot of that node", "has booted"},
		"another machine":                 {func(f *facts) { f.node.Status.NodeInfo.SystemUUID = "5" + machineUUID[1:] }, "that boot of that node", "the machine of node"},
		"a machine without a UUID":        {func(f *facts) { f.node.Status.NodeInfo.SystemUUID = "" }, "that boot of that node", "the machine of node"},
		"a boot ID that no taint can have": {func(f *facts) {
			f.node.Status.NodeInfo.BootID, f.action.Status.Claim.BootID, f.action.Status.Power.Proof.BootID = "a b", "a b", "a b"
		}, "that boot of that node", "value of a taint"},

		"a node that is Ready":    {ready(corev1.ConditionTrue), "not Ready", "not Unknown"},
		"one that says it is not": {ready(corev1.ConditionFalse), "not Ready", "not Unknown"},
		"one without Ready":       {func(f *facts) { f.node.Status.Conditions = nil }, "not Ready", "not Unknown"},
		"a taint of a person": {func(f *facts) {
			f.node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
		}, "no taint of somebody else", "already"},
		"one without an effect": {func(f *facts) {
			f.node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoSchedule}}
		}, "no taint of somebody else", "already"},
		"a mark":                   {func(f *facts) { f.node.Annotations = map[string]string{v1alpha1.OutOfServiceAnnotation: "x"} }, "no taint of somebody else", "already"},
		"nobody knows when":        {func(f *facts) { f.off = -1 }, "off now", "not read off within 15s"},
		"it was read off long ago": {func(f *facts) { f.off = 16 * time.Second }, "off now", "not read off within 15s"},
	} {
		f := goodFacts(t)
		test.change(&f)
		rule, why := refusal(f)
		if rule != test.rule || !strings.Contains(why, test.why) {
			t.Errorf("%s: rule %q: %q, want %q: %q", name, rule, why, test.rule, test.why)
		}
		broken[rule] = true
	}
	for _, r := range rulesOfActions() {
		if !broken[r.name] {
			t.Errorf("no row breaks the rule %q", r.name)
		}
	}
}

// goodMaintenance are facts on which the taint is set for a maintenance, a policy's or a person's.
func goodMaintenance(t *testing.T, ofPolicy bool) facts {
	t.Helper()
	f := goodFacts(t)
	step := v1alpha1.Step{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "broken", Drain: &v1alpha1.Drain{}, Power: v1alpha1.PowerRequestOff, OutOfService: true}}
	f.maintenance = &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "swap", UID: "maintenance-1", Finalizers: []string{v1alpha1.PowerFinalizer}},
		Spec:       v1alpha1.NodeMaintenanceSpec{NodeName: "worker-1", Reason: "broken", Drain: &v1alpha1.Drain{}, Power: v1alpha1.PowerRequestOff, OutOfService: true},
		Status: v1alpha1.NodeMaintenanceStatus{
			NodeUID: "node-1", Conditions: []metav1.Condition{{Type: v1alpha1.MaintenanceDrained, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDrained}},
			Machine: &v1alpha1.Machine{UUID: machineUUID},
			Power:   &v1alpha1.MaintenancePowerStatus{Phase: v1alpha1.PowerOff, RunnerID: "r", BootID: boot1, Held: 3, Proof: f.action.Status.Power.Proof},
		},
	}
	f.action = nil
	f.policy.Spec.Steps = []v1alpha1.Step{step}
	f.remediation.Spec.Steps, f.remediation.Spec.Policy = f.policy.Spec.Steps, v1alpha1.PolicyReference{Name: "node-dead", UID: "policy-1"}
	f.remediation.Status = v1alpha1.RemediationStatus{Step: 1, Maintenance: "swap"}
	if ofPolicy {
		f.maintenance.Spec.NodeUID = "node-1"
		f.maintenance.Spec.Remediation = &v1alpha1.RemediationReference{Name: "incident", UID: "remediation-1"}
	} else {
		f.policy, f.remediation = nil, nil
	}
	return f
}

func TestTheTaintIsSetForAMaintenanceOnlyIfEveryRuleHolds(t *testing.T) {
	now := metav1.NewTime(start)
	broken := map[string]bool{}
	for name, test := range map[string]struct {
		person bool
		change func(*facts)
		rule   string // "": the taint is set
		why    string
	}{
		"all holds":               {false, func(*facts) {}, "", ""},
		"all holds, of a person":  {true, func(*facts) {}, "", ""},
		"an approved step":        {false, func(f *facts) { f.remediation.Annotations = map[string]string{v1alpha1.ApprovedStepAnnotation: "1"} }, "", ""},
		"it has ended":            {true, func(f *facts) { f.maintenance.DeletionTimestamp = &now }, "maintenance wants it", "has ended"},
		"it does not say it":      {true, func(f *facts) { f.maintenance.Spec.OutOfService = false }, "maintenance wants it", "does not say outOfService"},
		"it wants no power off":   {true, func(f *facts) { f.maintenance.Spec.Power = "" }, "maintenance wants it", "does not say outOfService"},
		"one of an earlier node":  {false, func(f *facts) { f.maintenance.Spec.NodeUID = "node-0" }, "maintenance wants it", "earlier node"},
		"a drain that begins":     {true, func(f *facts) { f.maintenance.Status.Conditions = nil }, "maintenance wants it", "drain"},
		"no power was switched":   {true, func(f *facts) { f.maintenance.Status.Power = nil }, "maintenance wants it", "not known to be off"},
		"it may be on":            {true, func(f *facts) { f.maintenance.Status.Power.Phase = v1alpha1.PowerStillOn }, "maintenance wants it", "not known to be off"},
		"it is switched on":       {true, func(f *facts) { f.maintenance.Status.Power.Phase = v1alpha1.PowerRestoring }, "maintenance wants it", "not known to be off"},
		"it was off":              {true, func(f *facts) { f.maintenance.Status.Power.Phase = v1alpha1.PowerWasOff }, "maintenance wants it", "not known to be off"},
		"no remediation":          {false, func(f *facts) { f.remediation = nil }, "policy wants it", "gone"},
		"an ended one":            {false, func(f *facts) { f.remediation.Status.EndTime = &now }, "policy wants it", "has ended"},
		"one of another":          {false, func(f *facts) { f.remediation.Status.Maintenance = "other" }, "policy wants it", "does not name"},
		"no policy":               {false, func(f *facts) { f.policy = nil }, "policy wants it", "gone"},
		"another one of its name": {false, func(f *facts) { f.policy.UID = "policy-2" }, "policy wants it", "gone"},
		"a step that does not say it": {false, func(f *facts) {
			f.remediation.Spec.Steps = []v1alpha1.Step{{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "broken", Drain: &v1alpha1.Drain{}, Power: v1alpha1.PowerRequestOff}}}
		}, "policy wants it", "does not say outOfService"},
		"an edited policy": {false, func(f *facts) {
			f.policy.Spec.Steps = []v1alpha1.Step{{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "broken", Drain: &v1alpha1.Drain{}, Power: v1alpha1.PowerRequestOff}}}
		}, "policy wants it", "does not have the step"},
		"an approval that is withdrawn": {false, func(f *facts) { f.policy.Spec.Steps[0].RequireApproval = true }, "policy wants it", "not approved"},
		"a paused policy":               {false, func(f *facts) { f.policy.Spec.Paused = true }, "nobody holds it", "paused"},
		"no node":                       {true, func(f *facts) { f.node = nil }, "nobody holds it", "gone"},
		"an excluded node":              {true, func(f *facts) { f.node.Labels = map[string]string{v1alpha1.ExcludeLabel: "true"} }, "nobody holds it", "excluded"},
		"no proof":                      {true, func(f *facts) { f.maintenance.Status.Power.Proof = nil }, "proof", "there is none"},
		"a proof of another boot":       {true, func(f *facts) { f.maintenance.Status.Power.BootID = boot2 }, "proof", "is not for boot"},
		"a newer boot":                  {true, func(f *facts) { f.node.Status.NodeInfo.BootID = boot2 }, "that boot of that node", "has booted"},
		"a node registered anew":        {true, func(f *facts) { f.node.UID = "node-2" }, "that boot of that node", "registered anew"},
		"a node that shuts down":        {true, func(f *facts) { f.node.Status.Conditions[0].Status = corev1.ConditionFalse }, "not Ready", "not Unknown"},
		"a mark":                        {true, func(f *facts) { f.node.Annotations = map[string]string{v1alpha1.OutOfServiceAnnotation: "x"} }, "no taint of somebody else", "already"},
		"it was read off long ago":      {true, func(f *facts) { f.off = 16 * time.Second }, "off now", "not read off within 15s"},
	} {
		f := goodMaintenance(t, !test.person)
		test.change(&f)
		rule, why := refusal(f)
		if rule != test.rule || !strings.Contains(why, test.why) {
			t.Errorf("%s: rule %q: %q, want %q: %q", name, rule, why, test.rule, test.why)
		}
		broken[rule] = true
	}
	for _, r := range rulesOfMaintenances() {
		if !broken[r.name] {
			t.Errorf("no row breaks the rule %q", r.name)
		}
	}
}

// Of two numbers, the reading of the later one began after the earlier one was kept: so after
// somebody has asked when even that was not.
func TestAReadingIsAsOldAsWhatWasKnownTwoNumbersBefore(t *testing.T) {
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	seen := readings{{1, at(1)}, {2, at(5)}, {4, at(7)}}
	for held, want := range map[int32]int{3: 1, 4: 5, 5: 5, 6: 7, 9: 7} {
		if got, known := seen.off(held); !known || !got.Equal(at(want)) {
			t.Errorf("reading %d: %s, %t, want %s", held, got, known, at(want))
		}
	}
	for _, held := range []int32{0, 1, 2} {
		if got, known := seen.off(held); known {
			t.Errorf("reading %d: %s", held, got)
		}
	}
}

func TestWhatBecomesOfATaintedNode(t *testing.T) {
	mark := v1alpha1.OutOfServiceMark{BootID: boot1, Action: "action"}
	moved := mark
	moved.Moved = true
	left := []Left{{"pod a/b", "is there"}}
	person := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	for name, test := range map[string]struct {
		mark   string
		taints []corev1.Taint
		boot   string
		ready  corev1.ConditionStatus
		left   []Left
		want   next
		why    string
		lasts  string
	}{
		"pods are to move":                      {mark.String(), []corev1.Taint{mark.Taint()}, boot1, corev1.ConditionUnknown, left, wait, "has not booted", ""},
		"they have":                             {mark.String(), []corev1.Taint{mark.Taint()}, boot1, corev1.ConditionUnknown, nil, tell, "freed", ""},
		"and that was told":                     {moved.String(), []corev1.Taint{mark.Taint()}, boot1, corev1.ConditionUnknown, nil, wait, "has not booted", ""},
		"it says it is not Ready":               {moved.String(), []corev1.Taint{mark.Taint()}, boot1, corev1.ConditionFalse, nil, wait, "has not booted", ""},
		"nobody knows its boot":                 {moved.String(), []corev1.Taint{mark.Taint()}, "", corev1.ConditionTrue, nil, wait, "has not booted", ""},
		"it has booted":                         {moved.String(), []corev1.Taint{mark.Taint()}, boot2, corev1.ConditionUnknown, nil, wait, "is not Ready", ""},
		"it is Ready, pods are left":            {moved.String(), []corev1.Taint{mark.Taint()}, boot2, corev1.ConditionTrue, left, wait, "not all is freed", ""},
		"it is back":                            {moved.String(), []corev1.Taint{mark.Taint()}, boot2, corev1.ConditionTrue, nil, remove, "nothing of boot " + boot1, ""},
		"it is back before all moved":           {mark.String(), []corev1.Taint{mark.Taint()}, boot2, corev1.ConditionTrue, nil, remove, "is Ready with boot " + boot2, ""},
		"other taints stay":                     {mark.String(), []corev1.Taint{{Key: "a"}, mark.Taint(), person}, boot2, corev1.ConditionTrue, nil, remove, "Ready", ""},
		"the proof was none":                    {mark.String(), []corev1.Taint{mark.Taint()}, boot1, corev1.ConditionTrue, nil, leave, "in use twice", ""},
		"and all had moved":                     {moved.String(), []corev1.Taint{mark.Taint()}, boot1, corev1.ConditionTrue, nil, leave, "in use twice", ""},
		"a person took it away":                 {mark.String(), nil, boot1, corev1.ConditionUnknown, left, unmark, "taken the taint", ""},
		"a person set another one":              {mark.String(), []corev1.Taint{person}, boot2, corev1.ConditionTrue, nil, unmark, "somebody else's", ""},
		"another effect":                        {mark.String(), []corev1.Taint{{Key: mark.Taint().Key, Value: mark.Taint().Value, Effect: corev1.TaintEffectNoSchedule}}, boot2, corev1.ConditionTrue, nil, unmark, "somebody else's", ""},
		"a mark of somebody":                    {"mine", []corev1.Taint{mark.Taint()}, boot2, corev1.ConditionTrue, nil, leave, "can't be read", ""},
		"a mark with more words":                {mark.String() + " soon", []corev1.Taint{mark.Taint()}, boot2, corev1.ConditionTrue, nil, leave, "can't be read", ""},
		"it is back, and the maintenance lasts": {mark.String(), []corev1.Taint{mark.Taint()}, boot2, corev1.ConditionTrue, nil, wait, "until maintenance swap", "swap"},
		"it was booted for a test":              {mark.String(), []corev1.Taint{mark.Taint()}, boot2, corev1.ConditionUnknown, nil, wait, "is not Ready", "swap"},
		"the switch lies in a maintenance":      {moved.String(), []corev1.Taint{mark.Taint()}, boot1, corev1.ConditionTrue, nil, leave, "in use twice", "swap"},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", Annotations: map[string]string{v1alpha1.OutOfServiceAnnotation: test.mark}}}
		node.Spec.Taints, node.Status.NodeInfo.BootID = test.taints, test.boot
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: test.ready}}
		if do, why := after(node, test.left, test.lasts); do != test.want || !strings.Contains(why, test.why) {
			t.Errorf("%s: %s, since %s; want %s: %s", name, do, why, test.want, test.why)
		}
	}
}

func TestWhatTheTaintFreesAndWhatItCanNot(t *testing.T) {
	now := metav1.NewTime(start)
	pod := func(name string, change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		change(&p)
		return p
	}
	tolerates := func(tolerations ...corev1.Toleration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Tolerations = tolerations }
	}
	exists := corev1.TolerationOpExists
	pods := []corev1.Pod{
		pod("plain", func(*corev1.Pod) {}),
		pod("ends", func(p *corev1.Pod) { p.DeletionTimestamp = &now }),
		pod("kept", func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = &now, []string{"a/b"} }),
		pod("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("ended-and-kept", func(p *corev1.Pod) { p.Status.Phase, p.Finalizers = corev1.PodFailed, []string{"c/d"} }),
		pod("static", func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			tolerates(corev1.Toleration{Operator: exists, Effect: corev1.TaintEffectNoExecute})(p)
		}),
		pod("all-taints", tolerates(corev1.Toleration{Operator: exists})),
		pod("this-taint", tolerates(corev1.Toleration{Key: corev1.TaintNodeOutOfService, Operator: exists})),
		pod("for-a-while", tolerates(corev1.Toleration{Operator: exists, TolerationSeconds: ptr.To[int64](300)})),
		pod("other-taints", tolerates(corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: exists, Effect: corev1.TaintEffectNoExecute})),
		pod("not-scheduled", tolerates(corev1.Toleration{Operator: exists, Effect: corev1.TaintEffectNoSchedule})),
		pod("a-value", tolerates(corev1.Toleration{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown"})),
	}
	attachment := func(name, node string, change func(*storagev1.VolumeAttachment)) storagev1.VolumeAttachment {
		a := storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{NodeName: node, Attacher: "driver"}}
		change(&a)
		return a
	}
	attachments := []storagev1.VolumeAttachment{
		attachment("a1", "worker-1", func(a *storagev1.VolumeAttachment) { a.Spec.Source.PersistentVolumeName = ptr.To("pv-1") }),
		attachment("a2", "worker-1", func(a *storagev1.VolumeAttachment) { a.DeletionTimestamp = &now }),
		attachment("a3", "worker-1", func(a *storagev1.VolumeAttachment) {
			a.Status.DetachError = &storagev1.VolumeError{Message: "no quorum"}
		}),
		attachment("b1", "worker-2", func(*storagev1.VolumeAttachment) {}),
	}
	compare := func(what string, got []Left, want map[string]string) {
		t.Helper()
		for _, l := range got {
			why, expected := want[l.What]
			if !expected || !strings.Contains(l.Why, why) {
				t.Errorf("%s: %s", what, l)
			}
			delete(want, l.What)
		}
		for name := range want {
			t.Errorf("%s: not %s", what, name)
		}
	}
	compare("left", Remaining("worker-1", pods, attachments), map[string]string{
		"pod ns/plain": "is not told to end yet", "pod ns/ends": "is told to end: Kubernetes", "pod ns/kept": "remove a/b",
		"pod ns/for-a-while": "not told", "pod ns/other-taints": "not told", "pod ns/not-scheduled": "not told", "pod ns/a-value": "not told",
		"volume pv-1 (VolumeAttachment a1)": "not told to be detached", "volume of VolumeAttachment a2": "is to detach it", "volume of VolumeAttachment a3": "no quorum",
	})
	compare("staying", Staying(pods), map[string]string{
		"pod ns/static": "static pod", "pod ns/all-taints": "tolerates", "pod ns/this-taint": "tolerates", "pod ns/ended-and-kept": "remove c/d",
	})
}
