package convert

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const mhc = "MachineHealthCheck"

// machineHealthCheck converts one of Cluster API or of OpenShift.
// Source: kubernetes-sigs/cluster-api, api/core/{v1beta1,v1beta2}/machinehealthcheck_types.go.
func (c *conversion) machineHealthCheck(v value) {
	metadata := v.get("metadata")
	name := v.name()
	spec := v.get("spec")
	cluster := spec.get("clusterName")
	checks, remediation := spec.get("checks"), spec.get("remediation") // from v1beta2 on
	all := nodeConditions(spec.get("unhealthyConditions"), "timeout")
	for _, item := range checks.get("unhealthyNodeConditions").items() {
		seconds := item.get("timeoutSeconds")
		all = append(all, match{
			conditionType: item.get("type").conditionType(), status: item.get("status").status(),
			held: seconds.seconds(), at: item,
		})
		item.rest("a condition")
	}
	for _, of := range []value{spec, checks} {
		for _, field := range []string{"unhealthyMachineConditions", "unhealthyExpressions"} {
			for _, item := range of.get(field).items() {
				c.lost(item, "it is about the Machine, which is not seen here: only conditions of nodes are")
			}
		}
		for _, field := range []string{"nodeStartupTimeout", "nodeStartupTimeoutSeconds"} {
			if timeout := of.get(field); timeout.there() && !strings.HasPrefix(timeout.scalar("a time"), "0") {
				c.lost(timeout, "a machine without a node is not seen here")
			}
		}
	}
	if len(all) == 0 {
		spec.mistake("expected unhealthyConditions, or checks.unhealthyNodeConditions: without any there is nothing that a policy could match")
	}
	selector := c.machines(spec.get("selector"))
	_, openshift, _ := strings.Cut(v.peek("apiVersion"), "openshift.io") // "/v1beta1"; "": it is of Cluster API
	steps := c.machineSteps(spec, remediation, cmp.Or(metadata.peek("namespace"), "default"), openshift)
	of := cluster.scalar("the name of a cluster")
	if len(c.clusters) > 1 {
		c.ask(cluster, "a policy acts where it is applied, and these files have MachineHealthChecks of %d clusters: apply it to no other one than %s", len(c.clusters), cmp.Or(of, "its own"))
	}

	about := []string{from(v, mhc, name)}
	if of != "" {
		about = append(about, "It is of the cluster "+of+": apply it there, not to the cluster that manages it.")
	}
	policy := c.policy(name, "", append(about,
		"A node whose Machine has the annotation cluster.x-k8s.io/skip-remediation needs the label nodemend.dev/exclude=true.")...)
	policy.nodes(selector, "")
	c.matches(policy, "", all)
	c.steps(policy, steps, verify(all))
	policy.add("recovery: {healthyFor: 1m}", mhc+" takes a node for healthy at once")
	policy.zealous(mhc, 0, "")

	budget := c.result("RemediationBudget", name, from(v, mhc, name))
	budget.nodes(selector, "")
	c.mhcLimits(budget, spec, remediation.get("triggerIf"), hands(steps))
	names, values := metadata.get("annotations").fields()
	for i, key := range names {
		if key == "cluster.x-k8s.io/paused" {
			c.lost(values[i], "it is paused. Before Enforce: kubectl nodemend pause budget/%s --reason 'paused in Cluster API'", budget.name)
		}
	}
	checks.rest(mhc)
	remediation.rest(mhc)
	spec.rest(mhc)
	v.rest(mhc, "apiVersion", "kind", "metadata", "status")
	policy.needs(mhc, steps)
	c.told(policy, v.in.file)
}

// machineSteps returns the step of the template, or that the owner makes a new machine.
func (c *conversion) machineSteps(spec, remediation value, namespace, openshift string) []step {
	for _, ref := range []value{spec.get("remediationTemplate"), remediation.get("templateRef")} {
		if ref.there() {
			s := step{remediator: c.remediator(ref, namespace), at: ref}
			if s.external != nil {
				c.lost(ref, "where the Machines are in a management cluster elsewhere, %s is there, too, and this policy can't have it", s.name)
			}
			return []step{s}
		}
	}
	if openshift == "" {
		c.lost(spec, "its owner makes a new Machine at once; here a person approves that: kubectl nodemend approve NODE. A reboot before it is gentler")
		return []step{{remediator: remediator{name: "the owner of the Machine", replaces: true}, at: spec}}
	}
	c.lost(spec, "without a template the owner of the Machine makes a new one: the last step asks a person instead. A reboot before it is gentler")
	return []step{{remediator: remediator{name: "the owner of the Machine", todo: "delete its Machine, so that its owner makes a new one"}, at: spec}}
}

