package budget

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestARemediationOfAPolicyOnTrialMakesNoNodeSick(t *testing.T) {
	policy := func(uid types.UID, mode v1alpha1.PolicyMode) v1alpha1.RemedyPolicy {
		return v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: v1alpha1.RemedyPolicySpec{Mode: mode}}
	}
	of := func(uid types.UID) *v1alpha1.Remediation {
		return &v1alpha1.Remediation{Spec: v1alpha1.RemediationSpec{NodeUID: "node of " + uid, Policy: v1alpha1.PolicyReference{UID: uid}}}
	}
	open := []*v1alpha1.Remediation{of("enforced"), of("trial"), of("default"), of("gone")}
	policies := []v1alpha1.RemedyPolicy{policy("enforced", v1alpha1.ModeEnforce), policy("trial", v1alpha1.ModeDryRun), policy("default", "")}
	want := map[types.UID]bool{"node of enforced": true, "node of default": true, "node of gone": true}
	if diff := cmp.Diff(want, Sick(open, policies)); diff != "" {
		t.Error(diff)
	}
}

// fleetOf is a group of nodes: h is healthy, s sick but available, u unavailable;
// a capital letter has a permit, D one for a disruptive step of an available node,
// O one for that of a node that is out meanwhile, and d one of a node that is not
// known to be sick.
func fleetOf(b *v1alpha1.RemediationBudget, letters string) []NodeState {
	var nodes []NodeState
	permits := map[string]v1alpha1.Permit{}
	for i, letter := range letters {
		node := NodeState{Name: fmt.Sprintf("n%d", i), Group: "-", Available: true}
		switch letter {
		case 'H', 'S', 'U':
			permits[node.Name] = v1alpha1.Permit{Remediation: "r"}
		case 'D', 'O', 'd':
			permits[node.Name] = v1alpha1.Permit{Remediation: "r", Disruptive: true}
		}
		node.Available = letter != 'u' && letter != 'U' && letter != 'O'
		node.Sick = letter != 'h' && letter != 'u' && letter != 'd'
		nodes = append(nodes, node)
	}
	b.Status.Groups = map[string]v1alpha1.BudgetGroup{"-": {Permits: permits}}
	return nodes
}

func TestGroupsCountWhatMayBeDisrupted(t *testing.T) {
	tests := []struct {
		maxUnavailable, minHealthy string
		nodes                      string
		healthy, unavailable       int32
		limit                      int32 // -1: none
		storm                      bool
	}{
		{"", "", "hhsSuUDO", 2, 2, -1, false},
		{"1", "", "hhh", 3, 0, 1, false},
		{"1", "", "hhu", 2, 1, 0, false},
		{"1", "", "hhU", 2, 1, 0, false}, // it is out already, and needs no permit to be
		{"1", "", "hhD", 2, 0, 1, false}, // and holds it
		{"1", "", "hhO", 2, 0, 1, false},
		{"2", "", "hhOu", 2, 1, 1, false},
		{"2", "", "huuu", 1, 3, 0, false},
		{"50%", "", "h", 1, 0, 0, false},
		{"1", "", "s", 0, 0, 1, false},
		{"1", "", "hd", 1, 0, 1, false}, // its remediation is not in the cache yet
		{"", "66%", "hhs", 2, 0, 1, false},
		{"", "66%", "hhu", 2, 1, 0, false},
		{"", "66%", "hss", 1, 0, 0, true},
		{"", "66%", "hOs", 1, 0, 0, true},
		{"", "66%", "hhhhhhsss", 6, 0, 3, false},
		{"", "66%", "hhhhhhssu", 6, 1, 2, false},
		{"", "66%", "hhhhhhsuU", 6, 2, 1, false},
		{"", "66%", "hhhhhssss", 5, 0, 0, true},
		{"", "50%", "s", 0, 0, 0, true},
		{"", "0%", "s", 0, 0, 1, false},
		{"", "100%", "hhh", 3, 0, 0, false},
		{"2", "66%", "hhhhhhsss", 6, 0, 2, false},
		{"9", "66%", "hhhhhhssu", 6, 1, 2, false},
	}
	for _, tt := range tests {
		b := &v1alpha1.RemediationBudget{}
		if tt.maxUnavailable != "" {
			b.Spec.MaxUnavailable = ptr.To(intstr.Parse(tt.maxUnavailable))
		}
		if tt.minHealthy != "" {
			b.Spec.MinHealthy = ptr.To(intstr.Parse(tt.minHealthy))
		}
		status, err := Groups(b, fleetOf(b, tt.nodes), noon)
		if err != nil {
			t.Fatal(err)
		}
		g := status.Groups["-"]
		if got := ptr.Deref(g.DisruptionLimit, -1); g.Healthy != tt.healthy || g.Unavailable != tt.unavailable || got != tt.limit || (g.Storm != nil) != tt.storm {
			t.Errorf("maxUnavailable %q, minHealthy %q, %s: healthy %d, unavailable %d, limit %d, storm %v; want %d, %d, %d, %t",
				tt.maxUnavailable, tt.minHealthy, tt.nodes, g.Healthy, g.Unavailable, got, g.Storm, tt.healthy, tt.unavailable, tt.limit, tt.storm)
		}
	}
}

