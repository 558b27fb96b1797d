package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// lead is a Lease whose holder's clock is off by an hour, last written at this time by that of
// the API server.
func lead(written time.Time, duration time.Duration) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leaderLease, Namespace: usualNamespace, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "c", Time: ptr.To(metav1.NewTime(written))}}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("c"), LeaseDurationSeconds: ptr.To(int32(duration.Seconds())),
			RenewTime: &metav1.MicroTime{Time: written.Add(-time.Hour)},
		},
	}
}

func TestWhoLeadsIsToldByTheClockOfTheAPIServer(t *testing.T) {
	for ago, want := range map[time.Duration]bool{5 * time.Second: true, time.Minute: false} {
		if got := atNoon().leads(lead(noon.Add(-ago), 15*time.Second)); got != want {
			t.Errorf("renewed %s ago: leads is %t", ago, got)
		}
	}
}

func TestAnUninstallDoesNotWaitForAControllerForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: "stuck", Finalizers: []string{v1alpha1.RemediationFinalizer}}}
		var r requests
		leader := lead(time.Now(), 24*time.Hour)
		leader.ManagedFields = nil
		c := r.cluster(t, stuck, leader)
		tool := &tool{clock: clock.RealClock{}, streams: genericiooptions.IOStreams{Out: &bytes.Buffer{}}}
		err := (&uninstall{tool: tool, c: c}).empty(t.Context(), time.Minute, &v1alpha1.RemediationList{})
		if err == nil || !strings.Contains(err.Error(), "stuck") || !strings.Contains(err.Error(), "--timeout") {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnUninstallTellsOfNodesThatStayOutOfService(t *testing.T) {
	out, mine := sick("out", "z"), sick("mine", "z")
	mark := v1alpha1.OutOfServiceMark{BootID: "boot-1", Action: "action"}
	out.Annotations, out.Spec.Taints = map[string]string{v1alpha1.OutOfServiceAnnotation: mark.String()}, []corev1.Taint{mark.Taint()}
	var r requests
	var said bytes.Buffer
	tool := &tool{clock: clock.RealClock{}, streams: genericiooptions.IOStreams{Out: &said}}
	if err := (&uninstall{tool: tool, c: r.cluster(t, out, mine)}).tellOutOfService(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "kubectl taint nodes out node.kubernetes.io/out-of-service- && kubectl annotate node out nodemend.dev/out-of-service-"; !strings.Contains(said.String(), want) || strings.Contains(said.String(), "mine") {
		t.Errorf("said was %q", said.String())
	}
}

func TestAnUninstallGivesBackWhatKarpenterWasForbidden(t *testing.T) {
	held, cordoned, mine := sick("held", "z"), sick("cordoned", "z"), sick("mine", "z")
	held.Annotations = map[string]string{v1alpha1.RepairHeldAnnotation: "m", "karpenter.sh/do-not-repair": "true"}
	cordoned.Annotations = map[string]string{v1alpha1.CordonedAnnotation: "m"}
	mine.Annotations = map[string]string{"karpenter.sh/do-not-repair": "true"}
	var r requests
	u := &uninstall{tool: &tool{}, c: r.cluster(t, held, cordoned, mine)}
	nodes, err := u.marked(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range nodes {
		names = append(names, nodes[i].Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"cordoned", "held"}) {
		t.Errorf("got %v", names)
	}
}

func TestWhoMayNotDeleteActionsIsToldOfWhatTheyHaveLeft(t *testing.T) {
	off := &v1alpha1.NodeAction{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{v1alpha1.PowerFinalizer, "example.com/theirs"}},
		Spec:       v1alpha1.NodeActionSpec{NodeName: "n", Executor: v1alpha1.ExecutorRemote},
	}
	off.Status.Claim = &v1alpha1.Claim{Time: metav1.NewTime(noon)}
	off.Status.Power = &v1alpha1.PowerCycleStatus{Phase: "Cutting", Host: &v1alpha1.BareMetalHostReference{Namespace: "hosts", Name: "b"}}
	var r requests
	var said bytes.Buffer
	c := interceptor.NewClient(r.cluster(t, off), interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "nodemend.dev", Resource: "nodeactions"}, "a", errors.New("only the controller may"))
	}})
	tool := atNoon()
	tool.streams.Out = &said
	if err := (&uninstall{tool: tool, c: c}).deleteActions(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"look at node n: its power may be off", "look at BareMetalHost hosts/b"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("not told: %s\n%s", want, said.String())
		}
	}
	var left v1alpha1.NodeAction
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(off), &left); err != nil || !slices.Equal(left.Finalizers, []string{"example.com/theirs"}) {
		t.Errorf("its finalizers are %v, %v", left.Finalizers, err)
	}
}

