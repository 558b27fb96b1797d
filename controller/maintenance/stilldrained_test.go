package maintenance

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// arriving is a Drainer that sees one pod come, or none.
type arriving struct {
	Drainer
	pod *corev1.Pod
	err error
}

func (a arriving) Arrived(context.Context, string, *v1alpha1.Drain, *v1alpha1.DrainStatus) (*corev1.Pod, error) {
	return a.pod, a.err
}

func TestADrainBeginsAnewOnceAPodHasCome(t *testing.T) {
	come := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	refused := errors.New("pods is forbidden")
	drained := toDrain(v1alpha1.OnTimeoutWait)
	look(drained, "u", 0, empty())
	begun := toDrain(v1alpha1.OnTimeoutWait)
	look(begun, "u", 0, left(1))
	only := toDrain(v1alpha1.OnTimeoutWait)
	only.Spec.Drain = nil
	look(only, "u", 0, empty())
	for name, tt := range map[string]struct {
		m       *v1alpha1.NodeMaintenance
		drainer arriving
		want    bool
		err     error
		reason  string
	}{
		"nothing has come":           {drained, arriving{}, true, nil, v1alpha1.ReasonDrained},
		"a pod has come":             {drained, arriving{pod: come}, false, nil, v1alpha1.ReasonDraining},
		"the pods cannot be listed":  {drained, arriving{err: refused}, false, refused, v1alpha1.ReasonDrained},
		"it was not drained before":  {begun, arriving{pod: come}, false, nil, v1alpha1.ReasonDraining},
		"it was only to be cordoned": {only, arriving{pod: come}, true, nil, v1alpha1.ReasonDrainNotWanted},
	} {
		t.Run(name, func(t *testing.T) {
			s := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(s); err != nil {
				t.Fatal(err)
			}
			c := fake.NewClientBuilder().WithScheme(s).WithObjects(tt.m.DeepCopy()).WithStatusSubresource(tt.m).Build()
			var m, after v1alpha1.NodeMaintenance
			read := func(into *v1alpha1.NodeMaintenance) {
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(tt.m), into); err != nil {
					t.Fatal(err)
				}
			}
			read(&m)
			r := &Reconciler{Client: c, Drainer: tt.drainer, Clock: clocktesting.NewFakePassiveClock(start), Events: events.NewFakeRecorder(10)}
			if still, err := r.StillDrained(t.Context(), &m); still != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %t, %v", still, err)
			}
			read(&after)
			d := after.Condition(v1alpha1.MaintenanceDrained)
			if d.Reason != tt.reason || name == "a pod has come" && (after.Status.Drain != nil || !strings.Contains(d.Message, "pod shop/web has come")) {
				t.Errorf("got %+v, drain %+v", d, after.Status.Drain)
			}
			if tt.drainer.pod == nil || tt.m != drained {
				return
			}
			if _, err := r.StillDrained(t.Context(), &m); !apierrors.IsConflict(err) {
				t.Errorf("an old view: got %v, want a conflict", err)
			}
		})
	}
}
