package policy

import (
	"encoding/binary"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// sortOfNode is a number of nodes that are alike in all that is asked for.
type sortOfNode struct {
	nodes int32
	// labels are those of one of them: selectors give the same answer for all.
	labels labels.Set
	// conditions are those types that are matched and that they have.
	conditions map[string]bool
	// fenceable: the condition Fenceable is True.
	fenceable bool
}

// sorter knows what selectors and matches ask for.
type sorter struct {
	// labels that are asked for, in order.
	labels []label
	// conditions has the place of each type that is matched, in a row of bits.
	conditions map[corev1.NodeConditionType]int
}

// label is a label's key, and a number for each value that a selector names. Of others a
// selector asks no more than whether the label is there.
type label struct {
	key    string
	values map[string]uint64
}

// Numbers of what is no value that a selector names.
const (
	absent uint64 = iota
	unnamed
	named // the first
)

func newSorter(policies []v1alpha1.RemedyPolicy, selectors []labels.Selector, limits limits) *sorter {
	asked := map[string]map[string]uint64{v1alpha1.ExcludeLabel: {"true": named}}
	ask := func(selector labels.Selector) {
		if selector == nil {
			return
		}
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			values := asked[r.Key()]
			if values == nil {
				values = map[string]uint64{}
				asked[r.Key()] = values
			}
			for _, value := range r.ValuesUnsorted() {
				if _, known := values[value]; !known {
					values[value] = named + uint64(len(values))
				}
			}
		}
	}
	for _, selector := range selectors {
		ask(selector)
	}
	for _, l := range limits {
		ask(l.selector)
	}
	s := &sorter{conditions: map[corev1.NodeConditionType]int{}}
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		s.labels = append(s.labels, label{key, asked[key]})
	}
	for i := range policies {
		for _, m := range policies[i].Spec.Match {
			t := corev1.NodeConditionType(m.Type)
			if _, known := s.conditions[t]; !known {
				s.conditions[t] = len(s.conditions)
			}
		}
	}
	return s
}

// sort counts the nodes of each sort.
func (s *sorter) sort(nodes []*corev1.Node) map[string]*sortOfNode {
	sorts := map[string]*sortOfNode{}
	var key []byte
	bits := make([]byte, (len(s.conditions)+7)/8)
	for _, node := range nodes {
		key = key[:0]
		for _, l := range s.labels {
			number := absent
			if value, has := node.Labels[l.key]; has {
				if number = l.values[value]; number == 0 {
					number = unnamed
				}
			}
			key = binary.AppendUvarint(key, number)
		}
		clear(bits)
		fenceable := byte(0)
		for i := range node.Status.Conditions {
			if c := &node.Status.Conditions[i]; c.Type == v1alpha1.NodeFenceable && c.Status == corev1.ConditionTrue {
				fenceable = 1
			}
			if place, matched := s.conditions[node.Status.Conditions[i].Type]; matched {
				bits[place/8] |= 1 << (place % 8)
			}
		}
		key = append(append(key, bits...), fenceable)
		known := sorts[string(key)]
		if known == nil {
			known = &sortOfNode{labels: node.Labels, conditions: s.matched(node), fenceable: fenceable == 1}
			sorts[string(key)] = known
		}
		known.nodes++
	}
	return sorts
}

// matched returns the node's types of conditions that are matched.
func (s *sorter) matched(node *corev1.Node) map[string]bool {
	types := map[string]bool{}
	for i := range node.Status.Conditions {
		t := node.Status.Conditions[i].Type
		if _, matched := s.conditions[t]; matched {
			types[string(t)] = true
		}
	}
	return types
}
