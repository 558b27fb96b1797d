package budget

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const (
	manyNodes   = 10_000
	manyWaiting = 5_000
	manyRacks   = 125
	manyPools   = 18
)

// crowd are 10,000 nodes in 125 racks and 18 pools; 20 budgets, one for all, one for each rack,
// one for the racks of each pool; and 5,000 remediations that wait, node-0 the oldest.
type crowd struct {
	nodes   []*corev1.Node
	byName  map[string]*corev1.Node
	budgets []v1alpha1.RemediationBudget
	open    []*v1alpha1.Remediation
}

func crowdOf(reboot bool) *crowd {
	c := &crowd{byName: map[string]*corev1.Node{}}
	groups := func() map[string]v1alpha1.BudgetGroup {
		groups := map[string]v1alpha1.BudgetGroup{}
		for i := range manyRacks {
			groups[fmt.Sprint("rack-", i)] = v1alpha1.BudgetGroup{
				Nodes: 80, Limit: ptr.To[int32](4), DisruptionLimit: ptr.To[int32](2),
				Permits: map[string]v1alpha1.Permit{fmt.Sprint("node-", 9000+i): {Remediation: "r"}},
			}
		}
		return groups
	}
	add := func(name, pool, groupBy string, groups map[string]v1alpha1.BudgetGroup) {
		b := v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
		b.Spec.MaxConcurrent, b.Spec.MinHealthy, b.Spec.GroupBy = ptr.To(intstr.FromString("5%")), ptr.To(intstr.FromString("40%")), groupBy
		if pool != "" {
			b.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}
		}
		b.Status.Groups = groups
		c.budgets = append(c.budgets, b)
	}
	add("all", "", "", map[string]v1alpha1.BudgetGroup{v1alpha1.UngroupedNodes: {
		Nodes: manyNodes, Limit: ptr.To[int32](10), DisruptionLimit: ptr.To[int32](0),
		Permits: map[string]v1alpha1.Permit{"node-9000": {Remediation: "r"}},
	}})
	if !reboot {
		c.budgets[0].Status.Groups[v1alpha1.UngroupedNodes] = v1alpha1.BudgetGroup{
			Nodes: manyNodes, Limit: ptr.To[int32](10), DisruptionLimit: ptr.To[int32](9),
		}
	}
	add("racks", "", "rack", groups())
	for i := range manyPools {
		add(fmt.Sprint("pool-", i), fmt.Sprint("pool-", i), "rack", groups())
	}
	for i := range manyNodes {
		name := fmt.Sprint("node-", i)
		node := readyNode(name, "rack", fmt.Sprint("rack-", i%manyRacks), "pool", fmt.Sprint("pool-", i%manyPools))
		node.UID = types.UID(name)
		c.nodes, c.byName[name] = append(c.nodes, node), node
	}
	for i := range manyWaiting {
		r := waiting(fmt.Sprint("node-", i), time.Duration(manyWaiting-i)*time.Second, reboot)
		r.Spec.NodeUID = types.UID(r.Name)
		c.open = append(c.open, r)
	}
	return c
}

func (c *crowd) waiting() []*v1alpha1.Remediation { return slices.Clone(c.open) }

func (c *crowd) nodeOf(name string) *corev1.Node { return c.byName[name] }

// What it costs to know who is ahead, where 5,000 wait.
func BenchmarkAheadOf5000(b *testing.B) {
	for _, bb := range []struct {
		name   string
		mine   int
		reboot bool
	}{
		{"first", 0, false},
		{"100th", 99, false},
		{"last", manyWaiting - 1, false},
		{"last-of-those-who-may-not-disrupt", manyWaiting - 1, true},
	} {
		b.Run(bb.name, func(b *testing.B) {
			c := crowdOf(bb.reboot)
			mine := c.open[bb.mine]
			node := c.nodeOf(mine.Name)
			selecting := Selecting(c.budgets, node)
			b.ReportAllocs()
			for b.Loop() {
				Ahead(mine, node, selecting, c.budgets, c.waiting, c.nodeOf)
			}
		})
	}
}

// What it costs to know who is woken by a permit, where 5,000 wait.
func BenchmarkWakeOf5000(b *testing.B) {
	for i, name := range []string{"all", "of-racks"} {
		b.Run(name, func(b *testing.B) {
			c := crowdOf(false)
			b.ReportAllocs()
			for b.Loop() {
				if len(Wake(&c.budgets[i], c.budgets, c.waiting, c.nodeOf)) == 0 {
					b.Fatal("nobody is woken")
				}
			}
		})
	}
}

// What it costs to know whether enough of 10,000 nodes are healthy, of which 5,000 are sick.
func BenchmarkTooFewHealthyOf10000(b *testing.B) {
	c := crowdOf(true)
	budgets := Selecting(c.budgets, c.nodes[0])
	b.ReportAllocs()
	for b.Loop() {
		if few, err := TooFewHealthy(budgets, c.nodes[0], c.nodes, Sick(c.waiting(), nil)); few != nil || err != nil {
			b.Fatal(few, err)
		}
	}
}
