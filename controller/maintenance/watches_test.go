package maintenance

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/others"
)

// holding is a cache with a maintenance of every node, or with none.
type holding struct {
	client.Client
	held bool
}

func (h holding) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if h.held {
		list.(*v1alpha1.NodeMaintenanceList).Items = make([]v1alpha1.NodeMaintenance, 1)
	}
	return nil
}

func TestOnlyWhatConcernsACordonWakes(t *testing.T) {
	ready := func(cordoned bool, annotations map[string]string, uid types.UID) *corev1.Node {
		node := nodeWith(cordoned, annotations)
		node.UID = uid
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return node
	}
	ofKarpenter := func(word string) *corev1.Node {
		node := nodeWith(true, markedFor("a"))
		node.Labels = map[string]string{others.NodePoolLabel: "workers"}
		if word != "" {
			node.Annotations[others.DoNotRepairAnnotation] = word
		}
		return node
	}
	tests := []struct {
		name          string
		before, after *corev1.Node // none: it came or went
		held, free    bool         // whether it wakes while the node is held, or not
	}{
		{"a heartbeat", nodeWith(true, markedFor("a")), ready(true, markedFor("a"), "u"), false, false},
		{"a cordon", nodeWith(false, nil), nodeWith(true, nil), true, false},
		{"an uncordon", nodeWith(true, nil), nodeWith(false, nil), true, false},
		{"an uncordon of ours", nodeWith(true, markedFor("a")), nodeWith(false, markedFor("a")), true, true},
		{"a mark", nodeWith(true, nil), nodeWith(true, markedFor("")), true, true},
		{"another mark", nodeWith(true, markedFor("a")), nodeWith(true, markedFor("b")), true, true},
		{"no mark any more", nodeWith(true, markedFor("a")), nodeWith(true, nil), true, false},
		{"another node", nodeWith(false, nil), ready(false, nil, "v"), true, false},
		{"a word to Karpenter", ofKarpenter(""), ofKarpenter("true"), true, true},
		{"none any more", ofKarpenter("false"), ofKarpenter(""), true, true},
		{"broken", telling("False", "well"), telling("True", "FAN1", "FAN1: since then"), true, false},
		{"more is broken", telling("True", "FAN1", "FAN1: since then"), telling("True", "FAN1", "FAN2: since now"), true, false},
		{"well again", telling("True", "FAN1", "FAN1: since then"), telling("False", "well"), false, false},
		{"a new node", nil, nodeWith(false, nil), true, false},
		{"a new node with a mark", nil, nodeWith(true, markedFor("a")), true, true},
		{"a node that goes", nodeWith(false, nil), nil, true, false},
	}
	for _, tt := range tests {
		for held, want := range map[bool]bool{true: tt.held, false: tt.free} {
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			on := (&Reconciler{Client: holding{held: held}}).onNode()
			switch {
			case tt.before == nil:
				on.Create(t.Context(), event.CreateEvent{Object: tt.after}, queue)
			case tt.after == nil:
				on.Delete(t.Context(), event.DeleteEvent{Object: tt.before}, queue)
			default:
				on.Update(t.Context(), event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}, queue)
			}
			if woken := queue.Len() == 1; woken != want {
				t.Errorf("%s, held %t: woken %t", tt.name, held, woken)
			}
			queue.ShutDown()
		}
	}
}