func TestAnUninstallTellsOfWhatNobodyBringsToItsEnd(t *testing.T) {
	action := func(change func(*v1alpha1.NodeActionStatus)) *v1alpha1.NodeAction {
		a := &v1alpha1.NodeAction{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.NodeActionSpec{NodeName: "n", Executor: v1alpha1.ExecutorRemote}}
		a.Status.Claim = &v1alpha1.Claim{Time: metav1.NewTime(noon)}
		change(&a.Status)
		return a
	}
	replaced := func(o v1alpha1.ExternalObject) func(*v1alpha1.NodeActionStatus) {
		return func(s *v1alpha1.NodeActionStatus) {
			s.Replace = &v1alpha1.ReplaceStatus{Machine: o, Method: v1alpha1.ReplaceRemediate, SentAt: ptr.To(metav1.NewTime(noon))}
		}
	}
	for name, tt := range map[string]struct {
		of   *v1alpha1.NodeAction
		want []string
	}{
		"nothing": {action(func(*v1alpha1.NodeActionStatus) {}), nil},
		"a power cycle": {action(func(s *v1alpha1.NodeActionStatus) { s.Power = &v1alpha1.PowerCycleStatus{Phase: "Cutting"} }),
			[]string{"node n: its power may be off by action a"}},
		"that of a BareMetalHost": {action(func(s *v1alpha1.NodeActionStatus) {
			s.Power = &v1alpha1.PowerCycleStatus{Phase: "Cutting", Host: &v1alpha1.BareMetalHostReference{Kubeconfig: "/k", Namespace: "hosts", Name: "b"}}
		}), []string{"node n", "BareMetalHost hosts/b, in the cluster of /k: it may keep that machine off: kubectl -n hosts annotate baremetalhost b reboot.metal3.io/nodemend-"}},
		"a Machine": {action(replaced(v1alpha1.ExternalObject{Kind: "Machine", Namespace: "fleet", Name: "m"})),
			[]string{"Machine fleet/m: it is marked to be replaced by action a. If it is not to be: kubectl -n fleet annotate machines.cluster.x-k8s.io m cluster.x-k8s.io/remediate-machine-"}},
		"a server": {action(replaced(v1alpha1.ExternalObject{Kind: "Server", Name: "m", UID: "id"})), []string{"openstack server unset --property nodemend-replace id"}},
		"another program": {action(func(s *v1alpha1.NodeActionStatus) {
			s.External = &v1alpha1.ExternalStatus{Object: v1alpha1.ExternalObject{Kind: "SelfNodeRemediation", Namespace: "snr", Name: "n"}}
		}), []string{"SelfNodeRemediation snr/n"}},
		"what has ended": {action(func(s *v1alpha1.NodeActionStatus) {
			replaced(v1alpha1.ExternalObject{Kind: "Machine", Namespace: "fleet", Name: "m"})(s)
			s.Conditions = []metav1.Condition{{Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonTimedOut}}
		}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := remains(tt.of, noon)
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i := range got {
				if !strings.Contains(got[i], tt.want[i]) {
					t.Errorf("got %q, want %q", got[i], tt.want[i])
				}
			}
		})
	}
}
