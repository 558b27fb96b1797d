package outofservice

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// goodWord are facts on which the taint is set since a person says that the machine is off. No remote
// runner knows of it.
func goodWord(t *testing.T) facts {
	t.Helper()
	f := goodMaintenance(t, false)
	m := f.maintenance
	silent := metav1.NewTime(start.Add(-time.Minute))
	f.node.Status.Conditions[0].LastTransitionTime = silent
	m.Finalizers = []string{v1alpha1.MaintenanceFinalizer}
	m.Spec.Drain, m.Spec.Power = nil, ""
	m.Spec.MachineOff = &v1alpha1.PersonsWord{
		Kind: v1alpha1.KindPersonsWord, NodeUID: "node-1", BootID: boot1, SilentSince: silent, By: "jane", Time: metav1.NewTime(start), Reason: "both cords are drawn",
	}
	m.Status.Machine, m.Status.Power = nil, nil
	m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MaintenanceCordoned, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCordoned}}
	f.node.Spec.Unschedulable = true
	f.node.Status.NodeInfo.SystemUUID = "" // nobody asks which machine it is
	f.word, f.now, f.off = m.Spec.MachineOff, start, time.Second
	return f
}

// switchSays has the switch of the node asked.
func switchSays(status corev1.ConditionStatus, reason string, ago time.Duration) func(*facts) {
	return func(f *facts) {
		f.node.Status.Conditions = append(f.node.Status.Conditions, corev1.NodeCondition{
			Type: v1alpha1.NodeFenceable, Status: status, Reason: reason, LastHeartbeatTime: metav1.NewTime(start.Add(-ago)),
		})
	}
}

