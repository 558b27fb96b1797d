package convert

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/cut"
)

const (
	mah = "magnum-auto-healer"
	// nodeRole is the label of control-plane nodes.
	nodeRole = "node-role.kubernetes.io/control-plane"
	// oldNodeRole is the label that they had before.
	oldNodeRole = "node-role.kubernetes.io/master"
	// mahHeld and mahJoin are its defaults, and mahRebuild that of rebuild-delay-after-reboot.
	mahHeld, mahJoin, mahRebuild = 5 * time.Minute, 10 * time.Minute, 5 * time.Minute
)

// camelCase is what each note about that begins with. Every version since
// kubernetes/cloud-provider-openstack#645 reads kebab case only, without an error.
const camelCase = mah + " ignores camel case since June 2019"

// isMagnum reports whether a file without kinds is its configuration.
func isMagnum(v value) bool {
	return v.has("healthcheck", "healthCheck", "cluster-name", "clusterName")
}

// configMap converts its configuration as it is deployed.
func (c *conversion) configMap(v value) {
	of := magnumFile(v)
	inner := value{in: &source{c: c, file: v.in.file, used: map[*yaml.Node]bool{}, offset: of.node.Line}}
	if of.node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		inner.in.offset--
	}
	var document yaml.Node
	err := yaml.Unmarshal([]byte(of.node.Value), &document)
	if err == nil {
		var whole any
		err = document.Decode(&whole)
	}
	if err != nil {
		of.mistake("expected a configuration of %s: %v", mah, err)
		return
	}
	if inner.node = rootOf(&document); inner.node == nil || inner.node.Kind != yaml.MappingNode {
		of.mistake("expected a configuration of %s, found no fields", mah)
		return
	}
	inner.node = expanded(inner.node)
	inner.line = inner.node.Line + inner.in.offset
	c.magnum(inner)
}

// magnumFile returns the file in a ConfigMap that is its configuration. The zero node: none.
func magnumFile(v value) value {
	data := v.get("data")
	if !data.there() || data.node.Kind != yaml.MappingNode {
		return value{}
	}
	_, files := data.fields()
	for _, file := range files {
		if file.there() && file.node.Kind == yaml.ScalarNode &&
			(strings.Contains(file.node.Value, "healthcheck:") && strings.Contains(file.node.Value, "cluster-name:")) {
			return file
		}
	}
	return value{}
}

