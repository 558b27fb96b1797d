package convert

import (
	"fmt"
	"strings"
)

// remediator is what a template stands for.
type remediator struct {
	name string
	// reboots: the node itself can do it.
	reboots bool
	// todo is what is left to a person, as an order.
	todo string
}

// remediators are those that are known, by the kind of their templates.
func remediators() map[string]remediator {
	return map[string]remediator{
		"SelfNodeRemediationTemplate":        {name: "SelfNodeRemediation", reboots: true},
		"PoisonPillRemediationTemplate":      {name: "PoisonPillRemediation", reboots: true},
		"FenceAgentsRemediationTemplate":     {name: "FenceAgentsRemediation", todo: "power-cycle it"},
		"MachineDeletionRemediationTemplate": {name: "MachineDeletionRemediation", todo: "replace its machine"},
		"Metal3RemediationTemplate":          {name: "Metal3Remediation", todo: "power-cycle it"},
	}
}

// isTemplate reports whether a kind is a template of a remediator.
func isTemplate(kind string) bool { return strings.HasSuffix(kind, "RemediationTemplate") }

func templateKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// remediator returns what a reference to a template stands for, and notes what of it is not
// carried over. An object in a namespace may leave that out in the reference.
func (c *conversion) remediator(ref value, namespace string) remediator {
	ref.get("apiVersion")
	kind := ref.get("kind").required("the kind of a template")
	name := ref.get("name").required("the name of a template")
	if of := ref.get("namespace"); of.there() {
		namespace = of.scalar("the namespace of a template")
	}
	ref.rest("a reference to a template")
	key := templateKey(kind, namespace, name)
	template, given := c.templates[key]
	c.named[key] = true
	r, known := remediators()[kind]
	if !known {
		r = remediator{name: strings.TrimSuffix(kind, "Template"), todo: "do what " + strings.TrimSuffix(kind, "Template") + " did"}
	}
	switch {
	case r.reboots:
		c.selfRemediation(ref, r, template, given, name)
	default:
		c.lost(ref, "%s: the last step asks a person instead: %s", r.name, r.todo)
		if given {
			c.lost(template.get("spec"), "it is for %s alone", r.name)
		}
	}
	return r
}

// selfRemediation notes what a reboot by the node's runner is not.
func (c *conversion) selfRemediation(ref value, r remediator, template value, given bool, name string) {
	c.lost(ref, "a node that is cut off reboots itself by %s; here its runner reboots it, and only once it reaches the API server", r.name)
	if !given {
		c.ask(ref, "the template %s is in none of the files, so its remediationStrategy is not known: pods are evicted, as near as can be to Automatic", name)
		return
	}
	outer := template.get("spec").get("template")
	spec := outer.get("spec")
	strategy := spec.get("remediationStrategy")
	switch strategy.scalar("the name of a strategy") {
	case "", "Automatic", "ResourceDeletion":
	case "OutOfServiceTaint":
		c.lost(strategy, "no taint %s: volumes of a dead node stay until a person, sure that it is off, sets it", "node.kubernetes.io/out-of-service")
	default:
		c.lost(strategy, "%s is not known; pods are evicted", strategy.shown())
	}
	spec.rest(r.name)
	outer.rest("a template", "metadata")
	template.get("spec").rest("a template")
}

// unnamed notes the templates that nobody names.
func (c *conversion) unnamed() {
	for _, o := range c.objects {
		kind := o.value.peek("kind")
		if !isTemplate(kind) {
			continue
		}
		metadata := o.value.get("metadata")
		if !c.named[templateKey(kind, metadata.peek("namespace"), metadata.peek("name"))] {
			c.lost(metadata.get("name"), "no NodeHealthCheck or MachineHealthCheck of these files names this %s", kind)
		}
	}
}

// remediatorConfig notes that there is no such thing.
func (c *conversion) remediatorConfig(v value) {
	c.lost(v.get("kind"), "%s: a node that is cut off does not reboot itself here, so there is nothing to set", v.peek("kind"))
}

// todo returns the reason of a maintenance that comes after these remediators.
func todo(all []remediator) string {
	var orders []string
	for _, r := range all {
		if r.todo != "" {
			orders = append(orders, r.todo)
		}
	}
	if len(orders) == 0 {
		return "a reboot has not helped"
	}
	return cut(strings.Join(orders, "; if that does not help, "), 128)
}

// cut returns a text that is at most so long.
func cut(text string, length int) string {
	if runes := []rune(text); len(runes) > length {
		return string(runes[:length-1]) + "…"
	}
	return text
}

// from says what an object is made from.
func from(v value, kind, name string) string {
	return fmt.Sprintf("From %s %s, %s:%d.", kind, name, v.in.file, v.line)
}
