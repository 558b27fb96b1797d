package remediation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/worker"
)

// heldByMedik8s is the Lease of medik8s for the node of an incident, from now.
func heldByMedik8s() *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: "node-n1"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("node-maintenance"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: &metav1.MicroTime{Time: now},
		},
	}
}

// rebooting lets a reboot be what is next.
func rebooting(s *situation) {
	s.remediation.Spec.Steps = []v1alpha1.Step{{Reboot: &v1alpha1.RebootRemedy{}, Timeout: seconds(600), VerifyTimeout: seconds(60), Attempts: 1}}
	s.policy.Spec.Steps = s.remediation.Spec.Steps
}

// refuse refuses the Lease of medik8s.
func refuse(err error) interceptor.Funcs {
	return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if _, is := obj.(*coordinationv1.Lease); is {
			return err
		}
		return c.Get(ctx, key, obj, opts...)
	}}
}

func TestOthersAreAskedBeforeADisruptiveStepAlone(t *testing.T) {
	broken := errors.New("the API server is away")
	for name, tt := range map[string]struct {
		option func(*situation)
		effect effect
		funcs  interceptor.Funcs
		lease  bool
		held   string
	}{
		"nobody has the node":                   {option: rebooting, effect: takeOut},
		"medik8s has it":                        {option: rebooting, effect: takeOut, lease: true, held: "node-maintenance of medik8s holds node n1"},
		"medik8s has it, and it is out already": {option: rebooting, effect: start, lease: true, held: "node-maintenance of medik8s holds node n1"},
		"medik8s has it, and it was announced":  {option: rebooting, effect: create, lease: true, held: "node-maintenance of medik8s holds node n1"},
		"a gentle step":                         {option: func(*situation) {}, effect: start, funcs: refuse(broken)},
		"nothing is started":                    {option: rebooting, effect: release, funcs: refuse(broken)},
		"it may not be asked":                   {option: rebooting, effect: takeOut, funcs: refuse(apierrors.NewForbidden(coordinationv1.Resource("leases"), "node-n1", errors.New("no rights"))), held: "is not known"},
		"nobody answers":                        {option: rebooting, effect: takeOut, funcs: refuse(broken), held: "is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			s := incident(tt.option)
			d := begin(s)
			d.effect = tt.effect
			b := fake.NewClientBuilder().WithObjects(s.node).WithInterceptorFuncs(tt.funcs)
			if tt.lease {
				b.WithObjects(heldByMedik8s())
			}
			v, asked, err := (&Reconciler{Live: b.Build()}).othersMeanwhile(t.Context(), s, d)
			if err != nil || !asked {
				t.Fatal(asked, err)
			}
			if v.Held() != (tt.held != "") || !strings.Contains(v.Message, tt.held) {
				t.Errorf("held %t: %s", v.Held(), v.Message)
			}
			if v.Held() && (v.Reason != gates.ReasonOtherHealer || v.Recheck == 0) {
				t.Errorf("%+v: nothing wakes it when the other is done", v)
			}
		})
	}
}

// The webhook that converts the kind of another program may be on a dead node.
func TestAnswersThatDoNotComeLeaveWorkersForOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
				<-ctx.Done()
				return ctx.Err()
			},
		}).Build()
		r := &Reconciler{Live: live}
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		if err := r.Loop().Doorbell.Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		ask := func(ctx context.Context, name string) (time.Duration, error) {
			s := incident(rebooting)
			s.remediation.Name = name
			d := begin(s)
			d.effect = takeOut
			return r.carryOut(ctx, s, d)
		}
		ctx, giveUp := context.WithCancel(t.Context())
		for i := range workers - 1 {
			name := fmt.Sprint("asks-", i)
			if i < asks {
				go func() {
					if _, err := ask(ctx, name); !errors.Is(err, context.Canceled) {
						t.Errorf("%s: %v", name, err)
					}
				}()
				synctest.Wait()
			} else if wait, err := ask(ctx, name); wait != worker.PlaceRecheck || err != nil {
				t.Errorf("%s looks again after %s, %v", name, wait, err)
			}
		}
		giveUp()
		synctest.Wait()
		if queue.Len() != workers-1-asks {
			t.Errorf("%d are woken", queue.Len())
		}
	})
}

func TestWhatAnotherHealerHasIsLeftAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		announced bool
		// actions that are there in the end.
		actions int
	}{
		"the node is not taken out":                       {},
		"an action that was announced is created as void": {announced: true, actions: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := incident(rebooting)
			if tt.announced {
				s.remediation.Status.Step, s.remediation.Status.Attempt = 1, 1
				s.remediation.Status.Action, s.remediation.Status.Actions = "n1-0123-1", 1
			}
			c := cacheOf(t, &s.budgets[0], s.node, s.policy, s.remediation, heldByMedik8s())
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(s.remediation), s.remediation); err != nil {
				t.Fatal(err)
			}
			metrics, err := NewMetrics(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			r := &Reconciler{
				Client: c, Live: c, Store: index.Read(c), Permits: budget.New(c, c), Nodes: noNodes,
				Clock: clocktesting.NewFakePassiveClock(now), Metrics: metrics, Events: events.NewFakeRecorder(10),
			}
			d := begin(s)
			d.effect = takeOut
			if tt.announced {
				d.effect = create
			} else {
				d.status.Maintenance = "n1-0123-out"
				d.maintenance = s.wanted(s.step(1))
			}
			if _, err := r.carryOut(t.Context(), s, d); err != nil {
				t.Fatal(err)
			}
			var actions v1alpha1.NodeActionList
			var maintenances v1alpha1.NodeMaintenanceList
			var written v1alpha1.Remediation
			var b v1alpha1.RemediationBudget
			if err := errors.Join(c.List(t.Context(), &actions), c.List(t.Context(), &maintenances),
				c.Get(t.Context(), client.ObjectKeyFromObject(s.remediation), &written), c.Get(t.Context(), client.ObjectKeyFromObject(&s.budgets[0]), &b)); err != nil {
				t.Fatal(err)
			}
			if len(maintenances.Items) != 0 || len(actions.Items) != tt.actions {
				t.Errorf("%d maintenances, %d actions", len(maintenances.Items), len(actions.Items))
			}
			for i := range actions.Items {
				if actions.Items[i].Spec.ExpiresAt.After(now) {
					t.Errorf("it can be claimed until %s", actions.Items[i].Spec.ExpiresAt)
				}
			}
			if !tt.announced && written.BlockedBy() != gates.ReasonOtherHealer {
				t.Errorf("blocked by %q", written.BlockedBy())
			}
			if permits := b.Status.Groups[v1alpha1.UngroupedNodes].Permits; len(permits) != 0 {
				t.Errorf("permits are taken: %v", permits)
			}
		})
	}
}

func TestAnActionThatWaitsForItsRunnerIsCancelledWhenAnotherHealerTakesTheNode(t *testing.T) {
	snr := func(s *situation) {
		s.node.Spec.Taints = []corev1.Taint{{Key: "remediation.medik8s.io/self-node-remediation", Effect: corev1.TaintEffectNoExecute}}
	}
	gentle := func(options ...func(*situation)) situation {
		return incident(append([]func(*situation){at(1, 1)}, options...)...)
	}
	reboot := func(options ...func(*situation)) situation {
		return disruptive(append([]func(*situation){at(2, 1), out("Drained")}, options...)...)
	}
	for name, tt := range map[string]struct {
		of     situation
		lease  bool
		answer error  // of the API server about the Lease
		want   string // "": it waits
	}{
		"nobody takes it":           {of: reboot(underway(20 * time.Second))},
		"by a taint":                {of: reboot(underway(time.Second), snr), want: "has node n1: it has the taint"},
		"by a taint, a gentle step": {of: gentle(underway(20*time.Second), snr)},
		"by a taint, it is claimed": {of: reboot(underway(20*time.Second, claimed(time.Second)), snr)},
		"by a Lease":                {of: reboot(underway(20 * time.Second)), lease: true, want: "node-maintenance of medik8s holds node n1"},
		"by a Lease, a gentle step": {of: gentle(underway(20 * time.Second)), lease: true},
		"by a Lease, it is claimed": {of: reboot(underway(20*time.Second, claimed(time.Second))), lease: true},
		"asked when it was created": {of: reboot(underway(time.Second)), lease: true},
		"nobody knows":              {of: reboot(underway(20 * time.Second)), lease: true, answer: apierrors.NewTooManyRequestsError("busy")},
		"no answer":                 {of: reboot(underway(20 * time.Second)), lease: true, answer: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			s := tt.of
			objects := []client.Object{&s.budgets[0], s.node, s.policy, s.remediation, acted(&s)}
			if tt.lease {
				objects = append(objects, heldByMedik8s())
			}
			c := cacheOf(t, objects...)
			for _, o := range objects {
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
					t.Fatal(err)
				}
			}
			live := c
			if tt.answer != nil {
				live = interceptor.NewClient(c, refuse(tt.answer))
			}
			metrics, err := NewMetrics(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			r := &Reconciler{
				Client: c, Live: live, Store: index.Read(c), Permits: budget.New(c, c), Nodes: noNodes,
				Clock: clocktesting.NewFakePassiveClock(now), Metrics: metrics, Events: events.NewFakeRecorder(10),
			}
			wait, err := r.carryOut(t.Context(), s, decide(s))
			if err != nil {
				t.Fatal(err)
			}
			var action v1alpha1.NodeAction
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(acted(&s)), &action); err != nil {
				t.Fatal(err)
			}
			switch end := action.Finished(); {
			case tt.want == "" && end != nil:
				t.Errorf("it is ended as %s: %s", end.Reason, end.Message)
			case tt.want != "" && (end == nil || end.Reason != v1alpha1.ReasonCancelled || !strings.Contains(end.Message, tt.want)):
				t.Errorf("its end is %+v, want %s", end, tt.want)
			case tt.want == "" && action.Status.Claim == nil && s.remediation.Status.Step == 2 && wait != othersAgain:
				t.Errorf("others are asked again after %s", wait)
			}
		})
	}
}
