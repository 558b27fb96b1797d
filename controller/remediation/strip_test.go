package remediation

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/internal/deadline"
)

// endedOne is a remediation as an API server has it that ended after an attempt with this
// outcome.
func endedOne(number int, outcome string) *v1alpha1.Remediation {
	s := incident(at(2, 1), history(outcome, time.Minute))
	r := s.remediation
	r.Name, r.UID = fmt.Sprintf("%s-%016x", r.Name, number), types.UID(fmt.Sprintf("%08x-4b6f-4d4e-8f6d-0123456789ab", number))
	r.ResourceVersion, r.Finalizers = fmt.Sprint(100_000+number), []string{v1alpha1.RemediationFinalizer}
	r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "nodemend"}}
	r.Spec.Trigger.Message = strings.Repeat("m", 80)
	end := metav1.NewTime(s.now)
	r.Status.EndTime = &end
	for i := range r.Status.History {
		record := &r.Status.History[i]
		record.Action, record.StartedAt = actionName(r, int32(i)), &end
		record.Message, record.Output, record.Remedy = strings.Repeat("m", 100), strings.Repeat("o", 500), v1alpha1.RemedyCommand
	}
	r.Status.Conditions = nil
	for _, kind := range []string{v1alpha1.RemediationProgressing, v1alpha1.RemediationBlocked, v1alpha1.RemediationRecovered} {
		r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRecovered, Message: strings.Repeat("c", 60)})
	}
	r.Status.Summarize()
	return r
}

func strip(t testing.TB, r *v1alpha1.Remediation) *v1alpha1.Remediation {
	t.Helper()
	stripped, err := Strip(r)
	if err != nil {
		t.Fatal(err)
	}
	return stripped.(*v1alpha1.Remediation)
}

func TestOfEndedRemediationsWhatDecisionsNeedIsKept(t *testing.T) {
	later := metav1.NewTime(ago(0).Add(time.Hour))
	for _, c := range []struct{ outcome, state string }{
		{v1alpha1.ReasonSucceeded, v1alpha1.ReasonRecovered},
		{v1alpha1.ReasonExpired, v1alpha1.ReasonDeleted},
		{v1alpha1.ReasonLost, v1alpha1.ReasonReleased},
	} {
		t.Run(c.outcome, func(t *testing.T) {
			g := NewWithT(t)
			whole := endedOne(1, c.outcome)
			whole.Status.Conditions[0].Reason = c.state
			r := strip(t, whole.DeepCopy())
			g.Expect(r.ManagedFields).To(BeNil())
			g.Expect(r.State()).To(Equal(whole.State()))
			for _, at := range []metav1.Time{whole.Spec.Trigger.LastTransitionTime, ago(2 * time.Minute), later} {
				trigger := v1alpha1.Trigger{Type: whole.Spec.Trigger.Type, Status: whole.Spec.Trigger.Status, LastTransitionTime: at}
				g.Expect(r.Covers(&trigger, v1alpha1.Duration{})).To(Equal(whole.Covers(&trigger, v1alpha1.Duration{})), at.String())
			}
			g.Expect(r.Status.EndTime).To(Equal(whole.Status.EndTime))
			for i := range r.Status.History {
				kept, was := &r.Status.History[i], &whole.Status.History[i]
				g.Expect(kept.Output + kept.Message).To(BeEmpty())
				g.Expect(kept.Acted()).To(Equal(was.Acted()))
				g.Expect(kept.FinishedAt).To(Equal(was.FinishedAt))
				g.Expect(kept.Action).To(Or(Equal(was.Action), BeEmpty()))
				g.Expect(kept.Action == "").To(Equal(was.Executed || !was.Acted()), "by its name it is found how an action has ended that nobody has told of")
				if was.Acted() {
					g.Expect(deadline.Ended(r, kept)).To(Equal(deadline.Ended(whole, was)))
				}
			}
			g.Expect(strip(t, r)).To(BeIdenticalTo(r), "the second time")
		})
	}
}

