package budget

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/index"
)

func TestTake(t *testing.T) {
	gentle, disruptive := v1alpha1.Permit{Remediation: "mine"}, v1alpha1.Permit{Remediation: "mine", Disruptive: true}
	for name, tt := range map[string]struct {
		limit, disruptions int32
		held               map[string]v1alpha1.Permit
		ask                v1alpha1.Permit
		refused            string
		left               int32 // of disruptions
	}{
		"a free one":                     {2, 1, map[string]v1alpha1.Permit{"x": {Remediation: "r"}}, gentle, "", 1},
		"a free one to disrupt":          {2, 1, nil, disruptive, "", 1},
		"none":                           {1, 1, map[string]v1alpha1.Permit{"x": {Remediation: "r"}}, gentle, "1 of 1 permits of group r7 are taken", 1},
		"none to disrupt":                {2, 1, map[string]v1alpha1.Permit{"x": {Remediation: "r", Disruptive: true}}, disruptive, "1 of 1 permits of group r7 for disruptive steps are taken", 1},
		"that of another":                {9, 9, map[string]v1alpha1.Permit{"mine": {Remediation: "other"}}, gentle, "remediation other acts on node mine", 9},
		"one's own":                      {1, 0, map[string]v1alpha1.Permit{"mine": gentle}, gentle, "", 0},
		"one's own although it is over":  {0, 0, map[string]v1alpha1.Permit{"mine": disruptive}, disruptive, "", 0},
		"one's own, taken anew":          {1, 1, map[string]v1alpha1.Permit{"mine": disruptive}, v1alpha1.Permit{Remediation: "mine", Disruptive: true, Version: "2"}, "", 1},
		"one's own, now to disrupt":      {1, 1, map[string]v1alpha1.Permit{"mine": gentle}, disruptive, "", 1},
		"one's own, too many to disrupt": {1, 0, map[string]v1alpha1.Permit{"mine": gentle}, disruptive, "0 of 0 permits of group r7 for disruptive steps", 0},
		"one's own, gentle again":        {1, 1, map[string]v1alpha1.Permit{"mine": disruptive}, gentle, "", 1},
	} {
		b := budgetOf("b", "", tt.limit)
		b.Status.Groups = map[string]v1alpha1.BudgetGroup{"r7": {Limit: &tt.limit, DisruptionLimit: &tt.disruptions, Permits: tt.held}}
		err := take(&b, &b, readyNode("mine", "rack", "r7"), tt.ask, "")
		tt.ask.Disruptive = tt.ask.Disruptive || tt.held["mine"].Disruptive
		if tt.refused == "" && (err != nil || b.Status.Groups["r7"].Permits["mine"] != tt.ask) {
			t.Errorf("%s: %v, permits %v", name, err, b.Status.Groups["r7"].Permits)
		}
		if tt.refused != "" && (!errors.Is(err, ErrExhausted) || !strings.Contains(err.Error(), tt.refused)) {
			t.Errorf("%s: got %v, want %q", name, err, tt.refused)
		}
		if got := *b.Status.Groups["r7"].DisruptionLimit; got != tt.left {
			t.Errorf("%s: disruption limit %d, want %d", name, got, tt.left)
		}
	}
}

