package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// statusOf is the status of these objects at noon.
func statusOf(t *testing.T, of nodeSet, objects ...client.Object) *fleetStatus {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	s, err := atNoon().status(t.Context(), c, &of)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func atNoon() *tool { return &tool{clock: clocktesting.NewFakePassiveClock(noon)} }

func TestTheStatusNamesPoliciesThatCannotAct(t *testing.T) {
	policy := func(name string, ready metav1.ConditionStatus) *v1alpha1.RemedyPolicy {
		p := &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemedyPolicyReady, Status: ready, Reason: "NoNode", Message: "there is no node"}}
		return p
	}
	s := statusOf(t, nodeSet{}, policy("a", metav1.ConditionFalse), policy("b", metav1.ConditionTrue), &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "new"}})
	text := atNoon().statusText(s, false)
	if !strings.HasPrefix(text, "CANNOT ACT: policy a (NoNode): there is no node\n") || strings.Count(text, "CANNOT ACT") != 1 {
		t.Error(text)
	}
}

func TestTheStatusTellsOfNodesWhosePodsWereFreedAndOfTheTaintThatStays(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus, since time.Duration) *corev1.Node {
		mark := v1alpha1.OutOfServiceMark{BootID: "boot-1", Action: "action"}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.OutOfServiceAnnotation: mark.String()}}}
		n.Spec.Taints = []corev1.Taint{mark.Taint()}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: before(since)}}
		return n
	}
	others := node("others", corev1.ConditionTrue, time.Hour)
	others.Annotations = nil
	// One that was booted for a test is not back.
	parked := node("parked", corev1.ConditionTrue, time.Hour)
	parked.Annotations[v1alpha1.OutOfServiceAnnotation] = "boot-1 maintenance/swap moved"
	swap := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "swap"}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: "parked"}}
	swap.Status.Power = &v1alpha1.MaintenancePowerStatus{Phase: v1alpha1.PowerOn, Proof: &v1alpha1.PowerProof{BootID: "boot-1"}}
	s := statusOf(t, nodeSet{}, parked, swap, node("dead", corev1.ConditionUnknown, time.Hour), node("booted", corev1.ConditionTrue, time.Minute), node("stays", corev1.ConditionTrue, 3*time.Minute), others)
	text := atNoon().statusText(s, true)
	for _, want := range []string{"stays  it is back, and the taint out-of-service stays\n", "kubectl nodemend why stays", "booted, dead, others, parked, stays"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if len(s.NeedsYou) != 1 {
		t.Errorf("of these one needs somebody:\n%s", text)
	}
}

// controllers are a Deployment with two ready controllers, and the Lease of the one that
// has led until so long ago.
func controllers(ago time.Duration) []client.Object {
	meta := metav1.ObjectMeta{Name: "nodemend-controller", Namespace: "heal", Labels: map[string]string{nameLabel: "nodemend", componentLabel: "controller"}}
	return []client.Object{
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)}, Status: appsv1.DeploymentStatus{ReadyReplicas: 2}},
		&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: leaderLease, Namespace: "heal"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("nodemend-controller-5d8-x2k"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: noon.Add(-ago)},
			},
		},
	}
}

func TestAControllerThatDoesNotRenewItsLeaseIsToldFirst(t *testing.T) {
	const alarm = "THE CONTROLLER DOES NOT WORK\n"
	for name, tt := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"it works":                    {controllers(14 * time.Second), ""},
		"it has stopped":              {controllers(25 * time.Second), "nodemend-controller-5d8-x2k has not renewed its Lease for 25s.\n"},
		"it has gone in good order":   {released(controllers(3 * time.Second)), "none leads, and the last one has not renewed its Lease for 3s.\n"},
		"it has never led":            {controllers(0)[:1], "no controller has ever led.\n"},
		"it runs without an election": {withoutElection(controllers(0)[:1]), ""},
		"nobody knows where it runs":  {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := atNoon().statusText(statusOf(t, nodeSet{}, tt.objects...), false)
			if tt.want == "" && strings.Contains(text, alarm) || tt.want != "" && !strings.HasPrefix(text, alarm+tt.want) {
				t.Errorf("want %q first:\n%s", tt.want, text)
			}
			if tt.want != "" && !strings.Contains(text, "\n  kubectl -n heal get pods -l app.kubernetes.io/component=controller\n") {
				t.Errorf("it does not say where to look:\n%s", text)
			}
		})
	}
}