func TestAPermitGoesWithItsNodeToAnotherGroupThatMayGiveOneMore(t *testing.T) {
	gentle, disruptive := v1alpha1.Permit{Remediation: "r"}, v1alpha1.Permit{Remediation: "r", Disruptive: true}
	for name, tt := range map[string]struct {
		spec   v1alpha1.RemediationBudgetSpec
		permit v1alpha1.Permit
		taken  bool // by another node of the group
		out    bool
		want   bool
	}{
		"a free permit":             {v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromInt32(2))}, gentle, true, false, true},
		"none is free":              {v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromInt32(1))}, gentle, true, false, false},
		"a free disruption":         {v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromInt32(2)), MaxUnavailable: ptr.To(intstr.FromInt32(1))}, disruptive, false, false, true},
		"no disruption is free":     {v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromInt32(2)), MaxUnavailable: ptr.To(intstr.FromInt32(1))}, disruptive, true, false, false},
		"it is the one that is out": {v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromInt32(2)), MaxUnavailable: ptr.To(intstr.FromInt32(1))}, disruptive, false, true, true},
	} {
		b := &v1alpha1.RemediationBudget{Spec: tt.spec}
		b.Status.Groups = map[string]v1alpha1.BudgetGroup{"old": {Nodes: 3, Permits: map[string]v1alpha1.Permit{"moved": tt.permit}}, "empty": {Nodes: 1}}
		want := map[string]v1alpha1.Permit{}
		if tt.taken {
			want["there"] = disruptive
			b.Status.Groups["new"] = v1alpha1.BudgetGroup{Permits: map[string]v1alpha1.Permit{"there": disruptive}}
		}
		status, err := Groups(b, []NodeState{{Name: "moved", Group: "new", Available: !tt.out}, {Name: "there", Group: "new", Available: true}}, noon)
		if err != nil {
			t.Fatal(err)
		}
		old, stays := status.Groups["old"]
		if tt.want {
			want["moved"] = tt.permit
		}
		if got := status.Groups["new"]; !equality.Semantic.DeepEqual(got.Permits, want) || got.Nodes != 2 || got.Unavailable != 0 || len(status.Groups["empty"].Permits) != 0 {
			t.Errorf("%s: the new group is %+v, want permits %v", name, got, want)
		}
		if stays == tt.want || stays && (old.Nodes != 0 || old.Storm != nil || old.Permits["moved"] != tt.permit) {
			t.Errorf("%s: the former group is %+v, which is there: %t", name, old, stays)
		}
		if after := (&v1alpha1.RemediationBudget{Status: status}); stays {
			delete(status.Groups["new"].Permits, "there")
			if free := Free(after, "new"); free > 1 || free > 0 && FreeDisruptions(after, "new") > 0 {
				t.Errorf("%s: what the other node returns is free before it has come: %+v", name, status.Groups["new"])
			}
		}
		if _, had := b.Status.Groups["old"].Permits["moved"]; !had {
			t.Errorf("%s: the budget itself was changed", name)
		}
	}
}

func TestMoreGroupsThanTheAPIServerTakesAreLeftOut(t *testing.T) {
	b := &v1alpha1.RemediationBudget{}
	held := map[string]v1alpha1.Permit{"n": {Remediation: "r"}}
	b.Status.Groups = map[string]v1alpha1.BudgetGroup{"z": {Permits: held}}
	nodes := []NodeState{{Name: "n", Group: "z"}}
	for i := range MaxGroups + 5 {
		nodes = append(nodes, NodeState{Name: "n", Group: fmt.Sprintf("g%04d", i)})
	}
	status, err := Groups(b, nodes, noon)
	if err != nil || len(status.Groups) != MaxGroups {
		t.Fatalf("%d groups, %v; want %d", len(status.Groups), err, MaxGroups)
	}
	if _, first := status.Groups["g0000"]; !first || status.Groups["z"].Nodes != 1 {
		t.Error("want the first groups by name, and those that hold permits")
	}
}