// magnum converts a configuration.
// Source: kubernetes/cloud-provider-openstack, pkg/autohealing/{config,healthcheck}.
func (c *conversion) magnum(v value) {
	const itsDryRun = "its dry-run is set"
	idle := ""
	if v.get("dry-run").boolean(false) {
		idle = itsDryRun
	}
	if ignored := v.get("dryRun"); ignored.boolean(false) && !v.has("dry-run") {
		c.ask(ignored, "%s: what ran has repaired nodes. The policies are in DryRun, as it says", camelCase)
		idle = itsDryRun
	}
	join := v.get("check-delay-after-add").duration(mahJoin)
	rebuild := v.get("rebuild-delay-after-reboot").duration(mahRebuild)
	if delay := v.get("repair-delay-after-add"); delay.there() {
		c.ask(delay, "%s has no such key: what ran was check-delay-after-add: %s. If %s is meant, change delayAfterJoin", mah, cut.Zeros(join), delay.scalar("a time"))
	}
	for _, key := range []string{"cluster-name", "monitor-interval", "leader-elect", "kubernetes"} {
		v.get(key) // conditions are watched, one controller leads
	}
	for said, key := range []string{"cloud-provider", "openstack"} {
		if of := v.get(key); of.there() && (said == 0 || !v.has("cloud-provider")) {
			c.lost(of, "nobody asks Magnum before a reboot: it repairs nothing without the cluster's label auto_healing_enabled, nor while cluster or stack are updated. "+
				"Before an update: kubectl nodemend pause budget/%s --reason update. The remote runner takes a clouds.yaml, for steps that you add", mah)
		}
	}
	checks := v.get("healthcheck")
	if !checks.there() {
		checks = v.get("healthCheck") // names are compared without case
	}
	masters := v.get("master-monitor-enabled").boolean(true)
	workers := v.get("worker-monitor-enabled").boolean(true)
	before := len(c.results)
	for _, role := range []struct {
		name, field string
		watched     bool
		nodes       []metav1.LabelSelectorRequirement
	}{
		{"worker", "worker", workers, noControlPlane()},
		{"control-plane", "master", masters, []metav1.LabelSelectorRequirement{{Key: nodeRole, Operator: metav1.LabelSelectorOpExists}}},
	} {
		list := checks.get(role.field)
		if !role.watched {
			for range list.items() {
				c.lost(list, "these nodes are not watched: their monitor is off")
				break
			}
			continue
		}
		if all := c.magnumChecks(list); len(all) > 0 {
			o := c.policy(mah+"-"+role.name, idle, fmt.Sprintf("From healthcheck.%s of %s, %s:%d.", role.field, mah, v.in.file, list.line))
			o.nodes(&metav1.LabelSelector{MatchExpressions: role.nodes}, "")
			c.matches(o, "", all)
			o.add("steps:", "")
			o.reboot("by the node itself, not by Nova", bootTimeout, max(rebuild, verify(all)), "")
			more := "reboot: {method: PowerCycle}"
			if role.field == "worker" {
				more += ", and replace: {} in the place of maintenance"
			}
			c.lost(list, "Nova reboots, then rebuilds, a machine from outside: here the node's runner reboots it, once it reaches the API server, and the last step asks a person. "+
				"By hand, with a remote runner: %s (docs/others.md)", more)
			o.maintenance("rebuild the machine", "instead of a machine that is built anew", role.field == "worker")
			o.add("recovery: {healthyFor: 1m}", mah+" takes a node for healthy at once")
			o.zealous(mah, join, "check-delay-after-add")
		}
	}
	checks.rest(mah)
	c.camel(v, map[string]string{
		"check-delay-after-add": cut.Zeros(mahJoin), "rebuild-delay-after-reboot": cut.Zeros(mahRebuild),
		"master-monitor-enabled": "true", "worker-monitor-enabled": "true",
	})
	v.rest(mah, "monitorInterval", "leaderElect", "cloudProvider", "clusterName")
	if len(c.results) == before {
		v.mistake("expected a check of type NodeCondition in healthcheck.worker or healthcheck.master: without any there is nothing that a policy could match")
		return
	}
	c.told(c.results[before], v.in.file)
	budget := c.result("RemediationBudget", mah, fmt.Sprintf("From %s, %s:%d.", mah, v.in.file, v.line))
	budget.add("maxConcurrent: 1", mah+" has no limit; without a budget nothing acts here")
}

// magnumChecks returns the conditions of a list of checks.
func (c *conversion) magnumChecks(list value) (all []match) {
	for _, check := range list.items() {
		params := check.get("params")
		switch kind := check.get("type").required("the type of a check"); kind {
		case "NodeCondition":
			all = append(all, c.nodeCondition(params)...)
		case "Endpoint":
			c.lost(check, "%s", endpoint(params))
		case "":
		default:
			c.lost(check, "a check of type %s is not known", kind)
		}
		check.rest(mah)
	}
	return all
}

// endpoint says how the remote detector does what a check of this type does: it is a part of its
// own, and a policy that matches its condition without it would never see recovery.
func endpoint(params value) string {
	params.fields()
	or := func(key, fallback string) string {
		if of := params.get(key); of.there() {
			return asWritten(of)
		}
		return fallback
	}
	said := fmt.Sprintf("{enabled: true, port: %s, paths: %s, okCodes: %s}", or("port", "6443"), or("endpoints", "[/healthz]"), or("ok-codes", "[200]"))
	text := fmt.Sprintf("the remote detector asks control-plane nodes from outside, but verifies their certificates: controlPlaneEndpoint: %s, and a policy that matches %s for %s",
		said, config.ControlPlaneEndpointUnhealthy, or("unhealthy-duration", cut.Zeros(mahHeld)))
	if !strings.EqualFold(or("protocol", "https"), "https") {
		text += "; it asks by https only"
	}
	if or("require-token", "false") == "true" {
		text += "; write the token into a file of a Secret, tokenFile"
	}
	return text
}