func TestNobodyTakesAPermitOfAPausedBudget(t *testing.T) {
	held := v1alpha1.Permit{Remediation: "mine", Version: "1"}
	limit := int32(5)
	b := budgetOf("b", "", limit)
	b.Spec.Paused = true
	b.Status.Groups = map[string]v1alpha1.BudgetGroup{"-": {Limit: &limit, Permits: map[string]v1alpha1.Permit{"mine": held}}}
	for name, permit := range map[string]v1alpha1.Permit{
		"a new one":                  {Remediation: "new", Version: "1"},
		"one's own, for what's next": {Remediation: "mine", Version: "2"},
	} {
		node := "mine"
		if permit.Remediation == "new" {
			node = "another"
		}
		if err := take(&b, &b, readyNode(node, "rack", "r7"), permit, ""); !errors.Is(err, ErrPaused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What was announced under it goes on.
	if err := take(&b, &b, readyNode("mine", "rack", "r7"), v1alpha1.Permit{Remediation: "mine"}, ""); err != nil {
		t.Error(err)
	}
}

func TestNobodyTakesAPermitBeforeTheGroupIsCounted(t *testing.T) {
	b := budgetOf("b", "", 5)
	for _, rack := range []string{"r7", "r9"} {
		b.Status.Groups["r7"] = v1alpha1.BudgetGroup{Nodes: 3}
		err := take(&b, &b, readyNode("mine", "rack", rack), v1alpha1.Permit{Remediation: "mine"}, "")
		if !errors.Is(err, ErrExhausted) || !strings.Contains(err.Error(), "the nodes of group "+rack+" are not counted yet") {
			t.Errorf("%s: %v", rack, err)
		}
	}
}

func TestANodeThatMovedKeepsItsPermitWhereItWas(t *testing.T) {
	b := budgetOf("b", "", 5)
	b.Status.Groups["r6"].Permits["mine"] = v1alpha1.Permit{Remediation: "mine"}
	moved := readyNode("mine", "rack", "r7")
	if err := take(&b, &b, moved, v1alpha1.Permit{Remediation: "other"}, ""); !errors.Is(err, ErrExhausted) {
		t.Errorf("another took a second permit: %v", err)
	}
	if err := take(&b, &b, moved, v1alpha1.Permit{Remediation: "mine", Disruptive: true}, ""); err != nil {
		t.Fatal(err)
	}
	if !b.Status.Groups["r6"].Permits["mine"].Disruptive || len(b.Status.Groups["r7"].Permits) != 0 {
		t.Errorf("got %v", b.Status.Groups)
	}
	if err := release(&b, "mine", v1alpha1.Permit{Remediation: "mine"}, moved); err != nil {
		t.Error(err)
	}
	if _, _, held := Permit(&b, "mine"); held {
		t.Error("it was not released")
	}
}

func TestAReleasedDisruptionIsHeldBackUntilTheNodesAreCounted(t *testing.T) {
	b := budgetOf("b", "", 5)
	permits := map[string]v1alpha1.Permit{"a": {Remediation: "a", Disruptive: true}, "b": {Remediation: "b"}}
	b.Status.Groups["r7"] = v1alpha1.BudgetGroup{DisruptionLimit: ptr.To[int32](1), Permits: permits}
	limit := func() int32 { return *b.Status.Groups["r7"].DisruptionLimit }
	free := func(node, remediation string, left *corev1.Node) error {
		return release(&b, node, v1alpha1.Permit{Remediation: remediation}, left)
	}
	if err := free("a", "other", nil); err != nil || len(permits) != 2 || limit() != 1 {
		t.Error("the permit of another was released:", err)
	}
	if err := free("b", "b", nil); err != nil || limit() != 1 {
		t.Error("a gentle step is over, and there are fewer disruptions:", err)
	}
	if err := free("a", "a", nil); !errors.Is(err, errNotLookedAt) || len(permits) != 1 || limit() != 1 {
		t.Error("it was released, and nobody knows how the node was left:", err)
	}
	left := readyNode("a", "rack", "r7")
	left.ResourceVersion = "17"
	if err := free("a", "a", left); err != nil || limit() != 0 || len(permits) != 0 {
		t.Errorf("%v, limit %d, permits %v; want none", err, limit(), permits)
	}
	// The node is out, and only who knows that may count it.
	for version, want := range map[string]error{"": errBehind, "9": errBehind, "16": errBehind, "17": nil, "100": nil} {
		seen := view{of: &b, live: true, version: version, at: noon, nodes: []NodeState{{Name: "a", Group: "r7"}, {Name: "b", Group: "r7", Available: true}}}
		got, err := seen.status(&b)
		if !errors.Is(err, want) {
			t.Errorf("knowing version %q: %v, want %v", version, err, want)
		}
		if err == nil && (got.NodesVersion != version || got.Groups["r7"].Unavailable != 1) {
			t.Errorf("knowing version %q: counted %v", version, got)
		}
	}
}

func TestWhoHasTakenANodeOutHoldsItsDisruptionUntilTheRelease(t *testing.T) {
	b := budgetOf("b", "", 5)
	node := readyNode("mine", "rack", "r7")
	b.Status.Groups["r7"] = v1alpha1.BudgetGroup{Nodes: 3, Limit: ptr.To[int32](5), DisruptionLimit: ptr.To[int32](1)}
	for _, disruptive := range []bool{true, false} { // since it is out meanwhile
		if err := take(&b, &b, node, v1alpha1.Permit{Remediation: "mine", Disruptive: disruptive}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if FreeDisruptions(&b, "r7") != 0 {
		t.Errorf("got %v", b.Status.Groups["r7"])
	}
}

func TestNobodyTakesAPermitByLimitsThatAreOver(t *testing.T) {
	b := budgetOf("b", "", 5)
	b.Generation = 2
	b.Status.Groups["r7"] = v1alpha1.BudgetGroup{Nodes: 3, Limit: ptr.To[int32](5)}
	b.Status.ObservedGeneration = 1
	ask := func() error {
		return take(&b, &b, readyNode("mine", "rack", "r7"), v1alpha1.Permit{Remediation: "mine"}, "")
	}
	if err := ask(); !errors.Is(err, ErrExhausted) || !strings.Contains(err.Error(), "are not counted yet") {
		t.Error(err)
	}
	seen := view{of: &b, live: true, at: noon, nodes: []NodeState{{Name: "mine", Group: "r7", Available: true}}}
	var err error
	if b.Status, err = seen.status(&b); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err != nil {
		t.Error(err)
	}
}

// The API server refuses a write in which a permit passes from one remediation to another,
// and with it what all others wanted.
func TestAPermitThatIsReleasedIsNotPassedOnInTheSameWrite(t *testing.T) {
	was := budgetOf("b", "", 5)
	was.Status.Groups["r7"] = v1alpha1.BudgetGroup{Limit: ptr.To[int32](5), Permits: map[string]v1alpha1.Permit{"mine": {Remediation: "old"}}}
	b := was.DeepCopy()
	node := readyNode("mine", "rack", "r7")
	if err := release(b, "mine", v1alpha1.Permit{Remediation: "old"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := take(&was, b, node, v1alpha1.Permit{Remediation: "new"}, ""); !errors.Is(err, ErrExhausted) {
		t.Error(err)
	}
	if err := take(b, b, node, v1alpha1.Permit{Remediation: "new"}, ""); err != nil {
		t.Error(err)
	}
}

func TestABudgetThatDoesNotSelectTheNodeAnyMoreGivesNoPermitForIt(t *testing.T) {
	b := budgetOf("b", "", 2)
	b.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "r6"}}
	node := readyNode("mine", "rack", "r7")
	permit := v1alpha1.Permit{Remediation: "mine", Version: "2"}
	if err := take(&b, &b, node, permit, ""); !errors.Is(err, ErrExhausted) || !strings.Contains(err.Error(), "it does not select node mine any more") {
		t.Errorf("got %v", err)
	}
	b.Status.Groups["r7"].Permits["mine"] = permit
	if err := take(&b, &b, node, permit, ""); err != nil {
		t.Errorf("whoever has it keeps it: %v", err)
	}
}

// Somebody has counted who knows more of the nodes: the one that asks may have the labels of
// before.
func TestNobodyTakesAPermitByAnEarlierViewOfTheNodes(t *testing.T) {
	for name, tt := range map[string]struct {
		held     v1alpha1.Permit
		known    string
		conflict bool
		group    string
	}{
		"nothing is held":                           {v1alpha1.Permit{}, "99", true, ""},
		"a new attempt, filed by who knows more":    {v1alpha1.Permit{Remediation: "mine", Version: "1"}, "99", true, "r6"},
		"the same attempt, filed by who knows more": {v1alpha1.Permit{Remediation: "mine", Version: "2"}, "99", true, "r6"},
		"the same attempt, by who knows as much":    {v1alpha1.Permit{Remediation: "mine", Version: "2"}, "100", false, "r7"},
		"a new attempt, by who knows as much":       {v1alpha1.Permit{Remediation: "mine", Version: "1"}, "100", false, "r7"},
		"nothing is held, and all is known":         {v1alpha1.Permit{}, "100", false, "r7"},
	} {
		b := budgetOf("b", "", 1)
		b.Status.NodesVersion = "100"
		b.Status.Groups = map[string]v1alpha1.BudgetGroup{"r6": {Limit: ptr.To[int32](1), Permits: map[string]v1alpha1.Permit{}}, "r7": {Limit: ptr.To[int32](1)}}
		if tt.held.Remediation != "" {
			b.Status.Groups["r6"].Permits["mine"] = tt.held
		}
		err := take(&b, &b, readyNode("mine", "rack", "r7"), v1alpha1.Permit{Remediation: "mine", Version: "2"}, tt.known)
		if tt.conflict != apierrors.IsConflict(err) || !tt.conflict && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, group, _ := Permit(&b, "mine"); group != tt.group {
			t.Errorf("%s: the permit is in group %q, want %q", name, group, tt.group)
		}
	}
}

func TestWhatIsBegunCountsInTheGroupInWhichTheNodeIs(t *testing.T) {
	for name, tt := range map[string]struct {
		permit  v1alpha1.Permit
		limit   int32 // of permits and disruptions in the new group
		refused bool
		group   string
	}{
		"there is one":                        {v1alpha1.Permit{Remediation: "mine", Version: "2", Disruptive: true}, 2, false, "r7"},
		"there is none":                       {v1alpha1.Permit{Remediation: "mine", Version: "2"}, 1, true, "r6"},
		"what was announced before goes on":   {v1alpha1.Permit{Remediation: "mine"}, 1, false, "r6"},
		"the same is asked for, and moves":    {v1alpha1.Permit{Remediation: "mine", Version: "1"}, 2, false, "r7"},
		"the same is asked for, and can't be": {v1alpha1.Permit{Remediation: "mine", Version: "1"}, 1, true, "r6"},
	} {
		b := budgetOf("b", "", tt.limit)
		b.Status.Groups["r6"] = v1alpha1.BudgetGroup{Limit: ptr.To[int32](1), Permits: map[string]v1alpha1.Permit{"mine": {Remediation: "mine", Version: "1"}}}
		b.Status.Groups["r7"].Permits["other"] = v1alpha1.Permit{Remediation: "other", Disruptive: false}
		err := take(&b, &b, readyNode("mine", "rack", "r7"), tt.permit, "")
		_, group, _ := Permit(&b, "mine")
		if errors.Is(err, ErrExhausted) != tt.refused || group != tt.group || len(b.Status.Groups["r6"].Permits)+len(b.Status.Groups["r7"].Permits) != 2 {
			t.Errorf("%s: %v, in group %s of %v", name, err, group, b.Status.Groups)
		}
	}
}

// Somebody has changed meanwhile which nodes the budget selects, or how they are grouped.
func TestWhatWasCountedForAnEarlierSpecIsNotWritten(t *testing.T) {
	b := budgetOf("b", "pool", 5)
	seen := view{of: &b, live: true, at: noon, nodes: []NodeState{{Name: "mine", Group: "r7", Available: true}}}
	regrouped, others, limits := b.DeepCopy(), b.DeepCopy(), b.DeepCopy()
	regrouped.Spec.GroupBy = "zone"
	others.Spec.NodeSelector = nil
	limits.Spec.MaxConcurrent = ptr.To(intstr.FromInt32(1))
	for _, changed := range []*v1alpha1.RemediationBudget{regrouped, others} {
		if _, err := seen.status(changed); !errors.Is(err, errBehind) {
			t.Errorf("counted for %+v: %v", changed.Spec, err)
		}
	}
	if got, err := seen.status(limits); err != nil || *got.Groups["r7"].Limit != 1 {
		t.Errorf("limits are taken as they are now: %v, %v", got.Groups, err)
	}
}

func TestABudgetThatIsCreatedAgainLearnsWhoActs(t *testing.T) {
	acting := func(name string, reboot bool) *v1alpha1.Remediation {
		r := waiting(name, 0, reboot)
		r.Status.Action = name + "-1"
		return r
	}
	b := budgetOf("b", "", 3)
	b.Status = v1alpha1.RemediationBudgetStatus{}
	b.Spec.MaxUnavailable = b.Spec.MaxConcurrent
	var fleet []NodeState
	for _, name := range []string{"a", "b", "c", "d", "m", "w"} {
		fleet = append(fleet, NodeState{Name: name, Group: "r7", Available: name == "a"})
	}
	lost := waiting("a", 0, false)
	lost.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationBlocked, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonStillRunning}}
	announced := waiting("m", time.Minute, true) // the maintenance may have been created by now, and its node cordoned
	announced.Status.Maintenance = "m-1"
	announced.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationProgressing, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonStarting}}
	open := []*v1alpha1.Remediation{lost, waiting("w", 0, false), announced, acting("c", false), acting("b", true), acting("not-selected", false)}
	seen := view{of: &b, live: true, nodes: fleet, open: open, at: noon}
	got, err := seen.status(&b)
	if err != nil {
		t.Fatal(err)
	}
	permits := got.Groups["r7"].Permits
	if len(permits) != 3 || permits["a"].Remediation != "a" || permits["b"].Remediation != "b" || permits["m"].Remediation != "m" {
		t.Errorf("got %v, want as many as fit", permits)
	}
	cached := seen
	cached.live = false
	if _, err := cached.status(&b); !errors.Is(err, errBehind) {
		t.Errorf("it learned from a cache, which may be behind: %v", err)
	}
	b.Status = v1alpha1.RemediationBudgetStatus{Nodes: ptr.To[int32](0)}
	if got, err := seen.status(&b); err != nil || len(got.Groups["r7"].Permits) != 0 {
		t.Errorf("a budget that has a status learned %v, %v", got.Groups["r7"].Permits, err)
	}
}

