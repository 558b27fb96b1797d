package convert

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nodemend/nodemend/internal/cut"
)

// remediator is what a template stands for.
type remediator struct {
	name string
	// reboots: the node itself can do it.
	reboots bool
	// external is the template by which it goes on doing it; nil: it does not.
	external *template
	// replaces: the owner of the machine makes a new one.
	replaces bool
	// todo is what is left to a person, as an order.
	todo string
	// takes is how long it has if the original does not say; zero: an hour.
	takes time.Duration
	// version of its templates, if a reference does not say.
	version string
}

// What TemplateReference accepts.
var (
	templateVersion = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/v\d[a-z0-9]*$`)
	templateKind    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*Template$`)
)

// template names one.
type template struct{ apiVersion, kind, namespace, name string }

// remediators are those that are known, by the kind of their templates.
func remediators() map[string]remediator {
	return map[string]remediator{
		"SelfNodeRemediationTemplate":        {name: "SelfNodeRemediation", reboots: true},
		"PoisonPillRemediationTemplate":      {name: "PoisonPillRemediation", reboots: true},
		"FenceAgentsRemediationTemplate":     {name: "FenceAgentsRemediation", takes: 15 * time.Minute, version: "fence-agents-remediation.medik8s.io/v1alpha1"},
		"MachineDeletionRemediationTemplate": {name: "MachineDeletionRemediation", version: "machine-deletion-remediation.medik8s.io/v1alpha1"},
		"Metal3RemediationTemplate":          {name: "Metal3Remediation", takes: 30 * time.Minute, version: "infrastructure.cluster.x-k8s.io/v1beta1"},
	}
}

// acts reports whether something is done without a person.
func (r *remediator) acts() bool { return r.reboots || r.external != nil || r.replaces }

// isTemplate reports whether a kind is a template of a remediator.
func isTemplate(kind string) bool { return strings.HasSuffix(kind, "RemediationTemplate") }

func templateKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// remediator returns what a reference to a template stands for, and notes what of it is not
// carried over. An object in a namespace may leave that out in the reference.
func (c *conversion) remediator(ref value, namespace string) remediator {
	version := ref.get("apiVersion").scalar("the group and version of a template")
	kind := ref.get("kind").required("the kind of a template")
	name := ref.get("name").required("the name of a template")
	if of := ref.get("namespace"); of.there() {
		namespace = of.scalar("the namespace of a template")
	}
	ref.rest("a reference to a template")
	key := templateKey(kind, namespace, name)
	of, given := c.templates[key]
	c.named[key] = true
	r, known := remediators()[kind]
	if !known {
		r = remediator{name: strings.TrimSuffix(kind, "Template")}
	}
	version = cmp.Or(version, r.version)
	switch {
	case r.reboots:
		c.selfRemediation(ref, r, of, given, name)
	case !templateVersion.MatchString(version) || !templateKind.MatchString(kind):
		r.todo = cut.Head("do what "+r.name+" did", 64)
		c.lost(ref, "a step external needs the apiVersion of %s, and a kind that ends in Template; the last step asks a person instead: %s", r.name, r.todo)
	default:
		r.external = &template{version, kind, namespace, name}
		if !known {
			c.ask(ref, "does %s keep the contract of NodeHealthCheck, with conditions Processing and Succeeded, and a finalizer? Only then can a step external have it", r.name)
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
	switch {
	case len(orders) == 0 && !slices.ContainsFunc(all, func(r remediator) bool { return !r.reboots }):
		return "a reboot has not helped"
	case len(orders) == 0:
		return "what was done has not helped"
	}
	return cut.Head(strings.Join(orders, "; if that does not help, "), 128)
}

// from says what an object is made from.
func from(v value, kind, name string) string {
	return fmt.Sprintf("From %s %s, %s:%d.", kind, name, v.in.file, v.line)
}