func TestTheTaintIsSetOnAWordOnlyIfEveryRuleHolds(t *testing.T) {
	now, lately, silent := metav1.NewTime(start), metav1.NewTime(start.Add(-45*time.Second)), metav1.NewTime(start.Add(-time.Minute))
	phase := func(phase v1alpha1.PowerPhase) func(*facts) {
		return func(f *facts) {
			other := v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: "worker-1", Power: v1alpha1.PowerRequestOff}}
			other.Status.Power = &v1alpha1.MaintenancePowerStatus{Phase: phase, RunnerID: "r", BootID: boot1}
			f.maintenances = []v1alpha1.NodeMaintenance{*f.maintenance, other}
		}
	}
	action := func(change func(*v1alpha1.NodeAction)) func(*facts) {
		return func(f *facts) {
			a := *goodFacts(t).action
			change(&a)
			f.actions = []v1alpha1.NodeAction{a}
		}
	}
	ready := func(status corev1.ConditionStatus) func(*facts) {
		return func(f *facts) { f.node.Status.Conditions[0].Status = status }
	}
	broken := map[string]bool{}
	for name, test := range map[string]struct {
		change func(*facts)
		rule   string // "": the taint is set
		why    string
	}{
		"all holds":                             {func(*facts) {}, "", ""},
		"nobody has said how they know":         {func(f *facts) { f.word.Reason = "" }, "", ""},
		"the drain goes on":                     {func(f *facts) { f.maintenance.Spec.Drain = &v1alpha1.Drain{} }, "", ""},
		"the switch does not answer":            {switchSays(corev1.ConditionFalse, v1alpha1.FenceNoAnswer, time.Minute), "", ""},
		"it says off, too":                      {switchSays(corev1.ConditionTrue, v1alpha1.FenceAnswersOff, time.Minute), "", ""},
		"it said on long ago":                   {switchSays(corev1.ConditionTrue, v1alpha1.FenceAnswers, 7*time.Hour), "", ""},
		"power is to be off, and nobody did it": {phase(v1alpha1.PowerWaiting), "", ""},
		"it was off when it was first read":     {phase(v1alpha1.PowerWasOff), "", ""},
		"nobody may switch it on any more":      {phase(v1alpha1.PowerLeftOff), "", ""},
		"it is read off, and not yet proved":    {phase(v1alpha1.PowerOff), "", ""},
		"a power cycle that has ended":          {action(finished), "", ""},
		"a command that has not":                {action(func(a *v1alpha1.NodeAction) { a.Status.Power = nil }), "", ""},

		"it has ended":       {func(f *facts) { f.maintenance.DeletionTimestamp = &now }, "word stands", "has ended"},
		"it does not say it": {func(f *facts) { f.maintenance.Spec.OutOfService = false }, "word stands", "does not say outOfService"},
		"it is a policy's": {func(f *facts) {
			f.maintenance.Spec.Remediation = &v1alpha1.RemediationReference{Name: "incident", UID: "remediation-1"}
		}, "word stands", "step of a policy"},
		"it is for an earlier node": {func(f *facts) { f.maintenance.Spec.NodeUID = "node-0" }, "word stands", "earlier node"},
		"another kind":              {func(f *facts) { f.word.Kind = "Time" }, "word stands", "nobody's word"},
		"nobody's name":             {func(f *facts) { f.word.By = "" }, "word stands", "nobody's word"},

		"no node":          {func(f *facts) { f.node = nil }, "nobody holds it", "gone"},
		"an excluded node": {func(f *facts) { f.node.Labels = map[string]string{v1alpha1.ExcludeLabel: "true"} }, "nobody holds it", "excluded"},
		"a paused cluster": {func(f *facts) {
			f.pause = &v1alpha1.RemediationBudget{Spec: v1alpha1.RemediationBudgetSpec{Paused: true}}
		}, "nobody holds it", "paused"},

		"it was not cordoned yet":   {func(f *facts) { f.maintenance.Status.Conditions = nil }, "cordoned", "is not cordoned"},
		"somebody has uncordoned":   {func(f *facts) { f.node.Spec.Unschedulable = false }, "cordoned", "is not cordoned"},
		"another node was cordoned": {func(f *facts) { f.maintenance.Status.NodeUID = "node-0" }, "cordoned", "is not cordoned"},

		"a node that was registered anew": {func(f *facts) { f.node.UID, f.maintenance.Status.NodeUID = "node-2", "node-2" }, "word is for that boot", "registered anew"},
		"a node that is being deleted":    {func(f *facts) { f.node.DeletionTimestamp = &now }, "word is for that boot", "being deleted"},
		"a newer boot":                    {func(f *facts) { f.node.Status.NodeInfo.BootID = boot2 }, "word is for that boot", "has booted"},
		"a word for another boot":         {func(f *facts) { f.word.BootID = boot2 }, "word is for that boot", "has booted"},
		"no boot ID":                      {func(f *facts) { f.node.Status.NodeInfo.BootID, f.word.BootID = "", "" }, "word is for that boot", "has no boot ID"},
		"a boot ID that no taint can have": {func(f *facts) { f.node.Status.NodeInfo.BootID, f.word.BootID = "a b", "a b" }, "word is for that boot",
			"value of a taint"},

		"it has answered, and is silent again": {func(f *facts) {
			f.node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(start.Add(-time.Second))
		}, "silent since", "has answered since that was said: Ready is Unknown since 2026-11-26T11:59:59Z, and it was said of a silence since 2026-11-26T11:59:00Z"},
		"an earlier version's word":               {func(f *facts) { f.word.SilentSince = metav1.Time{} }, "silent since", "written by an earlier version"},
		"a word that was given while it answered": {func(f *facts) { f.word.SilentSince = metav1.NewTime(start.Add(-time.Hour)) }, "silent since", "kubectl nodemend fence confirm worker-1"},

		"its detector writes on": {func(f *facts) {
			f.node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Time: &silent}, {Manager: "nodemend-detector", Time: &lately}}
		}, "nothing on it writes", "something on node worker-1 wrote its status at 2026-11-26T11:59:15Z"},
		"its kubelet renews its Lease": {func(f *facts) { f.renewed = lately.Time }, "nothing on it writes", "the kubelet of node worker-1 renewed its Lease at 2026-11-26T11:59:15Z"},
		"it renewed it a minute ago":   {func(f *facts) { f.renewed = silent.Time }, "", ""},
		"it wrote a minute ago, and somebody else just now": {func(f *facts) {
			f.node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "nodemend-detector", Time: &silent}, {Manager: "kube-controller-manager", Time: &lately}}
		}, "", ""},

		"a node that is Ready":    {ready(corev1.ConditionTrue), "not Ready", "not Unknown"},
		"one that says it is not": {ready(corev1.ConditionFalse), "not Ready", "not Unknown"},
		"one without Ready":       {func(f *facts) { f.node.Status.Conditions = nil }, "not Ready", "not Unknown"},
		"a taint of a person": {func(f *facts) {
			f.node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
		}, "no taint of somebody else", "already"},
		"a mark": {func(f *facts) { f.node.Annotations = map[string]string{v1alpha1.OutOfServiceAnnotation: "x"} }, "no taint of somebody else", "already"},

		"its switch has said on":      {switchSays(corev1.ConditionTrue, v1alpha1.FenceAnswers, time.Hour), "no switch says on", "fence check worker-1"},
		"it is shut down just now":    {phase(v1alpha1.PowerShuttingDown), "no switch says on", "in phase ShuttingDown"},
		"the off was sent just now":   {phase(v1alpha1.PowerCutting), "no switch says on", "in phase Cutting"},
		"the off was in vain":         {phase(v1alpha1.PowerStillOn), "no switch says on", "in phase StillOn"},
		"it is switched on":           {phase(v1alpha1.PowerRestoring), "no switch says on", "in phase Restoring"},
		"somebody has switched it on": {phase(v1alpha1.PowerOn), "no switch says on", "in phase On"},
		"it was read long ago":        {func(f *facts) { f.off = 16 * time.Second }, "stands now", "not read within 15s"},
		"nobody knows when":           {func(f *facts) { f.off = -1 }, "stands now", "not read within 15s"},
		"a power cycle is under way":  {action(func(*v1alpha1.NodeAction) {}), "no switch says on", "action action switches"},
	} {
		f := goodWord(t)
		test.change(&f)
		rule, why := refusal(f)
		if rule != test.rule || !strings.Contains(why, test.why) {
			t.Errorf("%s: rule %q: %q, want %q: %q", name, rule, why, test.rule, test.why)
		}
		broken[rule] = true
	}
	for _, r := range rulesOfWords() {
		if !broken[r.name] {
			t.Errorf("no row breaks the rule %q", r.name)
		}
	}
}