// Whoever returns a permit says which one: it may have been taken anew meanwhile.
func TestAPermitThatWasTakenAnewIsNotReleased(t *testing.T) {
	b := budgetOf("b", "", 5)
	b.Status.Groups["-"] = v1alpha1.BudgetGroup{Nodes: 3, Limit: ptr.To[int32](5)}
	version := func() string {
		permit, _, _ := Permit(&b, "mine")
		return permit.Version
	}
	taking := func(version string) {
		t.Helper()
		if err := take(&b, &b, readyNode("mine", "rack", ""), v1alpha1.Permit{Remediation: "mine", Version: version}, ""); err != nil {
			t.Fatal(err)
		}
	}
	taking("1")
	taking("2")
	if version() != "2" {
		t.Errorf("taken anew, it has version %q", version())
	}
	if err := take(&b, &b, readyNode("mine", "rack", ""), v1alpha1.Permit{Remediation: "mine", Version: "1"}, ""); !apierrors.IsConflict(err) || version() != "2" {
		t.Errorf("taken by an earlier view of the remediation, it has version %q: %v", version(), err)
	}
	released := b.DeepCopy()
	delete(released.Status.Groups["-"].Permits, "mine")
	if err := take(&b, released, readyNode("mine", "rack", ""), v1alpha1.Permit{Remediation: "mine", Version: "1"}, ""); !apierrors.IsConflict(err) {
		t.Errorf("released and taken by an earlier view of the remediation in one write: %v", err)
	}
	taking("")
	if version() != "2" {
		t.Errorf("taken without a version, it has version %q", version())
	}
	free := func(version string) {
		t.Helper()
		if err := release(&b, "mine", v1alpha1.Permit{Remediation: "mine", Version: version}, nil); err != nil {
			t.Error(err)
		}
	}
	free("1")
	if version() != "2" {
		t.Error("an old one was released, and the new one is gone")
	}
	free("2")
	if _, _, held := Permit(&b, "mine"); held {
		t.Error("it was not released")
	}
}

