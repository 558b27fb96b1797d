package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/internal/cut"
)

const (
	// mostMatches is how many entries match may have.
	mostMatches = 16
	// bootTimeout and bootVerify are what a reboot has if the original does not say.
	bootTimeout, bootVerify = 10 * time.Minute, 5 * time.Minute
	// fullDiskVerify is longer than the kubelet keeps a pressure after its end, 5m.
	fullDiskVerify = 7 * time.Minute
)

// match is an entry of match.
type match struct {
	conditionType string
	status        corev1.ConditionStatus
	held          time.Duration
	note          string
	at            value
}

// matches adds the conditions that start the policy, and asks what is healthy where that is
// not clear.
func (c *conversion) matches(o *object, note string, all []match) {
	o.add("match:", note)
	for i, m := range all {
		if i == mostMatches {
			c.lost(m.at, "a policy has at most %d conditions: this and those after it need a policy of their own", mostMatches)
			break
		}
		o.add(fmt.Sprintf("- {type: %s, status: %s, for: %s}", quoted(m.conditionType), quoted(string(m.status)), cut.Zeros(m.held)), m.note)
	}
	statuses := map[string]map[corev1.ConditionStatus]bool{}
	for _, m := range all {
		if statuses[m.conditionType] == nil {
			statuses[m.conditionType] = map[corev1.ConditionStatus]bool{}
		}
		statuses[m.conditionType][m.status] = true
	}
	asked := map[string]bool{}
	for _, m := range all {
		of := statuses[m.conditionType]
		switch {
		case asked[m.conditionType]:
			continue
		case of[corev1.ConditionTrue] && of[corev1.ConditionFalse]:
			c.ask(m.at, "%s is a fault both as True and as False: nothing would prove recovery here; remove one of them", m.conditionType)
		case !of[corev1.ConditionTrue] && !of[corev1.ConditionFalse] && !ofKubernetes(m.conditionType):
			c.ask(m.at, `of %s only Unknown is a fault, so "False" counts as healthy here; if "True" is, add healthy: "True"`, m.conditionType)
		}
		asked[m.conditionType] = true
	}
}

// ofKubernetes reports whether everybody knows which status of a condition is healthy.
func ofKubernetes(conditionType string) bool {
	switch corev1.NodeConditionType(conditionType) {
	case corev1.NodeReady, corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable:
		return true
	}
	return false
}

// verify is how long a reboot has until the conditions must be clear.
func verify(all []match) time.Duration {
	for _, m := range all {
		if strings.HasSuffix(m.conditionType, "Pressure") {
			return fullDiskVerify
		}
	}
	return bootVerify
}

// reboot adds a reboot.
func (o *object) reboot(note string, timeout, verify time.Duration, timeNote string) {
	o.add("- reboot: {method: SysRq}", note)
	o.add("  timeout: "+cut.Zeros(timeout), timeNote)
	o.add("  verifyTimeout: "+cut.Zeros(verify), "")
}

// maintenance adds the last step: a person does the rest.
func (o *object) maintenance(reason, note string, drained bool) {
	o.add("- maintenance:", note)
	o.add("    reason: "+quoted(reason), "")
	if drained {
		o.add("    drain: {timeout: 1h, force: true, deleteEmptyDirData: true}", "")
	}
}

// nobody is a requirement that no node meets, for what a selector can't say.
func nobody(of string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: "example.com/nodes-of-" + of, Operator: metav1.LabelSelectorOpExists}
}

// noControlPlane are the requirements of workers. Some control planes have only the label of old.
func noControlPlane() []metav1.LabelSelectorRequirement {
	return []metav1.LabelSelectorRequirement{
		{Key: nodeRole, Operator: metav1.LabelSelectorOpDoesNotExist}, {Key: oldNodeRole, Operator: metav1.LabelSelectorOpDoesNotExist},
	}
}

// external adds a step that its remediator carries out as before.
func (o *object) external(note string, t *template, timeout, takes time.Duration) {
	o.add("- external:", note)
	namespace := ""
	if t.namespace != "" {
		namespace = "namespace: " + quoted(t.namespace) + ", "
	}
	o.add(fmt.Sprintf("    templateRef: {apiVersion: %s, kind: %s, %sname: %s}", t.apiVersion, t.kind, namespace, quoted(t.name)), "")
	const shortest, longest = 2 * time.Minute, 24 * time.Hour
	switch {
	case timeout == 0:
		o.add("  timeout: "+cut.Zeros(cmp.Or(takes, time.Hour)), "the original has none; longer than what it does, retries included")
	case timeout < shortest || timeout > longest:
		o.add("  timeout: "+cut.Zeros(min(max(timeout, shortest), longest)), fmt.Sprintf("from 2m to 24h; it was %s", cut.Zeros(timeout)))
	default:
		o.add("  timeout: "+cut.Zeros(timeout), "")
	}
}

// needs says what its steps can't do without.
func (o *object) needs(original string, steps []step) {
	if slices.ContainsFunc(steps, func(s step) bool { return s.external != nil }) {
		o.about = append(o.about, "Its steps external need controller.externalRemediators: true of the chart. Remove "+original+", and keep its remediators.")
	}
	if slices.ContainsFunc(steps, func(s step) bool { return s.replaces }) {
		o.about = append(o.about, "Its step replace needs the remote runner, with replace.clusterAPI in its configuration (docs/others.md).")
	}
}

// hands reports whether one of the steps reboots nodes, or hands them to who does.
func hands(steps []step) bool {
	return slices.ContainsFunc(steps, func(s step) bool { return s.reboots || s.external != nil })
}

// noStop notes what is left of a limit that stops the original altogether. minHealthy does not hold
// the reboot of a node that is down; for a number of unhealthy nodes there is no minHealthy at all.
func (c *conversion) noStop(limit value, original, most string, reboots bool) {
	percent := strings.HasSuffix(most, "%")
	if most == "" || most == "100%" || never(most) || percent && !reboots {
		return
	}
	c.lost(limit, "%s does nothing while too many nodes are unhealthy, such as when a switch fails. Here nodes that are down are acted on all the same, as many at once as maxConcurrent says", original)
}

// never reports whether a limit lets nothing happen.
func never(limit string) bool { return limit == "0" || limit == "0%" }

// stopNote says why a budget has maxConcurrent: 1.
func stopNote(original string) string {
	return "what keeps too many from rebooting at once, where " + original + " stops: raise it with care"
}

// zealous adds that the policy is as quick, and as often, as the original, but for a limit.
func (o *object) zealous(original string, join time.Duration, joinNote string) {
	o.add("cooldown: 0s", original+" has none; left out, it is 10m")
	if joinNote == "" {
		joinNote = original + " acts on new nodes at once; left out, it is 10m"
	}
	o.add("delayAfterJoin: "+cut.Zeros(join), joinNote)
	o.add("maxRemediations: {count: 3, per: 24h}", original+" goes on; here more is for people")
}