// Without a remote runner and a BMC, in each of its steps.
func TestAPersonsWordFreesPodsUntilTheMaintenanceIsOverAndTheNodeIsBack(t *testing.T) {
	s := sceneOf(t, goodWord(t))
	s.pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db-0"}}}
	r := s.controller()
	s.must(s.looks(r))
	want := v1alpha1.OutOfServiceMark{BootID: boot1, Action: "maintenance/swap"}
	if mark, _ := v1alpha1.OutOfServiceMarkOf(s.node()); !s.tainted() || mark != want {
		t.Fatalf("it has %v, %v", s.node().Annotations, s.node().Spec.Taints)
	}
	if said := s.says(); !strings.Contains(said, "for maintenance swap: jane has said at 2026-11-26T12:00:00Z that the machine is off, for boot "+boot1+": both cords are drawn") {
		t.Errorf("people are told %q", said)
	}
	s.pods = nil
	s.must(s.looks(r))
	if mark, _ := v1alpha1.OutOfServiceMarkOf(s.node()); !mark.Moved {
		t.Error("it is not told that all has moved")
	}
	s.set(boots)
	s.must(s.looks(r))
	if !s.tainted() {
		t.Error("the taint is taken away, and the maintenance lasts")
	}
	var m v1alpha1.NodeMaintenance
	m.Name = "swap"
	s.must(s.Patch(s.Context(), &m, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	s.must(s.Delete(s.Context(), &m))
	s.must(s.looks(r))
	if s.tainted() {
		t.Error("the taint stays")
	}
}

func TestAWordThatFreesNothingSaysWhyOnce(t *testing.T) {
	f := goodWord(t)
	switchSays(corev1.ConditionTrue, v1alpha1.FenceAnswers, time.Minute)(&f)
	s := sceneOf(t, f)
	r := s.controller()
	s.must(s.looks(r))
	s.must(s.looks(r))
	if said := s.says(); s.tainted() || !strings.Contains(said, "pods and volumes are not freed: the switch of node worker-1 has said on") {
		t.Errorf("tainted: %t, and people are told %q", s.tainted(), said)
	}
	if said := s.says(); said != "" {
		t.Errorf("and again %q", said)
	}
}

// The word of one may be of no use, as of a node that was registered anew; that of the other one is not.
func TestAWordThatFreesNothingDoesNotHideAnother(t *testing.T) {
	f := goodWord(t)
	s := sceneOf(t, f)
	for _, name := range []string{"a-older", "z-older"} {
		older := f.maintenance.DeepCopy()
		older.Name, older.UID, older.ResourceVersion = name, types.UID(name), ""
		older.Spec.MachineOff.By, older.Spec.MachineOff.NodeUID = "joe", "node-0"
		s.must(s.Create(t.Context(), older))
	}
	r := s.controller()
	s.must(s.looks(r))
	if !s.tainted() {
		t.Errorf("it is not tainted, and people are told %q", s.says())
	}
}

// The remote runner reads off only so often: then nobody frees by that maintenance any more.
func TestAMaintenanceThatWaitsInVainHidesNoWord(t *testing.T) {
	f := goodWord(t)
	s := sceneOf(t, f)
	for _, name := range []string{"a-off", "z-off"} {
		off := f.maintenance.DeepCopy()
		off.Name, off.UID, off.ResourceVersion, off.Spec.MachineOff = name, types.UID(name), "", nil
		off.Status.Power = &v1alpha1.MaintenancePowerStatus{Phase: v1alpha1.PowerOff, BootID: boot1, Held: 300, Proof: &v1alpha1.PowerProof{}}
		s.must(s.Create(t.Context(), off))
	}
	r := s.controller()
	s.must(s.looks(r))
	if !s.tainted() {
		t.Errorf("it is not tainted, and people are told %q", s.says())
	}
}

// It may stand for weeks: it is not asked for as often as a machine is read that is kept off.
func TestAWordThatFreesNothingIsSeldomLookedAt(t *testing.T) {
	f := goodWord(t)
	f.node.Status.Conditions[0].Status = corev1.ConditionTrue
	s := sceneOf(t, f)
	if again, err := s.controller().reconcile(t.Context(), "worker-1"); err != nil || again != slow {
		t.Errorf("it is looked at again in %s, %v", again, err)
	}
}

// Whoever has given it may have taken it back while the controller was slow.
func TestAWordThatWasReadLongAgoIsReadAgain(t *testing.T) {
	s := sceneOf(t, goodWord(t))
	slow := 16 * time.Second
	s.before = func(_ string, object any) error {
		if _, is := object.(*storagev1.VolumeAttachmentList); is {
			s.now = s.now.Add(slow)
		}
		return nil
	}
	r := s.controller()
	s.must(s.looks(r))
	if s.tainted() {
		t.Error("it is tainted by a word that may be taken back")
	}
	slow = time.Second
	s.must(s.looks(r))
	if !s.tainted() {
		t.Error("it is not tainted by one that was read again")
	}
}

// Of another boot it would free nothing for ever, so nobody asks the API server each moment.
func TestNobodyWaitsForAWordForAnotherBoot(t *testing.T) {
	f := goodWord(t)
	f.node.Status.NodeInfo.BootID = boot2
	s := sceneOf(t, f)
	switch again, err := s.controller().reconcile(t.Context(), "worker-1"); {
	case err != nil:
		t.Fatal(err)
	case again != 0 || s.tainted():
		t.Errorf("it is looked at again in %s, tainted: %t", again, s.tainted())
	}
}

// What the readings of off say is enough, and asked anew each time.
func TestAPowerProofGoesBeforeAWord(t *testing.T) {
	f := goodMaintenance(t, false)
	f.maintenance.Spec.MachineOff = goodWord(t).word
	f.maintenance.Spec.MachineOff.BootID = boot2 // of no use
	s := sceneOf(t, f)
	got, err := s.controller().read(t.Context(), v1alpha1.OutOfServiceMark{Action: "maintenance/swap"}, "worker-1")
	s.must(err)
	if got.word != nil {
		t.Error("the word is taken")
	}
}