// labels that Cluster API copies from Machines to their nodes.
var copied = regexp.MustCompile(`^(node-role\.kubernetes\.io|([^/]+\.)?node-restriction\.kubernetes\.io|([^/]+\.)?node\.cluster\.x-k8s\.io)/`)

// machines returns the selector of the nodes of the selected Machines. Labels of Machines
// that nodes do not have are kept, and it selects none until somebody has seen to it.
func (c *conversion) machines(v value) *metav1.LabelSelector {
	const clusterName, controlPlane = "cluster.x-k8s.io/cluster-name", "cluster.x-k8s.io/control-plane"
	s := v.selector()
	if s == nil {
		return nil
	}
	nodes := &metav1.LabelSelector{}
	none := false
	var foreign []string
	add := func(r metav1.LabelSelectorRequirement) {
		switch {
		case r.Key == clusterName && (r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpExists):
			return // all nodes of that cluster
		case r.Key == controlPlane:
			role, selects := controlPlaneOf(r)
			none = none || !selects
			nodes.MatchExpressions = append(nodes.MatchExpressions, role...)
			return
		case !copied.MatchString(r.Key):
			foreign = append(foreign, r.Key)
			// A node has no such label, so that it would be selected.
			none = none || r.Operator == metav1.LabelSelectorOpNotIn || r.Operator == metav1.LabelSelectorOpDoesNotExist
		}
		nodes.MatchExpressions = append(nodes.MatchExpressions, r)
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		add(metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{s.MatchLabels[key]}})
	}
	for _, r := range s.MatchExpressions {
		add(r)
	}
	if none {
		nodes.MatchExpressions = append(nodes.MatchExpressions, nobody("machines"))
	}
	switch {
	case len(foreign) > 0:
		c.lost(v, "nodes do not get the label %s of their Machines, so the policy selects none: give the nodes it, or select by one of theirs%s",
			strings.Join(foreign, ", "), map[bool]string{true: ", and remove " + nobody("machines").Key}[none])
	case none:
		c.lost(v, "no Machine is selected by it, so the policy selects no node")
	}
	if len(nodes.MatchExpressions) == 0 {
		return nil
	}
	return nodes
}

// controlPlaneOf returns what a requirement of the label of control-plane Machines, whose value
// is empty, is for nodes; and whether it selects any.
func controlPlaneOf(r metav1.LabelSelectorRequirement) (nodes []metav1.LabelSelectorRequirement, selects bool) {
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{r}})
	if err != nil {
		return nil, false // which was said
	}
	masters, workers := selector.Matches(labels.Set{r.Key: ""}), selector.Matches(labels.Set{})
	switch {
	case masters && workers:
		return nil, true
	case masters:
		return []metav1.LabelSelectorRequirement{{Key: nodeRole, Operator: metav1.LabelSelectorOpExists}}, true
	default:
		return noControlPlane(), workers
	}
}

var unhealthyRange = regexp.MustCompile(`^\[(\d+)-(\d+)\]$`)

// mhcLimits adds the limits of a budget.
func (c *conversion) mhcLimits(o *object, spec, trigger value, reboots bool) {
	limit, between := spec.get("maxUnhealthy"), spec.get("unhealthyRange")
	if trigger.there() {
		limit, between = trigger.get("unhealthyLessThanOrEqualTo"), trigger.get("unhealthyInRange")
		trigger.rest(mhc)
	}
	most, field := limit.limit(), "the most that may be unhealthy"
	if text := between.scalar("a range, such as [3-5]"); text != "" {
		parts := unhealthyRange.FindStringSubmatch(text)
		if parts == nil {
			between.mistake("expected a range, such as [3-5], found %s", between.shown())
			return
		}
		most, field = parts[2], "the end of the range"
		if parts[1] != "0" && parts[1] != "1" {
			c.lost(between, "nothing here waits until %s nodes are unhealthy: it acts on the first", parts[1])
		}
		limit = between
	}
	c.noStop(limit, mhc, most, reboots)
	concurrent, note := most, field+", for nodes that are down"
	if reboots && !never(most) {
		concurrent, note = "1", stopNote(mhc)
	}
	switch {
	case most == "" || most == "100%":
		o.add("maxConcurrent: 1", mhc+" has no limit here: raise it with care")
	case strings.HasSuffix(most, "%"):
		o.add("maxConcurrent: "+concurrent, note)
		o.add("maxUnavailable: "+most, "and for others")
		o.add("minHealthy: "+complement(most), "with more, no node is taken out")
	default:
		o.add("maxConcurrent: "+concurrent, note)
		o.add("maxUnavailable: "+most, "and for others")
	}
	o.add("stormCooldown: 0s", mhc+" has none; left out, it is 15m")
}
