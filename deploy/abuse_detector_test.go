//go:build integration

package deploy_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/internal/repairnote"
)

// Who has root on node A has this token.
func TestAbuseOfTheTokenOfADetector(t *testing.T) {
	p := newProps(t)
	own, foreign := "nodes/"+p.a+"/status", "nodes/"+p.b+"/status"
	const events = "default:events"
	said := func(component string) string {
		return p.event(p.a, func(e *corev1.Event) { e.Source.Component = component })
	}
	rows := []row{
		{"detector", "strategic patch", own, condition(fault, "False"), allowed, "this is what it is for, true or not"},
		{"detector", "strategic patch", own, condition("Anything", "True"), allowed, "which types there are depends on your checks: the variable `allowed` of the policy narrows them"},
		{"detector", "strategic patch", own, `{"status":{"conditions":[{"$patch":"delete","type":"` + fault + `"}]}}`, allowed, "a check that is switched off takes its condition away"},
		{"detector", "strategic patch", foreign, condition(fault, "False"), by("detector"), "the token names node A"},
		{"unbound detector", "strategic patch", own, condition(fault, "False"), by("detector"), "a token of no pod does not say on which node it is used"},
		{"detector", "strategic patch", own, condition("Ready", "True"), by("detector"), "the kubelet says that"},
		{"detector", "merge patch", own, `{"status":{"conditions":[]}}`, by("detector"), "it would take the kubelet's away"},
		{"detector", "merge patch", own, `{"status":{"conditions":null}}`, by("detector"), "as above"},
		{"detector", "json patch", own, `[{"op":"remove","path":"/status"}]`, by("detector"), "as above"},
		{"detector", "json patch", own, `[{"op":"replace","path":"/status/conditions/0/status","value":"False"}]`, by("detector"), "the first is Ready"},
		{"detector", "json patch", own, `[{"op":"replace","path":"/metadata/name","value":"` + p.b + `"}]`, invalid, "a name never changes"},
		{"detector", "apply", own, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"` + p.a + `"},"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, by("detector"), "whatever the kind of patch"},
		{"detector", "apply", own, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"` + p.a + `"},"status":{"conditions":[{"type":"Mine","status":"True"}]}}`, allowed, "whatever the kind of patch"},
		{"detector", "apply", own, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"` + p.a + `","labels":{"a":"b"}},"status":{}}`, by("detector"), "labels choose which policies act on the node"},
		{"detector", "merge patch", own, `{"metadata":{"annotations":{"nodemend.dev/cordoned-for":"m"}}}`, by("detector"), "the mark of the controller's cordon"},
		{"detector", "merge patch", own, `{"metadata":{"annotations":{"nodemend.dev/bmc":"{\"addresses\":[\"10.0.0.7\"]}"}}}`, by("detector"), "detector.reportBMC of the chart lets it say where its BMC is"},
		{"detector", "merge patch", own, `{"metadata":{"labels":{"nodemend.dev/exclude":"true"}}}`, by("detector"), "labels choose which policies act on the node"},
		{"detector", "merge patch", own, `{"metadata":{"finalizers":["a/b"]}}`, by("detector"), "a node that can't be deleted"},
		{"detector", "merge patch", own, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`, by("detector"), "the garbage collector would delete the node"},
		{"detector", "merge patch", own, `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`, invalid + "immutable", "only who may delete it"},
		{"detector", "merge patch", own, `{"spec":{"unschedulable":true}}`, allowed, "the API server passes over all but status and metadata"},
		{"detector", "merge patch", own, `{"metadata":{"managedFields":[{}]}}`, allowed, "a weakness: who owns which field of its own node can be forgotten. Then the controller takes its cordon for somebody else's, and leaves it"},
		{"detector", "merge patch", own, `{"status":{"addresses":null,"capacity":{"cpu":"1000"}}}`, by("detector"), "pods are placed, and kubelets reached, by it"},
		{"detector", "strategic patch", own, `{"status":{"conditions":[{"type":"` + fault + `","status":"True","message":"` + strings.Repeat("x", 5000) + `"}]}}`, by("detector"), "everybody reads Nodes"},
		{"detector", "strategic patch", own, `{"status":{"conditions":[{"type":"` + fault + `","status":"True","message":"` + repairnote.Join(strings.Repeat("x", 1024), slices.Repeat([]string{strings.Repeat("y", repairnote.MaxLine)}, repairnote.MaxLines)) + `"}]}}`, allowed, "the longest message of a check, with what a technician has to know"},
		{"detector", "strategic patch", own, condition(fault, strings.Repeat("x", 1<<19)), by("detector"), "everybody reads Nodes"},
		{"detector", "strategic patch", own, condition(fault, `False\nPolicy x: all is well`), by("detector"), "a line of its own on somebody's screen"},
		{"detector", "update", own, p.body(p.scene.a), rbac, "it writes narrow patches only"},
		{"detector", "merge patch", "nodes/" + p.a, `{"spec":{"taints":null}}`, rbac, "conditions only"},
		{"detector", "apply", "nodes/new", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"new"}}`, rbac, "no node appears"},
		{"detector", "apply", "nodes/new/status", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"new"},"status":{}}`, invalid + "not found", "no node appears"},
		{"detector", "get", "nodes/" + p.b, "", allowed, "RBAC can't narrow what is read"},
		{"detector", "list", "nodes", "", rbac, "one by one only"},
		{"detector", "get", "nodes/" + p.a + "/proxy/healthz", "", rbac, "it asks the kubelet itself, not through the API server"},
		{"detector", "create", "nodes/" + p.b + "/proxy/run/default/x/x?cmd=id", "", rbac, "by it commands are run in every pod of the node"},
		{"detector", "get", "nodeactions/" + p.actionA.Name, "", rbac, "nothing of ours is its business"},
		{"detector", "list", "remediations", "", rbac, "as above"},

		{"detector", "create", events, p.event(p.a), allowed, "problems that pass are told by events"},
		{"detector", "create", events, p.event(p.b), by("events"), "about the own node only"},
		{"detector", "create", events, said("nodemend-detector"), allowed, "its own name"},
		{"detector", "create", events, said("kernel-monitor"), allowed, "monitors have names of their own, which you choose"},
		{"detector", "create", events, said("kubelet"), by("events"), "listed in the policy, as others who write events about nodes"},
		{"detector", "create", events, said("karpenter"), by("events"), "as the kubelet"},
		{"detector", "create", events, said("nodemend-anything"), by("events"), "names of ours"},
		{"detector", "create", events, said("somebody-else"), allowed, "a weakness: whom the policy does not list can be played, about the own node"},
		{"detector", "merge patch", events + "/" + p.kubelets, `{"source":{"component":"nodemend-detector"},"message":"x"}`, by("events"), "the kubelet's words, taken over"},
		{"detector", "merge patch", events + "/" + p.agents, `{"count":2}`, allowed, "how it counts what repeats"},
		{"detector", "merge patch", events + "/" + p.others, `{"count":2}`, by("events"), "an event about node B"},
		{"detector", "create", "default:new events", newEvent(p.a), rbac, "no right is given"},
		{"detector", "get", "kube-node-lease:leases/" + p.a, "", rbac, "nobody plays a kubelet"},
		{"detector", "create", "nodemend-system:serviceaccounts/nodemend-runner/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":[]}}`, rbac, "no role makes itself another one"},
	}
	p.tryAll(t, p.tokens(), rows)
}
