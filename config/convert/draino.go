package convert

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/internal/cut"
)

// draino cordons and drains nodes with a condition.
// Source: planetlabs/draino, cmd/draino/draino.go and internal/kubernetes/nodefilters.go.
var draino = program{
	name: "draino", arguments: true,
	rules: map[string]flagRule{
		"dry-run": {alone: true}, "evict-emptydir-pods": {alone: true}, "evict-statefulset-pods": {alone: true},
		"evict-unreplicated-pods": {alone: true}, "node-label": {}, "node-label-expr": {}, "skip-drain": {alone: true},

		// Of no use here.
		"debug": {alone: true, unused: true}, "d": {alone: true, unused: true}, "kubeconfig": {unused: true}, "leader-election-lease-duration": {unused: true},
		"leader-election-renew-deadline": {unused: true}, "leader-election-retry-period": {unused: true}, "leader-election-token-name": {unused: true},
		"listen": {unused: true}, "master": {unused: true}, "namespace": {unused: true},

		"drain-buffer":             {lost: "drains do not start at a distance of time: maxConcurrent of the budget limits them"},
		"eviction-headroom":        {lost: "drain.timeout is of the whole drain, not of each pod"},
		"evict-daemonset-pods":     {alone: true, lost: "pods of DaemonSets stay"},
		"max-grace-period":         {lost: "pods have their own terminationGracePeriodSeconds; gracePeriodSeconds would shorten, or prolong, that of all"},
		"protected-pod-annotation": {lost: "pods are spared by labels, not by annotations: label them, and add vetoedBy, or a podSelector, to the drain"},
	},
	convert: (*conversion).draino,
}

func (c *conversion) draino(l commandLine) {
	var all []match
	for _, arg := range l.args {
		all = append(all, drainoCondition(arg))
	}
	if len(all) == 0 {
		l.at.mistake("expected the conditions that drain a node, as arguments of draino")
	}
	selector, note := c.drainoNodes(&l)
	skip := l.flag("skip-drain").boolean(false)
	sets := l.flag("evict-statefulset-pods")
	if !skip && !sets.boolean(false) {
		c.lost(sets, "pods of StatefulSets are evicted, too: without this flag draino leaves them on the node. A podSelector can spare them")
	}

	policy := c.policy("draino", l.idle(), l.from(),
		"An autoscaler may remove the node once it is empty, as with draino. Pods with cluster-autoscaler.kubernetes.io/safe-to-evict=false are evicted, which draino spares.")
	policy.nodes(selector, note)
	c.matches(policy, "", all)
	policy.add("steps:", "")
	policy.add("- maintenance:", "it ends by itself when the conditions are clear")
	policy.add("    reason: "+quoted(drainoReason(all)), "")
	if !skip {
		options := "timeout: 1h"
		if l.flag("evict-unreplicated-pods").boolean(false) {
			options += ", force: true"
		}
		if l.flag("evict-emptydir-pods").boolean(false) {
			options += ", deleteEmptyDirData: true"
		}
		policy.add("    drain: {"+options+"}", "pods that may not be evicted keep it from ending, which it says; draino passes them over")
	}
	policy.add("recovery: {healthyFor: 1m}", "draino uncordons at once")
	policy.zealous("draino", 0, "")

	budget := c.result("RemediationBudget", "draino", l.from())
	budget.nodes(selector, note)
	budget.add("maxConcurrent: 1", "draino cordons all at once, and drains one after the other: raise it with care")
	c.told(policy, l.at.in.file)
}

// drainoReason names the conditions for people.
func drainoReason(all []match) string {
	var types []string
	for _, m := range all {
		types = append(types, m.conditionType)
	}
	return cut.Head("drained for "+strings.Join(types, " or "), 128)
}

// drainoCondition reads TYPE or TYPE=STATUS,DURATION.
func drainoCondition(arg value) match {
	m := match{conditionType: arg.node.Value, status: corev1.ConditionTrue, at: arg}
	name, rest, given := strings.Cut(arg.node.Value, "=")
	if !given {
		arg.conditionType()
		return m
	}
	status, held, _ := strings.Cut(rest, ",")
	d, err := time.ParseDuration(held)
	m.conditionType, m.status, m.held = name, corev1.ConditionStatus(status), d
	switch m.status {
	case corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown:
	default:
		err = fmt.Errorf("status %q", status)
	}
	if err != nil || !ofCondition.MatchString(name) {
		arg.mistake("expected a condition as TYPE or TYPE=STATUS,DURATION, such as Ready=Unknown,30m, found %s", arg.shown())
	}
	return m
}

var (
	equals = regexp.MustCompile(`^metadata\.labels(?:\.([\w-]+)|\[['"]([^'"]+)['"]\]) *(==|!=) *['"]([^'"]*)['"]$`)
	exists = regexp.MustCompile(`^['"]([^'"]+)['"] +(in|not in) +metadata\.labels$`)
	absent = regexp.MustCompile(`^not *\(['"]([^'"]+)['"] +in +metadata\.labels\)$`)
	and    = regexp.MustCompile(` *(?:&&| and ) *`)
)

// drainoNodes returns the nodes that draino looks at.
func (c *conversion) drainoNodes(l *commandLine) (*metav1.LabelSelector, string) {
	s := &metav1.LabelSelector{}
	for _, flag := range l.flags["node-label"] {
		key, value, given := strings.Cut(flag.node.Value, "=")
		switch {
		case !given:
			flag.mistake("expected a label as KEY=VALUE, found %s", flag.shown())
		case value == "":
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists})
		default:
			metav1.AddLabelToSelector(s, key, value)
		}
	}
	expression := l.flag("node-label-expr")
	if text := strings.TrimSpace(expression.scalar("an expression")); text != "" {
		requirements, ok := conjunction(text)
		if !ok {
			c.lost(expression, "a selector cannot say it: the policy selects no node until you write one")
			return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{nobody("draino")}},
				"stands for: " + text
		}
		s.MatchExpressions = append(s.MatchExpressions, requirements...)
	}
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil, ", as draino does without --node-label"
	}
	if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
		l.at.mistake("expected labels in --node-label and --node-label-expr: %v", err)
	}
	return s, ""
}

// conjunction returns the requirements that an expression joins by "and"; false if it says
// anything else.
func conjunction(text string) (all []metav1.LabelSelectorRequirement, ok bool) {
	for _, part := range and.Split(text, -1) {
		if m := equals.FindStringSubmatch(part); m != nil {
			operator := metav1.LabelSelectorOpIn
			switch {
			case m[4] == "" && m[3] == "==": // draino takes a label that is not there for an empty one
				return nil, false
			case m[4] == "":
				all = append(all, metav1.LabelSelectorRequirement{Key: m[1] + m[2], Operator: metav1.LabelSelectorOpExists})
			}
			if m[3] == "!=" {
				operator = metav1.LabelSelectorOpNotIn
			}
			all = append(all, metav1.LabelSelectorRequirement{Key: m[1] + m[2], Operator: operator, Values: []string{m[4]}})
		} else if m := exists.FindStringSubmatch(part); m != nil {
			operator := metav1.LabelSelectorOpExists
			if m[2] == "not in" {
				operator = metav1.LabelSelectorOpDoesNotExist
			}
			all = append(all, metav1.LabelSelectorRequirement{Key: m[1], Operator: operator})
		} else if m := absent.FindStringSubmatch(part); m != nil {
			all = append(all, metav1.LabelSelectorRequirement{Key: m[1], Operator: metav1.LabelSelectorOpDoesNotExist})
		} else {
			return nil, false
		}
	}
	return all, true
}
