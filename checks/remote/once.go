package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// Outcome is what one look has found of a node.
type Outcome struct {
	Node      string        `json:"node"`
	Condition string        `json:"condition"`
	Status    checks.Status `json:"status"`
	Reason    string        `json:"reason"`
	Message   string        `json:"message"`
}

// LookOnce looks once at all nodes, and writes nothing. It waits for no second look: of an alert
// that is gone it can't tell how that ended.
func LookOnce(ctx context.Context, options Options) (outcomes []Outcome, err error) {
	core, err := connect(options.Client, serverclock.New(clock.RealClock{}))
	if err != nil {
		return nil, err
	}
	looks, err := newLooks(options)
	if err != nil {
		return nil, err
	}
	f := newFleet(fleetOptions{looks: looks, clock: clock.RealClock{}})
	list := &corev1.NodeList{}
	if err := core.Get().Resource("nodes").Do(ctx).Into(list); err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	for _, l := range looks {
		var nodes []node
		for i := range list.Items {
			if n := f.known(&list.Items[i]); len(l.types(n)) > 0 {
				nodes = append(nodes, n)
			}
		}
		for name, observations := range l.look(ctx, nodes) {
			for _, o := range observations {
				outcomes = append(outcomes, Outcome{Node: name, Condition: o.Type, Status: o.Status, Reason: o.Reason, Message: o.Message})
			}
		}
	}
	slices.SortFunc(outcomes, func(a, b Outcome) int {
		return strings.Compare(a.Node+" "+a.Condition, b.Node+" "+b.Condition)
	})
	return outcomes, nil
}
