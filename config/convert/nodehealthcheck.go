package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/internal/cut"
)

const nhc = "NodeHealthCheck"

// nodeHealthCheck converts one of medik8s.
// Source: medik8s/node-healthcheck-operator, api/v1alpha1/nodehealthcheck_types.go.
func (c *conversion) nodeHealthCheck(v value) {
	name := v.name()
	spec := v.get("spec")
	selector := spec.get("selector").selector()
	conditions := spec.get("unhealthyConditions")
	all := nodeConditions(conditions, "duration")
	switch {
	case len(all) > 0:
	case conditions.there():
		conditions.mistake("expected a condition: with none it would do nothing")
	default:
		for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
			all = append(all, match{conditionType: string(corev1.NodeReady), status: status, held: 5 * time.Minute, note: "the default of " + nhc, at: spec})
		}
	}
	steps := c.escalation(spec)

	policy := c.policy(name, "", from(v, nhc, name),
		"A node with the label remediation.medik8s.io/exclude-from-remediation=true is left alone here, too.")
	policy.nodes(selector, "")
	c.matches(policy, "", all)
	c.steps(policy, steps, verify(all))
	c.recovery(policy, spec.get("healthyDelay"))
	policy.zealous(nhc, 0, "")

	budget := c.result("RemediationBudget", name, from(v, nhc, name))
	budget.nodes(selector, "")
	c.nhcLimits(budget, spec, hands(steps))
	c.lost(spec, "on OpenShift %s does nothing during an upgrade; here steps that are not disruptive go on. Before one: kubectl nodemend pause budget/%s --reason upgrade", nhc, budget.name)
	c.pauses(budget, spec.get("pauseRequests"))
	if pools := spec.get("minHealthyInCustomPool"); pools.there() {
		c.lost(pools, "%s of medik8s has no such field. A second budget does it: nodeSelector and groupBy by the label of your pools, minHealthy: %s", nhc, pools.limit())
	}
	spec.rest(nhc)
	v.rest(nhc, "apiVersion", "kind", "metadata", "status")
	policy.needs(nhc, steps)
	c.told(policy, v.in.file)
}

// nodeConditions returns the conditions of a list, with the field that has their time.
func nodeConditions(list value, held string) (all []match) {
	for _, item := range list.items() {
		m := match{conditionType: item.get("type").conditionType(), status: item.get("status").status(), at: item}
		if of := item.get(held); of.there() {
			m.held = of.duration(0)
		} else {
			of.mistake("expected a time, such as 5m, found nothing")
		}
		item.rest("a condition")
		all = append(all, m)
	}
	return all
}

// step is one template of an escalation.
type step struct {
	remediator
	at      value
	order   int
	timeout time.Duration // zero: none
}

// escalation returns the templates in their order.
func (c *conversion) escalation(spec value) (steps []step) {
	namespace := ""
	one, several := spec.get("remediationTemplate"), spec.get("escalatingRemediations")
	if several.there() && several.node.Kind == yaml.SequenceNode && len(several.node.Content) == 0 {
		several.node = nil
	}
	switch {
	case one.there() && several.there():
		several.mistake("expected either remediationTemplate or escalatingRemediations")
	case one.there():
		steps = []step{{remediator: c.remediator(one, namespace), at: one}}
	case !several.there():
		spec.mistake("expected remediationTemplate or escalatingRemediations: it would do nothing")
	}
	for _, item := range several.items() {
		s := step{at: item, timeout: item.get("timeout").duration(0)}
		order := item.get("order")
		text := order.required("a number")
		number, err := strconv.Atoi(text)
		if err != nil && text != "" {
			order.mistake("expected a number, found %s", order.shown())
		}
		s.order = number
		s.remediator = c.remediator(item.get("remediationTemplate"), namespace)
		item.rest(nhc)
		steps = append(steps, s)
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.order, b.order) })
	return steps
}

// steps adds the steps in their order, but what a person does last.
func (c *conversion) steps(o *object, steps []step, verify time.Duration) {
	o.add("steps:", "")
	var all []remediator
	var names []string
	for i, s := range steps {
		all = append(all, s.remediator)
		name := s.name
		if s.timeout > 0 {
			name = fmt.Sprintf("order %d, %s", s.order, s.name)
		}
		if !s.acts() {
			names = append(names, name)
			continue
		}
		if i > 0 && !steps[i-1].acts() {
			c.lost(s.at, "it comes first here, since what a person does is the last step")
		}
		if s.external != nil {
			o.external(name, s.external, s.timeout, s.takes)
			continue
		}
		if s.replaces {
			o.add("- replace: {}", name+" makes a new one: what is on its disks is lost")
			o.add("  timeout: 1h", "until a new node is Ready")
			o.add("  requireApproval: true", "the original does not ask")
			return // which is the last step
		}
		timeout, verify, note := bootTimeout, verify, ""
		if s.timeout > 0 {
			timeout, verify, note = shared(s.timeout)
		}
		o.reboot(name+"; no drain: it only cordons as well", timeout, verify, note)
	}
	note := strings.Join(names, "; ") + ": a person does it"
	if len(names) == 0 {
		note = "out of service, and drained, until it has recovered"
	}
	o.maintenance(todo(all), note, true)
}

