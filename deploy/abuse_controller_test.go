//go:build integration

package deploy_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Who has root on a node that the controller runs on has this token.
func TestAbuseOfTheTokenOfTheController(t *testing.T) {
	p := newProps(t)
	leader := p.client(p.account("controller", p.scene.b))
	p.untilRefused("nodemend-controller-nodes", func() error { return patchNode(p.ctx, leader, p.a, `{"spec":{"unschedulable":true}}`) })
	own, claimed, done := "nodeactions/"+p.actionA.Name, "nodeactions/"+p.claimed.Name, "nodeactions/"+p.done.Name
	node, remediation, maintenance := "nodes/"+p.a, "remediations/"+p.remediation.Name, "nodemaintenances/"+p.maintenance.Name
	forged := p.remediationOf(p.scene.a)
	forged.Spec.Steps = append(forged.Spec.Steps, v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{}})
	approved := p.remediationOf(p.scene.a)
	approved.Annotations = map[string]string{v1alpha1.ApprovedStepAnnotation: "1"}
	long := p.actionFor(p.scene.a)
	long.Spec.NodeUID = types.UID(strings.Repeat("x", 1<<18))
	const cancelled = v1alpha1.ReasonCancelled
	eviction := func(pod, options string) string {
		return `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"` + pod + `","namespace":"default"}` + options + `}`
	}
	rows := []row{
		{"controller", "create", "nodeactions", p.body(p.actionFor(p.scene.a)), allowed, "it orders; the runner asks policy, remediation, approval and pause itself"},
		{"controller", "create", "nodeactions", p.body(long), invalid + "Too long", "each runner reads its actions"},
		{"controller", "delete", own, "", allowed, "old actions are deleted"},
		{"controller", "deletecollection", "nodeactions", "", rbac, "one by one"},
		{"controller", "merge patch", own + "/status", `{"status":` + finishedAs(cancelled) + `}`, allowed, "it cancels what nobody has claimed"},
		{"controller", "merge patch", claimed + "/status", `{"status":` + finishedAs(cancelled) + `}`, by("controller"), "what is claimed may run"},
		{"controller", "merge patch", done + "/status", `{"status":` + finishedAs(cancelled) + `}`, invalid + "a finished action never changes", "what came of it is the runner's to say"},
		{"controller", "merge patch", own + "/status", `{"status":` + finishedAs(v1alpha1.ReasonSucceeded) + `}`, by("controller"), "as above"},
		{"controller", "json patch", own + "/status", `[{"op":"add","path":"/status","value":{"claim":{"runnerID":"r","bootID":"b","time":"2026-01-01T00:00:00Z","remedy":"command"}}}]`, by("controller"), "only runners claim"},
		{"controller", "apply", own + "/status", `{"apiVersion":"nodemend.dev/v1alpha1","kind":"NodeAction","metadata":{"name":"` + p.actionA.Name + `"},"status":{"result":{"startedAt":"2026-01-01T00:00:00.000000Z","finishedAt":"2026-01-01T00:00:00.000000Z"}}}`, by("controller"), "whatever the kind of patch"},
		{"controller", "strategic patch", own + "/status", `{"status":{}}`, invalid, "there is no such patch for kinds of CRDs"},
		{"controller", "update", own + "/status", p.body(p.actionA), rbac, "it patches only"},
		{"controller", "merge patch", own, `{"metadata":{"finalizers":["a/b"]}}`, by("controller-actions"), "an order never changes: its own finalizer goes when it is over"},

		{"controller", "merge patch", "remedypolicies/" + p.policy.Name, `{"spec":{"mode":"Enforce"}}`, rbac, "only who may write policies decides what runs as root"},
		{"controller", "create", "remedypolicies", p.body(p.policy), rbac, "as above"},
		{"controller", "apply", "remedypolicies/x", `{"apiVersion":"nodemend.dev/v1alpha1","kind":"RemedyPolicy","metadata":{"name":"x"}}`, rbac, "to apply is to create"},
		{"controller", "merge patch", "remedypolicies/" + p.policy.Name + "/status", `{"spec":{"mode":"DryRun"},"status":{"openRemediations":7}}`, allowed, "its status only: the API server passes over the spec"},
		{"controller", "merge patch", "remediationbudgets/" + p.budget.Name, `{"spec":{"maxConcurrent":1000}}`, rbac, "people decide how much happens at once"},
		{"controller", "delete", "remediationbudgets/" + p.budget.Name, "", rbac, "people decide how much happens at once"},
		{"controller", "create", "remediationbudgets", p.body(p.budget), rbac, "not even the pause of the cluster"},
		{"controller", "merge patch", "remediationbudgets/" + p.budget.Name + "/status", `{"status":{"groups":{"":{"limit":5}}}}`, permitted, "permits and limits of percentages are its to write: it is trusted with budgets"},

		{"controller", "create", "remediations", p.body(forged), allowed, "a forged snapshot: the runner executes no step that the policy does not have"},
		{"controller", "create", "remediations", p.body(approved), by("controller-remediations"), "only people approve"},
		{"controller", "merge patch", remediation, `{"metadata":{"annotations":{"nodemend.dev/approved-step":"1"}}}`, by("controller-remediations"), "only people approve"},
		{"controller", "merge patch", remediation, `{"metadata":{"annotations":{"nodemend.dev/approved-by":"1 jane"}}}`, by("controller-remediations"), "it names nobody"},
		{"controller", "merge patch", remediation, `{"metadata":{"annotations":{"nodemend.dev/retried-by":" system:serviceaccount:nodemend-system:nodemend-controller"}}}`, by("controller-remediations"), "not even itself"},
		{"controller", "json patch", remediation, `[{"op":"add","path":"/metadata/annotations","value":{"nodemend.dev/retry":"1"}}]`, by("controller-remediations"), "only people start over"},
		{"controller", "apply", remediation, `{"apiVersion":"nodemend.dev/v1alpha1","kind":"Remediation","metadata":{"name":"` + p.remediation.Name + `","annotations":{"nodemend.dev/started-by":"jane"}}}`, by("controller-remediations"), "it does not speak for people"},
		{"controller", "merge patch", remediation, `{"spec":{"nodeName":"` + p.b + `"}}`, invalid + "never changes", "the rule of the CRD binds everybody"},
		{"controller", "delete", remediation, "", allowed, "old ones are deleted; it could delete all: the audit log says so"},
		{"controller", "merge patch", maintenance, `{"metadata":{"finalizers":["nodemend.dev/uncordon"]}}`, allowed, "so a maintenance ends only when the node is back"},
		{"controller", "merge patch", maintenance, `{"spec":{"reason":"x","requestedBy":"jane","drain":{"timeout":"1s"}}}`, allowed, "it could change what people want of theirs: SECURITY.md says so"},
		{"controller", "merge patch", maintenance, `{"spec":{"nodeName":"` + p.a + `"}}`, invalid + "never change", "the rule of the CRD binds everybody"},
		{"controller", "merge patch", maintenance, `{"spec":{"drain":{},"power":"Off"}}`, by("controller-maintenances"), "it has no machine switched off in a person's name"},
		{"controller", "create", "nodemaintenances", `{"apiVersion":"nodemend.dev/v1alpha1","kind":"NodeMaintenance","metadata":{"name":"x"},"spec":{"nodeName":"` + p.a + `","reason":"r","drain":{},"power":"Off"}}`, by("controller-maintenances"), "as above"},
		{"controller", "create", "nodemaintenances", `{"apiVersion":"nodemend.dev/v1alpha1","kind":"NodeMaintenance","metadata":{"name":"x"},"spec":{"nodeName":"` + p.a + `","reason":"r","drain":{},"power":"Off","remediation":{"name":"r","uid":"u"}}}`, allowed, "the remote runner reads whether the policy says so"},
		{"controller", "create", "nodemaintenances", `{"apiVersion":"nodemend.dev/v1alpha1","kind":"NodeMaintenance","metadata":{"name":"x"},"spec":{"nodeName":"` + p.a + `","reason":"r","power":"Off","remediation":{"name":"r","uid":"u"}}}`, invalid + "power: Off needs drain", "the rule of the CRD binds everybody"},
		{"controller", "create", "nodemaintenances", `{"apiVersion":"nodemend.dev/v1alpha1","kind":"NodeMaintenance","metadata":{"name":"x"},"spec":{"nodeName":"` + p.a + `","reason":"r","drain":{},"outOfService":true,"remediation":{"name":"r","uid":"u"}}}`, invalid + "outOfService is for power: Off, or machineOff, only", "as above"},
		{"controller", "create", "nodemaintenances", `{"apiVersion":"nodemend.dev/v1alpha1","kind":"NodeMaintenance","metadata":{"name":"x"},"spec":{"nodeName":"` + p.a + `","reason":"r","drain":{},"power":"Off","outOfService":true}}`, by("controller-maintenances"), "it frees nothing in a person's name"},
		{"controller", "create", "nodemaintenances", `{"apiVersion":"nodemend.dev/v1alpha1","kind":"NodeMaintenance","metadata":{"name":"x"},"spec":{"nodeName":"` + p.a + `","reason":"r","drain":{},"power":"Off","outOfService":true,"remediation":{"name":"r","uid":"u"}}}`, allowed, "the remote runner reads whether the policy says so"},
		{"controller", "create", "nodemaintenances", `{"apiVersion":"nodemend.dev/v1alpha1","kind":"NodeMaintenance","metadata":{"name":"x"},"spec":{"nodeName":"` + p.a + `","reason":"r","outOfService":true,"machineOff":{"kind":"PersonsWord","nodeUID":"u","bootID":"b","silentSince":"2026-01-01T00:00:00Z","by":"jane","time":"2026-01-01T00:00:00Z"}}}`, by("words"), "that a machine is off is the word of a person"},
		{"controller", "merge patch", maintenance, `{"spec":{"outOfService":true,"machineOff":{"kind":"PersonsWord","nodeUID":"u","bootID":"b","silentSince":"2026-01-01T00:00:00Z","by":"jane","time":"2026-01-01T00:00:00Z"}}}`, by("words"), "as above"},
		{"controller", "merge patch", maintenance + "/status", `{"status":{"power":{"phase":"Off","since":"2026-01-01T00:00:00Z","runnerID":"r"}}}`, by("controller-maintenances"), "the remote runner alone says what became of the power"},
		{"controller", "merge patch", maintenance + "/status", `{"status":{"machine":{"uuid":"x"}}}`, by("controller-maintenances"), "as above"},
		{"controller", "merge patch", maintenance + "/status", `{"status":{"conditions":[{"type":"Drained","status":"True","reason":"Drained","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, allowed, "it says how far the drain is"},
		{"controller", "delete", maintenance, "", allowed, "it could end what people want: SECURITY.md says so"},

		{"controller", "merge patch", node, `{"metadata":{"annotations":{"nodemend.dev/cordoned-for":"m"}},"spec":{"unschedulable":true}}`, allowed, "how it cordons"},
		{"controller", "json patch", node, `[{"op":"add","path":"/spec/unschedulable","value":true}]`, by("controller-nodes"), "not in secret"},
		{"controller", "merge patch", "nodes/" + p.marked, `{"metadata":{"annotations":{"nodemend.dev/cordoned-for":"` + strings.Repeat("x", 1<<17) + `"}}}`, by("controller-nodes"), "everybody reads Nodes"},
		{"controller", "merge patch", "nodes/" + p.cordoned, `{"spec":{"unschedulable":null}}`, by("controller-nodes"), "a person's cordon"},
		{"controller", "merge patch", "nodes/" + p.cordoned, `{"metadata":{"annotations":{"nodemend.dev/cordoned-for":"m"}}}`, by("controller-nodes"), "a person's cordon, taken over"},
		{"controller", "merge patch", "nodes/" + p.marked, `{"metadata":{"annotations":{"nodemend.dev/cordoned-for":null}},"spec":{"unschedulable":null}}`, allowed, "how it uncordons"},
		{"controller", "merge patch", "nodes/" + p.marked, `{"spec":{"unschedulable":null}}`, by("controller-nodes"), "the mark goes with the cordon"},
		{"controller", "strategic patch", node, `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`, by("controller-nodes"), "a taint evicts past all budgets"},
		{"controller", "merge patch", node, `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`, by("controller-nodes"), "pods with secrets go where labels say"},
		{"controller", "merge patch", node, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`, by("controller-nodes"), "the garbage collector would delete the node"},
		{"controller", "merge patch", node, `{"spec":{"providerID":"x","podCIDR":"10.0.0.0/24"}}`, by("controller-nodes"), "a cordon, and nothing else"},
		{"controller", "apply", "nodes/new", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"new"}}`, rbac, "to apply what does not exist is to create it"},
		{"controller", "apply", node, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"` + p.a + `","labels":{"a":"b"}}}`, by("controller-nodes"), "whatever the kind of patch"},
		{"controller", "merge patch", node + "/status", condition(fault, "False"), rbac, "only detectors say what they have seen"},
		{"controller", "delete", node, "", rbac, "no node goes"},

		{"controller", "create", "default:pods/" + p.free + "/eviction", eviction(p.free, ""), allowed, "how it drains"},
		{"controller", "create", "default:pods/" + p.free + "/eviction", eviction(p.free, `,"deleteOptions":{"gracePeriodSeconds":0}`), allowed, "a pod may be killed at once: SECURITY.md says so"},
		{"controller", "create", "default:pods/" + p.guarded + "/eviction", eviction(p.guarded, ""), invalid + "disruption budget", "no PodDisruptionBudget is passed"},
		{"controller", "create", "default:pods/" + p.guarded + "/eviction", eviction(p.guarded, `,"deleteOptions":{"gracePeriodSeconds":0}`), invalid + "disruption budget", "not by force either"},
		{"controller", "delete", "default:pods/" + p.guarded, "", rbac, "to delete a pod passes its PodDisruptionBudget"},
		{"controller", "get", "default:pods/" + p.free, "", rbac, "it lists those of a node, with their environment variables: put no secret there"},
		{"controller", "list", "pods", "", allowed, "as above"},
		{"controller", "merge patch", "default:poddisruptionbudgets/" + p.guarded, `{"spec":{"maxUnavailable":9}}`, rbac, "PodDisruptionBudgets are not ours"},
		{"controller", "create", "default:pods/" + p.free + "/binding", `{"apiVersion":"v1","kind":"Binding","target":{"kind":"Node","name":"` + p.a + `"}}`, rbac, "it is no scheduler"},

		{"controller", "get", "kube-node-lease:leases/" + p.a, "", permitted, "the heartbeats of kubelets"},
		{"controller", "merge patch", "kube-node-lease:leases/" + p.a, `{"spec":{"holderIdentity":"x"}}`, rbac, "it keeps no dead kubelet alive"},
		{"controller", "update", "nodemend-system:leases/other", `{}`, rbac, "its own lease only"},
		{"controller", "update", "nodemend-system:leases/nodemend-controller", `{}`, permitted, "its own"},
		{"controller", "delete", "nodemend-system:leases/nodemend-controller", "", rbac, "who leads is not forgotten"},
		{"controller", "create", "default:new events", newEvent(p.a), allowed, "about any object, in any name: admission does not narrow the controller's events"},
		{"controller", "create", "default:events", p.event(p.a), rbac, "by the new API only"},
		{"controller", "create", "nodemend-system:serviceaccounts/nodemend-runner/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":[]}}`, rbac, "no role makes itself another one"},
		{"controller", "merge patch", "nodemend-system:daemonsets/nodemend-runner", `{"spec":{"template":{"spec":{"containers":[{"name":"runner","image":"x"}]}}}}`, rbac, "root everywhere"},
		{"controller", "delete", "validatingadmissionpolicybindings/nodemend-controller", "", rbac, "what binds it stays"},
		{"controller", "merge patch", "customresourcedefinitions/nodeactions.nodemend.dev", `{"spec":{"scope":"Namespaced"}}`, rbac, "what binds it stays"},
		{"controller", "merge patch", "clusterroles/nodemend-controller", `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`, rbac, "nobody gives himself rights"},
		{"controller", "create", "clusterrolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"x"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`, rbac, "nobody gives himself rights"},
	}
	p.tryAll(t, p.tokens(), rows)
}