// nodeCondition returns the conditions of a check of this type.
func (c *conversion) nodeCondition(params value) (all []match) {
	var types []string
	for _, item := range params.get("types").items() {
		types = append(types, item.conditionType())
	}
	if len(types) == 0 {
		types = []string{string(corev1.NodeReady)}
	}
	held := params.get("unhealthy-duration").duration(mahHeld)
	faults, faultNote := c.magnumFaults(params, types)
	note := ""
	if camel := params.peek("unhealthyDuration"); camel != "" && !params.has("unhealthy-duration") {
		if d, err := time.ParseDuration(camel); err != nil || d != held {
			note = fmt.Sprintf("what ran; unhealthyDuration, %s, was ignored", camel)
		}
	}
	for _, t := range types {
		for _, status := range faults {
			m := match{conditionType: t, status: status, held: held, at: params}
			if len(all) == 0 {
				m.note = strings.Trim(note+"; "+faultNote, "; ")
			}
			all = append(all, m)
		}
	}
	c.camel(params, map[string]string{"unhealthy-duration": cut.Zeros(mahHeld), "ok-values": "[True]", "error-values": "[]"})
	params.rest("a check of " + mah)
	return all
}

// magnumFaults returns the statuses that are a fault.
func (c *conversion) magnumFaults(params value, types []string) (faults []corev1.ConditionStatus, note string) {
	ok, wrong := params.get("ok-values"), params.get("error-values")
	if values := wrong.statuses(); len(values) > 0 {
		return values, ""
	}
	well := ok.statuses()
	if len(well) == 0 {
		well = []corev1.ConditionStatus{corev1.ConditionTrue}
		// What ran would have taken every healthy node for broken.
		if camel := params.get("okValues"); camel.there() && !slices.Equal(types, []string{string(corev1.NodeReady)}) {
			if values := camel.statuses(); len(values) > 0 && !slices.Equal(values, well) {
				c.ask(camel, "%s: what ran was ok-values: [True], so nodes were repaired that were healthy. The policy has what is written", camelCase)
				well, note = values, "okValues, which was ignored"
			}
		}
	}
	for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown} {
		if !slices.Contains(well, status) {
			faults = append(faults, status)
		}
	}
	return faults, note
}

// statuses returns a list of statuses.
func (v value) statuses() (all []corev1.ConditionStatus) {
	for _, item := range v.items() {
		if item.there() && item.node.Tag == "!!bool" {
			item.mistake("expected %q in quotes: %s refuses it without", item.node.Value, mah)
			continue
		}
		all = append(all, item.status())
	}
	return all
}

// camel asks about fields in camel case, of which it has taken the default instead, unless
// that is what they say.
func (c *conversion) camel(v value, defaults map[string]string) {
	if v.node == nil || v.node.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		name := kebab(key.Value)
		was, known := defaults[name]
		if name == key.Value || !known || v.in.used[key] {
			continue
		}
		field := v.get(key.Value)
		written := asWritten(field)
		if d, err := time.ParseDuration(written); err == nil && cut.Zeros(d) == was || written == was {
			continue
		}
		if v.has(name) {
			c.ask(field, "%s: what ran was %s", camelCase, name)
			continue
		}
		c.ask(field, "%s: what ran, and what the policy has, is %s: %s. If %s is meant, write it there", camelCase, name, was, written)
	}
}

// asWritten is a value in one line.
func asWritten(v value) string {
	if v.node == nil {
		return "nothing"
	}
	switch v.node.Kind {
	case yaml.ScalarNode:
		return v.node.Value
	case yaml.SequenceNode:
		var all []string
		for _, item := range v.node.Content {
			all = append(all, item.Value)
		}
		return "[" + strings.Join(all, ", ") + "]"
	default:
		return "fields"
	}
}

// kebab returns a name in kebab case: unhealthy-duration for unhealthyDuration.
func kebab(name string) string {
	var text strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			text.WriteByte('-')
			r = unicode.ToLower(r)
		}
		text.WriteRune(r)
	}
	return text.String()
}