func TestAPermitIsKeptAsLongAsItsNodeMayYetBeCordoned(t *testing.T) {
	node := func(cordoned bool) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node"}, Spec: corev1.NodeSpec{Unschedulable: cordoned}}
	}
	maintenance := func(change ...func(*v1alpha1.NodeMaintenance)) *v1alpha1.NodeMaintenance {
		m := &v1alpha1.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{Name: "m", Finalizers: []string{v1alpha1.MaintenanceFinalizer}},
			Spec:       v1alpha1.NodeMaintenanceSpec{NodeName: "n", NodeUID: "node", Remediation: &v1alpha1.RemediationReference{Name: "mine"}},
		}
		for _, c := range change {
			c(m)
		}
		return m
	}
	leaving := func(m *v1alpha1.NodeMaintenance) { m.DeletionTimestamp = ptr.To(metav1.Now()) }
	for name, tt := range map[string]struct {
		objects []client.Object
		kept    bool
	}{
		"the node is gone":                             {[]client.Object{maintenance()}, false},
		"nothing takes it out":                         {[]client.Object{node(false)}, false},
		"it is to be cordoned":                         {[]client.Object{node(false), maintenance()}, true},
		"it was to be, which may be on its way":        {[]client.Object{node(false), maintenance(leaving)}, true},
		"it was given back":                            {[]client.Object{node(false), maintenance(leaving, func(m *v1alpha1.NodeMaintenance) { m.Finalizers = []string{"of/others"} })}, false},
		"it is cordoned, and the nodes that are count": {[]client.Object{node(true), maintenance()}, false},
		"another node of the name is to be":            {[]client.Object{node(false), maintenance(func(m *v1alpha1.NodeMaintenance) { m.Spec.NodeUID = "other" })}, false},
		"another remediation takes it out":             {[]client.Object{node(false), maintenance(func(m *v1alpha1.NodeMaintenance) { m.Spec.Remediation.Name = "other" })}, false},
		"a person takes it out":                        {[]client.Object{node(false), maintenance(func(m *v1alpha1.NodeMaintenance) { m.Spec.Remediation = nil })}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := runtime.NewScheme()
			if err := errors.Join(corev1.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
				t.Fatal(err)
			}
			live := fake.NewClientBuilder().WithScheme(s).WithObjects(tt.objects...).
				WithIndex(&v1alpha1.NodeMaintenance{}, index.MaintenancesByNode, func(obj client.Object) []string {
					return []string{obj.(*v1alpha1.NodeMaintenance).Spec.NodeName}
				}).Build()
			if _, err := New(nil, live).leave(t.Context(), "n", "mine"); apierrors.IsConflict(err) != tt.kept || !tt.kept && err != nil {
				t.Errorf("got %v, want a conflict: %t", err, tt.kept)
			}
		})
	}
}