// shared splits the time that an escalation has into those of a reboot and of its check.
func shared(timeout time.Duration) (boot, verify time.Duration, note string) {
	const shortest, check = 5 * time.Minute, time.Minute
	if timeout < shortest {
		return shortest - check, check, fmt.Sprintf("more than the timeout of %s, in which no machine boots", cut.Zeros(timeout))
	}
	verify = min(timeout/5, bootVerify).Truncate(time.Second)
	return timeout - verify, verify, fmt.Sprintf("with verifyTimeout, the timeout of %s", cut.Zeros(timeout))
}

// recovery adds how long a node must be healthy.
func (c *conversion) recovery(o *object, delay value) {
	text := delay.scalar("a time, such as 10m")
	if positive, negative := strings.CutPrefix(text, "-"); negative {
		if _, err := time.ParseDuration(positive); err != nil {
			delay.mistake("expected a time, such as 10m or -1s, found %s", delay.shown())
		}
		o.add("recovery: {healthyFor: 1m, release: Manual}", "healthyDelay below zero: a person uncordons")
		return
	}
	if d := delay.duration(0); d >= time.Second {
		o.add(fmt.Sprintf("recovery: {healthyFor: %s}", cut.Zeros(d)), "healthyDelay")
		return
	}
	o.add("recovery: {healthyFor: 1m}", nhc+" takes a node for healthy at once")
}

// nhcLimits adds the limits of a budget.
func (c *conversion) nhcLimits(o *object, spec value, reboots bool) {
	minimum, maximum := spec.get("minHealthy"), spec.get("maxUnhealthy")
	healthy, unhealthy, concurrency := minimum.limit(), maximum.limit(), spec.get("concurrency")
	percent := strings.HasSuffix
	switch {
	case healthy != "" && unhealthy != "":
		maximum.mistake("expected either minHealthy or maxUnhealthy")
	case healthy == "" && unhealthy == "":
		healthy = "51%"
		minimum.line = spec.line
	}
	most, note := unhealthy, "maxUnhealthy, for nodes that are down"
	if percent(healthy, "%") && healthy != "0%" {
		most, note = complement(healthy), "what minHealthy leaves; also for nodes that are down"
	}
	if concurrency.there() {
		most, note = concurrency.limit(), "concurrency, which "+nhc+" of medik8s does not have"
	}
	if unhealthy != "" {
		c.noStop(maximum, nhc, unhealthy, reboots)
	} else if !never(healthy) && reboots {
		c.noStop(minimum, nhc, "1%", reboots)
	}
	switch {
	case most == "" || most == "100%":
		most, note = "1", nhc+" acts on all that its limit leaves, at once: raise it with care"
	case reboots && !never(most) && !concurrency.there():
		most, note = "1", stopNote(nhc)
	}
	o.add("maxConcurrent: "+most, note)
	switch {
	case percent(unhealthy, "%"):
		o.add("maxUnavailable: "+unhealthy, "and for others")
		o.add("minHealthy: "+complement(unhealthy), "with more than maxUnhealthy, no node is taken out")
	case unhealthy != "":
		o.add("maxUnavailable: "+unhealthy, "and for others")
	default:
		o.add("minHealthy: "+healthy, map[bool]string{false: "the default of former versions; newer ones refuse it"}[minimum.there()])
	}
	if cooldown := spec.get("stormCooldownDuration"); cooldown.there() {
		o.add("stormCooldown: "+cut.Zeros(cooldown.duration(0)), map[bool]string{true: "without effect until there is a minHealthy"}[unhealthy != "" && !percent(unhealthy, "%")])
	} else {
		o.add("stormCooldown: 0s", nhc+" has none unless told so; left out, it is 15m")
	}
}

// complement returns what a percentage leaves.
func complement(percentage string) string {
	number, err := strconv.Atoi(strings.TrimSuffix(percentage, "%"))
	if err != nil {
		return percentage
	}
	return fmt.Sprintf("%d%%", 100-number)
}

// pauses notes who has paused it: a file must not, since its next apply would lift the pause.
func (c *conversion) pauses(budget *object, requests value) {
	for _, r := range requests.items() {
		reason := oneLine(cut.Head(r.scalar("a reason"), 256))
		c.lost(r, "it is paused. Before Enforce: kubectl nodemend pause budget/%s --reason '%s'", budget.name, strings.ReplaceAll(reason, "'", `'\''`))
	}
}