func TestALeaseIsAsOldAsTheAPIServerSaysAndNotItsHolder(t *testing.T) {
	lease := controllers(-time.Hour)[1].(*coordinationv1.Lease) // a clock an hour ahead
	lease.ManagedFields = []metav1.ManagedFieldsEntry{{Time: ptr.To(before(time.Hour))}, {Time: ptr.To(before(25 * time.Second))}, {}}
	if got := v1alpha1.LeaseRenewed(lease); !got.Equal(noon.Add(-25 * time.Second)) {
		t.Errorf("renewed at %v", got)
	}
}

func released(objects []client.Object) []client.Object {
	objects[1].(*coordinationv1.Lease).Spec.HolderIdentity = ptr.To("")
	return objects
}

func withoutElection(objects []client.Object) []client.Object {
	objects[0].(*appsv1.Deployment).Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"controller", "--leader-election=false"}}}
	return objects
}

// busyFleet is one in which much is going on.
func busyFleet() []client.Object {
	var objects []client.Object
	node := func(name string) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "a"}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		objects = append(objects, n)
	}
	open := func(name, policy, state, blockedBy, message string, since time.Duration) {
		node(name)
		r := stands(1, state, blockedBy)
		r.Name, r.Spec.NodeName, r.Spec.Policy.Name = name+"-5c0c9a4dd2e2d8a1", name, policy
		r.Spec.Steps[0] = v1alpha1.Step{RestartUnit: &v1alpha1.RestartUnitRemedy{Name: "containerd.service"}}
		for i := range r.Status.Conditions {
			r.Status.Conditions[i].LastTransitionTime, r.Status.Conditions[i].Message = before(since), message
		}
		if blockedBy == "ApprovalRequired" {
			r.Status.Step = 2
		}
		objects = append(objects, r)
	}
	out := func(name, reason string, ago time.Duration, d v1alpha1.DrainStatus, then v1alpha1.OnTimeout) {
		node(name)
		m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: name + "-x"}}
		m.Spec = v1alpha1.NodeMaintenanceSpec{NodeName: name, Reason: "DIMM", Drain: &v1alpha1.Drain{Timeout: v1alpha1.Duration{Duration: time.Hour}, OnTimeout: then}}
		if reason != "" {
			d.StartedAt = before(ago)
			m.Status.Drain, m.Status.Conditions = &d, []metav1.Condition{{Type: v1alpha1.MaintenanceDrained, Status: metav1.ConditionFalse, Reason: reason}}
		}
		objects = append(objects, m)
	}
	open("worker-01", "hardware", v1alpha1.ReasonExhausted, "", "every step was executed and the fault is still there", 5*time.Minute)
	open("worker-02", "container-runtime", v1alpha1.ReasonWaiting, "ApprovalRequired", "step 2 (reboot) waits for approval", time.Hour)
	open("worker-03", "container-runtime", v1alpha1.ReasonInMaintenance, "ReleaseRequired", "the node is clear", time.Minute)
	open("worker-04", "container-runtime", v1alpha1.ReasonWaiting, "NoBudget", "no RemediationBudget selects node worker-04: create one to allow actions on it", time.Minute)
	open("worker-05", "container-runtime", v1alpha1.ReasonWaiting, "BudgetExhausted", "budget workers: 2 of 2 permits are taken, 3 remediations are before this one", 2*time.Minute)
	open("worker-06", "container-runtime", v1alpha1.ReasonWaiting, "DryRun", "DryRun: would restart containerd.service now", 2*time.Minute)
	open("worker-07", "container-runtime", v1alpha1.ReasonActing, "", "action worker-07-5c0c9a4dd2e2d8a1-1 runs", 20*time.Second)
	out("worker-08", v1alpha1.ReasonDrainTimedOut, 66*time.Minute, v1alpha1.DrainStatus{Percent: 75, Left: 1, Total: 4, Pods: []v1alpha1.RemainingPod{
		{Namespace: "shop", Name: "web-0", Reason: v1alpha1.PodTerminating}, {Namespace: "shop", Name: "db-0", Reason: v1alpha1.PodDisruptionBudget}}}, v1alpha1.OnTimeoutWait)
	out("worker-09", v1alpha1.ReasonDraining, 6*time.Minute, v1alpha1.DrainStatus{Percent: 50, Left: 2, Total: 4}, v1alpha1.OnTimeoutProceed)
	out("worker-10", "", 0, v1alpha1.DrainStatus{}, v1alpha1.OnTimeoutAbort)
	node("worker-11")
	return objects
}