func TestAStormIsOverAfterItsCooldown(t *testing.T) {
	spec := v1alpha1.RemediationBudgetSpec{
		MinHealthy:    ptr.To(intstr.FromInt32(2)),
		StormCooldown: &v1alpha1.Duration{Duration: 10 * time.Minute},
	}
	at := func(minutes int) *metav1.Time {
		return ptr.To(metav1.NewTime(noon.Add(time.Duration(minutes) * time.Minute)))
	}
	b := &v1alpha1.RemediationBudget{Spec: spec}
	for _, step := range []struct {
		minute       int
		nodes        string
		since, calm  *metav1.Time
		limit        int32
		nextInMinute int
	}{
		{0, "hhs", nil, nil, 1, 0},
		{1, "hss", at(1), nil, 0, 0},
		{2, "sss", at(1), nil, 0, 0},
		{3, "hhs", at(1), at(3), 0, 10},
		{9, "hhh", at(1), at(3), 0, 4},
		{10, "hss", at(1), nil, 0, 0},
		{11, "hhs", at(1), at(11), 0, 10},
		{20, "hhs", at(1), at(11), 0, 1},
		{21, "hhs", nil, nil, 1, 0},
	} {
		storm := b.Status.Groups["-"].Storm
		nodes := fleetOf(b, step.nodes)
		b.Status.Groups["-"] = v1alpha1.BudgetGroup{Storm: storm}
		now := noon.Add(time.Duration(step.minute) * time.Minute)
		var err error
		if b.Status, err = Groups(b, nodes, now.Add(300*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		g := b.Status.Groups["-"]
		var want *v1alpha1.Storm
		if step.since != nil {
			want = &v1alpha1.Storm{Since: *step.since, CalmSince: step.calm}
		}
		if !equality.Semantic.DeepEqual(g.Storm, want) || *g.DisruptionLimit != step.limit {
			t.Errorf("minute %d: storm %v, limit %d; want %v, %d", step.minute, g.Storm, *g.DisruptionLimit, want, step.limit)
		}
		if next := NextLook(b, now); next != time.Duration(step.nextInMinute)*time.Minute {
			t.Errorf("minute %d: next look in %s, want %d minutes", step.minute, next, step.nextInMinute)
		}
	}
	b.Status.Groups = map[string]v1alpha1.BudgetGroup{
		"a": {Storm: &v1alpha1.Storm{CalmSince: at(4)}}, "b": {Storm: &v1alpha1.Storm{CalmSince: at(3)}}, "c": {Storm: &v1alpha1.Storm{CalmSince: at(5)}},
	}
	if next := NextLook(b, at(5).Time); next != 8*time.Minute {
		t.Errorf("next look in %s, want that of the storm that is over first", next)
	}
	if b.Spec.StormCooldown = nil; StormCooldown(&b.Spec) != 15*time.Minute {
		t.Error("the default is 15 minutes")
	}
}

// The API server refuses a permit that comes to a group which may then give fewer than it has: also one that is to keep a
// place for a second one, which does not fit in.
func TestAPermitStaysWhereItIsIfTheGroupIsToKeepAPlaceForAnother(t *testing.T) {
	spec := v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromInt32(10)), MaxUnavailable: ptr.To(intstr.FromInt32(1))}
	permit := v1alpha1.Permit{Remediation: "r", Disruptive: true}
	b := &v1alpha1.RemediationBudget{Spec: spec, Status: v1alpha1.RemediationBudgetStatus{Groups: map[string]v1alpha1.BudgetGroup{
		"r1": {Permits: map[string]v1alpha1.Permit{"n1": permit}}, "r2": {Permits: map[string]v1alpha1.Permit{"n2": permit}},
	}}}
	nodes := []NodeState{{Name: "n1", Group: "-", Available: true}, {Name: "n2", Group: "-", Available: true}, {Name: "n3", Group: "-", Available: true}}
	status, err := Groups(b, nodes, noon)
	if err != nil {
		t.Fatal(err)
	}
	if g := status.Groups["-"]; len(g.Permits) > int(*g.DisruptionLimit) || *g.DisruptionLimit > 0 {
		t.Errorf("of %d it has %v", *g.DisruptionLimit, g.Permits)
	}
	delete(b.Status.Groups, "r2") // it is returned
	if status, err = Groups(b, nodes, noon); err != nil {
		t.Fatal(err)
	}
	if g := status.Groups["-"]; len(g.Permits) != 1 || *g.DisruptionLimit != 1 {
		t.Errorf("of %d it has %v", *g.DisruptionLimit, g.Permits)
	}
}
