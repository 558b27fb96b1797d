//go:build integration

package deploy_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Each role for people by itself, and who has none.
func TestAbuseOfTheRolesOfPeople(t *testing.T) {
	p := newProps(t)
	p.awaitPolicy(p.client(p.clusterAdmin()))
	remediation, maintenance, budget := "remediations/"+p.remediation.Name, "nodemaintenances/"+p.maintenance.Name, "remediationbudgets/"+p.budget.Name
	forged := p.remediationOf(p.scene.a)
	forged.Spec.Steps[0].Command.Argv = []string{"/bin/sh", "-c", "id"}
	reboot := p.remediationOf(p.scene.a)
	reboot.Spec.Steps = append(reboot.Spec.Steps, v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{}})
	ofNone := forged.DeepCopy()
	ofNone.Spec.Policy.Name = "none"
	startedBy := func(name string) *v1alpha1.Remediation {
		r := ofNone.DeepCopy()
		r.Annotations = map[string]string{v1alpha1.StartedByAnnotation: name}
		return r
	}
	rows := []row{
		{"edit", "create", "remediations", p.body(forged), by("remediations"), "steps are those of the policy"},
		{"edit", "create", "remediations", p.body(reboot), by("remediations"), "steps are those of the policy"},
		{"edit", "apply", "remediations/" + forged.Name, p.body(forged), by("remediations"), "to apply is to create"},
		{"edit", "create", "remediations", p.body(ofNone), allowed, "a remediation of no policy: no runner executes anything of it"},
		{"edit", "merge patch", remediation, `{"spec":{"steps":[{"command":{"argv":["/bin/sh"]}}]}}`, invalid + "never changes", "the rule of the CRD binds everybody"},
		{"edit", "merge patch", remediation, `{"metadata":{"annotations":{"nodemend.dev/approved-step":"9"}}}`, allowed, "people approve"},
		{"edit", "merge patch", remediation, `{"metadata":{"annotations":{"nodemend.dev/started-by":"somebody else"}}}`, by("names"), "nobody speaks in another's name"},
		{"edit", "create", "remediations", p.body(startedBy("jane")), by("names"), "nobody speaks in another's name"},
		{"edit", "create", "remediations", p.body(startedBy("person-who-may-edit")), allowed, "who starts it says so"},
		{"edit", "merge patch", remediation, `{"metadata":{"annotations":{"nodemend.dev/started-by":"person-who-may-edit"}}}`, by("names"), "who has not started it claims nothing"},
		{"edit", "merge patch", remediation, `{"metadata":{"annotations":{"nodemend.dev/approved-step":"2","nodemend.dev/approved-by":"2 person-who-may-edit"}}}`, allowed, "people approve, and say who they are"},
		{"edit", "merge patch", remediation, `{"metadata":{"annotations":{"nodemend.dev/approved-step":"2","nodemend.dev/approved-by":"2 jane"}}}`, by("names"), "nobody approves in another's name"},
		{"edit", "merge patch", remediation, `{"metadata":{"annotations":{"nodemend.dev/approved-step":"2","nodemend.dev/approved-by":"3 person-who-may-edit"}}}`, by("names"), "a name is of what is approved, not of what may yet be"},
		{"edit", "apply", remediation, `{"apiVersion":"nodemend.dev/v1alpha1","kind":"Remediation","metadata":{"annotations":{"nodemend.dev/retry":"1","nodemend.dev/retried-by":"1 jane"}}}`, by("names"), "however it is written"},
		{"edit", "merge patch", remediation + "/status", `{"metadata":{"annotations":{"nodemend.dev/approved-by":"2 jane"}}}`, rbac, "nor past admission"},
		{"edit", "merge patch", budget, `{"metadata":{"annotations":{"nodemend.dev/paused-by":"` + v1alpha1.Signed(v1alpha1.Paused(p.budget), "jane") + `"}}}`, by("names"), "nobody pauses in another's name"},
		{"edit", "merge patch", remediation, `{}`, allowed, "the answer is the object: to patch without get is to read one by its name. There is nothing secret in it"},
		{"edit", "merge patch", remediation + "/status", `{"status":{"endTime":"2026-01-01T00:00:00Z"}}`, rbac, "history is the controller's to write"},
		{"edit", "merge patch", remediation, `{"status":{"endTime":"2026-01-01T00:00:00Z"}}`, allowed, "the API server passes over the status here"},
		{"edit", "delete", remediation, "", allowed, "people cancel; a tombstone stays"},
		{"edit", "deletecollection", "remediations", "", rbac, "not all at once by mistake"},
		{"edit", "get", remediation, "", rbac, "who looks has nodemend-view besides"},
		{"edit", "create", "nodeactions", p.body(p.actionFor(p.scene.a)), rbac, "only the controller orders"},
		{"edit", "apply", "nodeactions/x", `{"apiVersion":"nodemend.dev/v1alpha1","kind":"NodeAction","metadata":{"name":"x"}}`, rbac, "to apply is to create"},
		{"edit", "merge patch", "nodeactions/" + p.actionA.Name + "/status", `{"status":` + finishedAs(v1alpha1.ReasonSucceeded) + `}`, rbac, "the runner reports"},
		{"edit", "delete", "nodeactions/" + p.actionA.Name, "", rbac, "to stop it, cancel the remediation"},
		{"edit", "merge patch", "remedypolicies/" + p.policy.Name, `{"spec":{"mode":"Enforce"}}`, rbac, "to write policies is to be root on nodes"},
		{"edit", "merge patch", budget, `{"spec":{"maxConcurrent":1000}}`, allowed, "people decide how much happens at once"},
		{"edit", "merge patch", budget + "/status", `{"status":{"groups":{}}}`, rbac, "permits are the controller's to give"},
		{"edit", "delete", budget, "", allowed, "a node without a budget is left alone"},
		{"edit", "merge patch", maintenance, `{"spec":{"nodeName":"` + p.a + `"}}`, invalid + "never change", "the rule of the CRD binds everybody"},
		{"edit", "delete", maintenance, "", allowed, "anybody's: they are the team's"},
		{"edit", "merge patch", maintenance, `{"metadata":{"finalizers":null}}`, allowed, "so a node may stay cordoned: kubectl uncordon"},
		{"edit", "create", "nodemaintenances", `{"apiVersion":"nodemend.dev/v1alpha1","kind":"NodeMaintenance","metadata":{"name":"x"},"spec":{"nodeName":"` + p.b + `","reason":"r","drain":{"force":true,"gracePeriodSeconds":0}}}`, allowed, "to drain any node, by force"},
		{"edit", "create", "nodemaintenances", `{"apiVersion":"nodemend.dev/v1alpha1","kind":"NodeMaintenance","metadata":{"name":"x"},"spec":{"nodeName":"` + p.b + `","reason":"r","drain":{},"power":"Off"}}`, allowed, "to have its machine off: the remote runner does that where remoteRunner.maintenancePower of the chart says so"},
		{"edit", "create", "nodemaintenances", `{"apiVersion":"nodemend.dev/v1alpha1","kind":"NodeMaintenance","metadata":{"name":"x"},"spec":{"nodeName":"` + p.b + `","reason":"r","outOfService":true,"machineOff":{"kind":"PersonsWord","nodeUID":"u","bootID":"b","silentSince":"2026-01-01T00:00:00Z","by":"person-who-may-edit","time":"2026-01-01T00:00:00Z"}}}`, by("words"), "nobody's word that a machine is off is taken, unless controller.personsWord of the chart says so"},
		{"edit", "merge patch", "nodes/" + p.a, `{"spec":{"unschedulable":true}}`, rbac, "by a maintenance only"},
		{"edit", "create", "default:pods/" + p.free + "/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"` + p.free + `"}}`, rbac, "by a maintenance only"},
		{"edit", "list", "kube-system:secrets", "", rbac, "no secrets"},

		{"view", "get", "nodeactions/" + p.actionA.Name, "", allowed, "with the output of the command"},
		{"view", "get", "remedypolicies/" + p.policy.Name, "", allowed, "put no secret into one"},
		{"view", "merge patch", remediation, `{}`, rbac, "to look is not to touch"},
		{"view", "merge patch", remediation, `{"metadata":{"annotations":{"nodemend.dev/approved-step":"9"}}}`, rbac, "to look is not to touch"},
		{"view", "delete", maintenance, "", rbac, "to look is not to touch"},
		{"view", "get", "default:pods/" + p.free, "", allowed, "pods with their environment variables, in all namespaces: put no secret there"},
		{"view", "get", "default:pods/" + p.free + "/log", "", rbac, "logs hold secrets"},
		{"view", "create", "default:pods/" + p.free + "/exec?command=sh", "", rbac, "to look is not to touch"},
		{"view", "get", "nodes/" + p.a + "/proxy/pods", "", rbac, "no kubelet is asked"},
		{"view", "get", "kube-system:leases/x", "", permitted, "when kubelets were last heard of; RBAC can't narrow it to them in a ClusterRole"},
		{"view", "list", "kube-system:secrets", "", rbac, "no secrets"},

		{"anonymous", "get", "nodeactions/" + p.actionA.Name, "", rbac, "without a token nothing can be read"},
		{"anonymous", "update", "nodeactions/" + p.actionA.Name + "/status", p.status(p.actionA, claimedAt(0)), rbac, "nor written"},
		{"anonymous", "create", "remediations", p.body(p.remediationOf(p.scene.a)), rbac, "nor started"},
		{"anonymous", "list", "nodes", "", rbac, "nor listed"},
		{"anonymous", "get", "/version", "", allowed, "Kubernetes shows it"},
		{"anonymous", "get", "/metrics", "", rbac, "Kubernetes does not show it"},
		{"forged runner", "get", "nodes/" + p.a, "", unauthorized, "it is not signed"},
	}
	p.tryAll(t, p.tokens(), rows)
}