func TestTheStatusTellsWhatNeedsAPersonFromWhatWaits(t *testing.T) {
	s := statusOf(t, nodeSet{}, append(busyFleet(), controllers(25*time.Second)...)...)
	text := atNoon().statusText(s, false)
	for line := range strings.Lines(text) {
		if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 80 {
			t.Errorf("%d columns: %s", width, line)
		}
	}
	golden(t, "status-night", text)
	golden(t, "status-night-wide", atNoon().statusText(s, true))
}

func TestTheStatusOfSelectedNodesIsOfThemAlone(t *testing.T) {
	objects := busyFleet()
	for _, obj := range objects {
		if obj.GetName() == "worker-02" || obj.GetName() == "worker-08" {
			obj.SetLabels(map[string]string{"pool": "b"})
		}
	}
	s := statusOf(t, nodeSet{labels: "pool=b"}, objects...)
	if len(s.NeedsYou) != 2 || len(s.Remediations) != 1 || len(s.Drains) != 1 || s.Remediations[0].Node != "worker-02" || s.Drains[0].Node != "worker-08" {
		t.Errorf("%+v", s)
	}
}

// What a policy in mode DryRun would not do anyway is nobody's to approve.
func TestAPolicyInDryRunThatHasDoneNothingNeedsNobody(t *testing.T) {
	policy := &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "container-runtime", UID: "trial"}, Spec: v1alpha1.RemedyPolicySpec{Mode: v1alpha1.ModeDryRun}}
	objects := append(busyFleet(), policy)
	for _, obj := range objects {
		if r, ok := obj.(*v1alpha1.Remediation); ok && r.Spec.NodeName == "worker-02" {
			r.Spec.Policy.UID = policy.UID
		}
	}
	s := statusOf(t, nodeSet{}, objects...)
	if slices.ContainsFunc(s.NeedsYou, func(n need) bool { return n.Node == "worker-02" }) {
		t.Errorf("it needs %+v", s.NeedsYou)
	}
	if text := atNoon().statusText(s, true); !strings.Contains(text, "cordon and reboot the node (), held by ApprovalRequired") {
		t.Error(text)
	}
}

// stopping stops what is shown again and again after some texts.
type stopping struct {
	bytes.Buffer
	texts int
	stop  func()
}

func (s *stopping) Write(text []byte) (int, error) {
	s.texts--
	if s.texts == 0 {
		s.stop()
	}
	return s.Buffer.Write(text)
}

func TestWhatIsWatchedIsShownAgainWhateverGoesWrongMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		out := &stopping{texts: 2, stop: cancel}
		zone := time.FixedZone("", int((2 * time.Hour).Seconds())) // not that of who looks, wherever that is
		tool := &tool{clock: clocktesting.NewFakePassiveClock(noon.In(zone)), streams: genericiooptions.IOStreams{Out: out}}
		now := noon.Local().Format(time.TimeOnly)
		shown := 0
		err := tool.again(ctx, func(context.Context) (string, error) {
			shown++
			if shown > 1 {
				return "", errors.New("no answer")
			}
			return "all is well\n", nil
		})
		if want := "--- " + now + "\nall is well\n--- " + now + "\nerror: no answer\n"; err != nil || out.String() != want {
			t.Errorf("got %q and %v, want %q", out.String(), err, want)
		}
		if err := tool.again(t.Context(), func(context.Context) (string, error) { return "", errors.New("no answer") }); err == nil {
			t.Error("what fails at once is repeated")
		}
	})
}

func TestTheStatusOfALargeClusterShowsTheFirst(t *testing.T) {
	var s fleetStatus
	for i := range 100 {
		node := fmt.Sprint("worker-", i)
		s.NeedsYou = append(s.NeedsYou, need{Node: node, What: "p: Exhausted"})
		s.Remediations = append(s.Remediations, openOne{Node: node, Policy: "p", Part: partWaits})
	}
	text := atNoon().statusText(&s, false)
	if got := strings.Count(text, "worker-"); got != 50 || strings.Count(text, "and 75 more: kubectl nodemend status -o wide\n") != 2 {
		t.Errorf("%d nodes in\n%s", got, text)
	}
	if got := strings.Count(atNoon().statusText(&s, true), "worker-"); got != 200 {
		t.Errorf("-o wide shows %d", got)
	}
}

func TestAPauseOfSomeNodesIsNotThatOfTheCluster(t *testing.T) {
	b := pauseOfSome()
	b.Spec.Paused = true
	if s := statusOf(t, nodeSet{}, b); len(s.Paused) != 1 || s.Paused[0] != "budget nodemend-pause" {
		t.Errorf("got %q", s.Paused)
	}
}