func TestNothingIsTakenWhatAnotherBudgetIsKnownToRefuse(t *testing.T) {
	counted := func(name string, paused bool, permits map[string]v1alpha1.Permit) v1alpha1.RemediationBudget {
		return v1alpha1.RemediationBudget{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.RemediationBudgetSpec{Paused: paused},
			Status: v1alpha1.RemediationBudgetStatus{
				Nodes:  ptr.To[int32](9),
				Groups: map[string]v1alpha1.BudgetGroup{v1alpha1.UngroupedNodes: {Nodes: 9, Limit: ptr.To[int32](1), Permits: permits}},
			},
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	mine := v1alpha1.Permit{Remediation: "mine", Version: "2"}
	held := func(p v1alpha1.Permit) map[string]v1alpha1.Permit { return map[string]v1alpha1.Permit{"n": p} }
	for name, tt := range map[string]struct {
		budgets []v1alpha1.RemediationBudget
		refused bool
		taken   int
	}{
		"both have one":                       {[]v1alpha1.RemediationBudget{counted("a", false, nil), counted("b", false, nil)}, false, 0},
		"the second is paused":                {[]v1alpha1.RemediationBudget{counted("a", false, nil), counted("b", true, nil)}, true, 0},
		"the first is held for this version":  {[]v1alpha1.RemediationBudget{counted("a", false, held(mine)), counted("b", true, nil)}, true, 1},
		"or for an earlier one":               {[]v1alpha1.RemediationBudget{counted("a", false, held(v1alpha1.Permit{Remediation: "mine", Version: "1"})), counted("b", true, nil)}, true, 0},
		"or by another remediation":           {[]v1alpha1.RemediationBudget{counted("a", false, nil), counted("b", false, held(v1alpha1.Permit{Remediation: "other"}))}, true, 0},
		"what is held already is not refused": {[]v1alpha1.RemediationBudget{counted("a", true, held(mine)), counted("b", false, nil)}, false, 0},
		"a single one is asked":               {[]v1alpha1.RemediationBudget{counted("a", true, nil)}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var refused *Refused
			err := New(nil, nil).foresee(tt.budgets, node, mine, "")
			if errors.As(err, &refused) != tt.refused {
				t.Fatalf("got %v, want a refusal: %t", err, tt.refused)
			}
			if tt.refused && len(refused.Taken) != tt.taken {
				t.Errorf("%d are held, want %d", len(refused.Taken), tt.taken)
			}
		})
	}
}