// What root on a node can do with the credentials of its kubelet, which has nothing to do with Nodemend.
func TestAbuseOfTheCredentialsOfAKubelet(t *testing.T) {
	p := newProps(t)
	tokens := p.tokens()
	controller, runner := p.podOf("controller", p.b), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "runner-of-" + p.a, Namespace: namespace},
		Spec: corev1.PodSpec{
			NodeName: p.a, ServiceAccountName: "nodemend-runner", Containers: []corev1.Container{{Name: "runner", Image: "nodemend"}},
			// As the API server adds it to every pod. A kubelet gets tokens for such volumes only.
			Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
			}}}},
		},
	}
	p.temporary(runner)
	const accounts = "nodemend-system:serviceaccounts/nodemend-"
	rows := []row{
		{"kubelet", "create", accounts + "runner/token", p.tokenFor(runner), allowed, "so pods get their tokens: root on a node has those of all pods on it"},
		{"kubelet", "create", accounts + "controller/token", p.tokenFor(controller), admission, "the controller's pod is on node B"},
		{"kubelet", "create", accounts + "controller/token", p.tokenFor(runner), admission, "the runner's pod has another account"},
		{"kubelet", "create", accounts + "runner/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":[]}}`, admission, "only bound to a pod"},
		{"kubelet", "get", "nodeactions/" + p.actionA.Name, "", rbac, "a kubelet has no right to our kinds"},
		{"kubelet", "update", "nodeactions/" + p.actionA.Name + "/status", p.status(p.actionA, claimedAt(0)), rbac, "not even of its own node"},
		{"kubelet", "create", "remediations", p.body(p.remediationOf(p.scene.a)), rbac, "a node starts nothing"},
		{"kubelet", "strategic patch", "nodes/" + p.a + "/status", condition(fault, "False"), allowed, "all conditions of its own node, ours too: root there can have its own node healed, or not"},
		{"kubelet", "strategic patch", "nodes/" + p.b + "/status", condition(fault, "False"), admission, "no other node"},
		{"kubelet", "merge patch", "nodes/" + p.a, `{"metadata":{"labels":{"nodemend.dev/exclude":"true"}}}`, allowed, "its own labels: root there chooses which policies and budgets its node has"},
		{"kubelet", "merge patch", "nodes/" + p.a, `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`, admission, "but not those that Kubernetes keeps for itself"},
		{"kubelet", "merge patch", "nodes/" + p.a, `{"metadata":{"annotations":{"nodemend.dev/cordoned-for":"m"}},"spec":{"unschedulable":true}}`, allowed, "and whether it is cordoned"},
		{"kubelet", "merge patch", "nodes/" + p.b, `{"spec":{"unschedulable":true}}`, admission, "no other node"},
		{"kubelet", "delete", "nodes/" + p.b, "", rbac, "no other node"},
		{"kubelet", "get", "nodes/" + p.b + "/proxy/pods", "", rbac, "no other kubelet"},
		{"kubelet", "create", "default:pods/" + p.free + "/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"` + p.free + `"}}`, admission, "the pod is on node B"},
		{"kubelet", "delete", "default:pods/" + p.free, "", admission, "the pod is on node B"},
		{"kubelet", "get", "nodemend-system:secrets/x", "", admission, "no pod on the node uses it"},
	}
	kubelet := &rows[0] // the API server learns a moment later which pods a node has
	client := httpClient(t, tokens["kubelet"])
	p.until(func() bool { status, _ := p.request(t, client, kubelet); return status < 300 })
	p.tryAll(t, tokens, rows)
}

// Nobody acts as somebody else.
func TestNoTokenImpersonates(t *testing.T) {
	p := newProps(t)
	request := row{verb: "get", on: "nodes/" + p.b, want: admission + "cannot impersonate", why: "no role has the verb impersonate"}
	tokens := p.tokens()
	tokens["remote runner"] = p.remoteRunner()
	for who, cfg := range tokens {
		if cfg.Impersonate.UserName != "" || who == "forged runner" {
			continue // the test plays them by impersonation; nobody knows that one
		}
		for _, as := range []rest.ImpersonationConfig{
			{UserName: "system:serviceaccount:" + namespace + ":nodemend-controller"}, {UserName: "admin", Groups: []string{"system:masters"}}, {UserName: "system:node:" + p.b},
		} {
			cfg := rest.CopyConfig(cfg)
			cfg.Impersonate = as
			request.who = who + " as " + as.UserName
			t.Run(request.who, func(t *testing.T) { p.try(t, httpClient(t, cfg), &request) })
		}
	}
}