func TestRemediationsThatMayBeWrittenStayWhole(t *testing.T) {
	g := NewWithT(t)
	for _, change := range []func(*v1alpha1.Remediation){
		func(r *v1alpha1.Remediation) { r.Status.EndTime = nil },
		func(r *v1alpha1.Remediation) { at := ago(0); r.DeletionTimestamp = &at },
	} {
		whole := endedOne(1, v1alpha1.ReasonSucceeded)
		change(whole)
		r := strip(t, whole.DeepCopy())
		whole.ManagedFields = nil
		g.Expect(r).To(Equal(whole))
	}
}

// BenchmarkEnded shows what an ended remediation takes of memory, whole and as it is kept.
func BenchmarkEnded(b *testing.B) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for name, keep := range map[string]func(*v1alpha1.Remediation) *v1alpha1.Remediation{
		"whole":    func(r *v1alpha1.Remediation) *v1alpha1.Remediation { r.ManagedFields = nil; return r },
		"stripped": func(r *v1alpha1.Remediation) *v1alpha1.Remediation { return strip(b, r) },
	} {
		b.Run(name, func(b *testing.B) {
			before := heap()
			kept := make([]*v1alpha1.Remediation, 0, b.N)
			for i := 0; b.Loop(); i++ {
				data, err := json.Marshal(endedOne(i, v1alpha1.ReasonSucceeded))
				if err != nil {
					b.Fatal(err)
				}
				r := &v1alpha1.Remediation{} // with its own copy of every text, as from an API server
				if err := json.Unmarshal(data, r); err != nil {
					b.Fatal(err)
				}
				kept = append(kept, keep(r))
			}
			b.ReportMetric(float64(heap()-before)/float64(len(kept)), "B/remediation")
			runtime.KeepAlive(kept)
		})
	}
}

// The cache has its records without the names of their actions, the API server with them.
func TestWhatAnEndedRemediationHasDoneIsToldAndForgottenOnce(t *testing.T) {
	for _, state := range []string{v1alpha1.ReasonReleased, v1alpha1.ReasonDeleted} {
		t.Run(state, func(t *testing.T) {
			s := incident(condition("False", time.Second, time.Hour))
			r := endedOne(1, v1alpha1.ReasonSucceeded)
			r.ResourceVersion, r.ManagedFields = "", nil
			r.Spec.Match[0].Debounce, r.Spec.Trigger = seconds(120), v1alpha1.Trigger{Type: "Sick", Status: "True"}
			r.Status.Conditions[0].Reason = state
			r.Status.Conditions[1].Status = metav1.ConditionFalse
			r.Status.Summarize()
			c := interceptor.NewClient(cacheOf(t, s.node, r), interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.DeleteOption) error {
					return fmt.Errorf("%T %q is deleted", obj, obj.GetName())
				},
			})
			metrics, err := NewMetrics(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			told := events.NewFakeRecorder(10)
			clock := clocktesting.NewFakePassiveClock(now)
			reconciler := &Reconciler{Client: c, Live: c, Clock: clock, Seen: &evidence.Tracker{}, Metrics: metrics, Events: told}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
				t.Fatal(err)
			}
			whole := r.DeepCopy()
			r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "nodemend"}}
			stripped := strip(t, r)
			if stripped.Status.History[0].Action != "" {
				t.Fatal("this is not stripped")
			}
			for _, after := range []time.Duration{time.Second, time.Minute, 2*time.Minute + time.Second} {
				clock.SetTime(now.Add(after))
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(s.node), s.node); err != nil {
					t.Fatal(err)
				}
				s.node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(clock.Now())
				if err := c.Status().Update(t.Context(), s.node); err != nil {
					t.Fatal(err)
				}
				if _, err := reconciler.awaitHealthy(t.Context(), stripped); err != nil {
					t.Error(err)
				}
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(r.Status.SeenHealthy, "Sick") || !equality.Semantic.DeepEqual(r.Status.History, whole.Status.History) {
				t.Errorf("seen healthy: %v, history %+v", r.Status.SeenHealthy, r.Status.History)
			}
			if len(told.Events) != 0 || testutil.CollectAndCount(metrics.actions) != 0 {
				t.Errorf("%d events, %d counters of actions", len(told.Events), testutil.CollectAndCount(metrics.actions))
			}
		})
	}
}
