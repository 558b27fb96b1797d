package exporter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
)

// written is the entry of managedFields of somebody who has written conditions.
func written(manager string, conditions ...corev1.NodeConditionType) metav1.ManagedFieldsEntry {
	var fields []string
	for _, c := range conditions {
		fields = append(fields, fmt.Sprintf(`"k:{\"type\":\"%s\"}":{".":{},"f:status":{}}`, c))
	}
	raw := fmt.Sprintf(`{"f:status":{"f:conditions":{%s}}}`, strings.Join(fields, ","))
	return metav1.ManagedFieldsEntry{Manager: manager, Subresource: "status", FieldsV1: metav1.NewFieldsV1(raw)}
}

func TestAConditionThatIsNamedNoMoreIsLeftBehind(t *testing.T) {
	named := []corev1.NodeConditionType{runtime}
	for name, tc := range map[string]struct {
		named     []corev1.NodeConditionType
		writers   []metav1.ManagedFieldsEntry
		heartbeat time.Duration // of the condition, after the start
		after     time.Duration // the start
		want      bool
		again     time.Duration // when the Node is to be read for it, after the start
	}{
		"ours":                                 {named, []metav1.ManagedFieldsEntry{written(fieldManager, hardware)}, -time.Hour, 15 * time.Minute, true, 0},
		"nothing else is named":                {[]corev1.NodeConditionType{}, []metav1.ManagedFieldsEntry{written(fieldManager, hardware)}, -time.Hour, 15 * time.Minute, true, 0},
		"soon after the start":                 {named, []metav1.ManagedFieldsEntry{written(fieldManager, hardware)}, -time.Hour, time.Minute, false, 15 * time.Minute},
		"another detector confirms it":         {named, []metav1.ManagedFieldsEntry{written(fieldManager, hardware)}, 25 * time.Minute, 30 * time.Minute, false, 40 * time.Minute},
		"it is named":                          {append(named, hardware), []metav1.ManagedFieldsEntry{written(fieldManager, hardware)}, -time.Hour, time.Hour, false, 0},
		"what is named is not known":           {nil, []metav1.ManagedFieldsEntry{written(fieldManager, hardware)}, -time.Hour, time.Hour, false, 0},
		"somebody else's":                      {named, []metav1.ManagedFieldsEntry{written("kubelet", hardware), written(fieldManager, runtime)}, -time.Hour, time.Hour, false, 0},
		"somebody else has written part of it": {named, []metav1.ManagedFieldsEntry{written(fieldManager, hardware), written("kubectl", hardware)}, -time.Hour, time.Hour, false, 0},
		"another detector's of this Node":      {named, []metav1.ManagedFieldsEntry{written("nodemend-remote-detector", hardware)}, -time.Hour, time.Hour, false, 0},
		"nobody knows whose":                   {named, nil, -time.Hour, time.Hour, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, Options{Named: tc.named})
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.writers},
				Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{a(runtime, no, epoch, epoch), a(hardware, yes, epoch.Add(tc.heartbeat), lastWeek)}},
			}
			left := w.findLeft(node, epoch.Add(tc.after))
			if got := len(left) == 1 && left[0].Type == hardware; got != tc.want || len(left) > 1 {
				t.Errorf("left behind are %v, want any: %t", left, tc.want)
			}
			var again time.Time
			if tc.again != 0 {
				again = epoch.Add(tc.again)
			}
			if !w.leftAt.Equal(again) {
				t.Errorf("read again at %s, want %s", w.leftAt, again)
			}
		})
	}
}

// oldNode is a Node with a condition of a former configuration.
type oldNode struct {
	*fakeNode
	refuse  error
	removed []string
}

func (n *oldNode) Get(ctx context.Context) (*corev1.Node, error) {
	node, err := n.fakeNode.Get(ctx)
	if err == nil {
		node.ResourceVersion = "7"
		node.ManagedFields = []metav1.ManagedFieldsEntry{written(fieldManager, hardware)}
	}
	return node, err
}

func (n *oldNode) PatchStatus(ctx context.Context, data []byte) error {
	if !strings.Contains(string(data), "$patch") {
		return n.fakeNode.PatchStatus(ctx, data)
	}
	n.set(func(f *fakeNode) {
		n.removed = append(n.removed, string(data))
		if n.refuse == nil {
			f.conditions = nil
		}
	})
	return n.refuse
}

func (n *oldNode) removals() (removed []string) {
	n.set(func(*fakeNode) { removed = slices.Clone(n.removed) })
	return removed
}

func TestALeftConditionIsRemovedAndARefusalHindersNothing(t *testing.T) {
	for name, refuse := range map[string]error{
		"removed": nil,
		"refused": apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "node-1", nil),
	} {
		for _, reports := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, others are reported: %t", name, reports), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					node := &oldNode{fakeNode: &fakeNode{}, refuse: refuse}
					node.conditions = []corev1.NodeCondition{a(hardware, yes, lastWeek, lastWeek)}
					node.conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(-time.Hour))
					e, err := NewFor(node, Options{
						NodeName: "node-1", Heartbeat: 5 * time.Minute, ProblemHeartbeat: 30 * time.Second, Named: []corev1.NodeConditionType{runtime},
						Clock: clock.RealClock{}, Rand: func() float64 { return 0.5 }, Registerer: prometheus.NewRegistry(),
					})
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
					ended := make(chan error, 1)
					go func() { ended <- e.Run(ctx) }()
					defer func() {
						cancel()
						if err := <-ended; err != nil {
							t.Error(err)
						}
					}()
					for minute := range 30 {
						if removed := node.removals(); minute == 14 && removed != nil {
							t.Errorf("after 14 minutes, written %v", removed)
						}
						if reports {
							report(e, checks.False)
						}
						time.Sleep(time.Minute)
						synctest.Wait()
					}
					want := []string{`{"metadata":{"uid":"uid-1","resourceVersion":"7"},"status":{"conditions":[{"$patch":"delete","type":"HardwareFailure"}]}}`}
					if diff := cmp.Diff(want, node.removals()); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
					if !reports {
						return
					}
					node.taken()
					report(e, checks.True)
					time.Sleep(2 * time.Second)
					synctest.Wait()
					if got := node.taken(); len(got) != 1 {
						t.Errorf("a change is written by %v, want one patch", got)
					}
				})
			})
		}
	}
}
