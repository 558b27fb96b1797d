//go:build integration

package deploy_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Who has root on node A has this token.
func TestAbuseOfTheTokenOfARunner(t *testing.T) {
	p := newProps(t)
	own, claimed, done := "nodeactions/"+p.actionA.Name+"/status", "nodeactions/"+p.claimed.Name+"/status", "nodeactions/"+p.done.Name+"/status"
	foreign := "nodeactions/" + p.actionB.Name + "/status"
	long := strings.Repeat("x", 1<<18)
	const events = "default:events"
	rows := []row{
		{"runner", "update", own, p.status(p.actionA, claimedAt(0)), allowed, "this is how an action begins"},
		{"runner", "update", foreign, p.status(p.actionB, claimedAt(0)), by("runner"), "the token names node A, the action node B"},
		{"runner of b", "update", own, p.status(p.actionA, claimedAt(0)), by("runner"), "the other way round"},
		{"runner of b", "update", foreign, p.status(p.actionB, claimedAt(0)), allowed, "each for its own node"},
		{"unbound runner", "update", own, p.status(p.actionA, claimedAt(0)), by("runner"), "a token of no pod does not say on which node it is used"},
		{"forged runner", "update", own, p.status(p.actionA, claimedAt(0)), unauthorized, "it is not signed"},
		{"detector", "update", own, p.status(p.actionA, claimedAt(0)), rbac, "the detector's account executes nothing"},
		{"runner", "update", own, p.status(p.actionA, claimedAt(24*time.Hour)), by("runner"), "the controller waits for a claimed action, with its permit: the claim would keep all nodes of the budget from being healed"},
		{"runner", "update", own, p.status(p.actionA, claimedAt(time.Hour+5*time.Minute)), by("runner"), "nothing is claimed after expiresAt"},
		{"runner", "update", own, p.status(p.actionA, claimedAt(-time.Hour)), allowed, "a node's clock may be slow, and the deadline is not before expiresAt"},

		{"runner", "update", claimed, p.status(p.claimed, result("ok"), ended(v1alpha1.ReasonSucceeded)), allowed, "this is how an action ends"},
		{"runner", "update", claimed, p.status(p.claimed, ended(v1alpha1.ReasonInterrupted)), allowed, "a runner that has lost its ledger says so"},
		{"runner", "update", claimed, p.status(p.claimed, claimedAt(time.Minute)), invalid + "a claim never changes", "the rule of the CRD binds everybody"},
		{"runner", "update", claimed, p.status(p.claimed, func(a *v1alpha1.NodeAction) { a.Status.Claim = nil }), invalid + "a claim never changes", "else it would be executed again"},
		{"runner", "update", claimed, p.status(p.claimed, result(long)), invalid + "Too long", "what is reported is bounded"},
		{"runner", "update", claimed, p.status(p.claimed, ended(v1alpha1.ReasonNotBack)), by("runner"), "that a node did not come back only others can say"},
		{"runner", "update", claimed, p.status(p.claimed, ended(v1alpha1.ReasonLost)), by("runner"), "that an action is gone only others can say"},
		{"runner", "update", done, p.status(p.done, ended(v1alpha1.ReasonFailed)), invalid + "a finished action never changes", "the rule of the CRD binds everybody"},
		{"runner", "update", done, p.status(p.done, func(a *v1alpha1.NodeAction) { a.Status = v1alpha1.NodeActionStatus{} }), invalid + "a claim never changes", "else it would be executed again"},
		{"runner", "update", own, p.status(p.actionA, claimedAt(0), result("ok"), ended(v1alpha1.ReasonSucceeded)), by("runner"), "the claim is written before the first side effect, not with the result"},
		{"runner", "update", own, p.status(p.actionA, result("ok")), by("runner"), "no result without a claim"},
	}
	rebooted, cut, told := "nodeactions/"+p.rebooted.Name+"/status", "nodeactions/"+p.cut.Name+"/status", "nodeactions/"+p.told.Name+"/status"
	rows = append(rows, []row{
		{"runner", "update", rebooted, p.status(p.rebooted, left("the end")), allowed, "what the boot before has left only the node knows"},
		{"runner", "update", cut, p.status(p.cut, left("the end")), allowed, "also where the remote runner has ended it"},
		{"runner of b", "update", rebooted, p.status(p.rebooted, left("the end")), by("runner"), "each for its own node"},
		{"runner of b", "update", cut, p.status(p.cut, left("the end")), by("runner"), "each for its own node"},
		{"unbound runner", "update", cut, p.status(p.cut, left("the end")), by("runner"), "a token of no pod does not say on which node it is used"},
		{"detector", "update", cut, p.status(p.cut, left("the end")), rbac, "the runner collects it"},
		{"runner", "update", cut, p.status(p.cut, left("the end"), in("Cutting")), invalid + "a finished action never changes", "nothing else is added with it"},
		{"runner", "update", cut, p.status(p.cut, left("the end"), func(a *v1alpha1.NodeAction) { a.Status.Power = nil }), invalid + "a finished action never changes", "nothing is taken away with it"},
		{"runner", "update", cut, p.status(p.cut, left("the end"), ended(v1alpha1.ReasonFailed)), invalid + "a finished action never changes", "how it ended stays"},
		{"runner", "update", rebooted, p.status(p.rebooted, left("the end"), result("another one")), invalid + "a finished action never changes", "the result stays"},
		{"runner", "update", rebooted, p.status(p.rebooted, left(long)), invalid + "Too long", "what is reported is bounded"},
		{"runner", "update", rebooted, p.status(p.rebooted, left("the end"), func(a *v1alpha1.NodeAction) { a.Status.Aftermath.BootID = "b" }), invalid + "an aftermath is that of", "the boot that has ended can't tell of its end"},
		{"runner", "update", done, p.status(p.done, left("the end")), invalid + "an aftermath is that of", "a command has ended no boot"},
		{"runner", "update", claimed, p.status(p.claimed, left("the end")), invalid + "an aftermath is that of", "nor has what runs"},
		{"runner", "update", told, p.status(p.told, left("another end")), invalid + "an aftermath never changes", "it is written once"},
		{"runner", "update", told, p.status(p.told, func(a *v1alpha1.NodeAction) { a.Status.Aftermath = nil }), invalid + "an aftermath never changes", "and not taken back"},
	}...)
	for _, why := range []string{v1alpha1.ReasonSucceeded, v1alpha1.ReasonFailed, v1alpha1.ReasonTimedOut, v1alpha1.ReasonRebootNotObserved, v1alpha1.ReasonNotBack, v1alpha1.ReasonLost} {
		rows = append(rows, row{"runner", "update", own, p.status(p.actionA, ended(why)), by("runner"), "nothing is executed without a claim: " + why + " would let the next step begin, or wait for nothing"})
	}
	for _, why := range []string{
		v1alpha1.ReasonRefused, v1alpha1.ReasonSuperseded, v1alpha1.ReasonNotNeeded, v1alpha1.ReasonUnsupported, v1alpha1.ReasonUnitNotFound, v1alpha1.ReasonUnitMasked,
		v1alpha1.ReasonStartFailed, v1alpha1.ReasonExpired, v1alpha1.ReasonDryRun, v1alpha1.ReasonCancelled, v1alpha1.ReasonInterrupted,
	} {
		rows = append(rows, row{"runner", "update", own, p.status(p.actionA, ended(why)), allowed, "so a runner ends what it has not claimed, and no attempt is counted"})
	}
	rows = append(rows, []row{
		{"runner", "json patch", own, `[{"op":"add","path":"/status","value":{}}]`, rbac, "a patch can't prove which version it was made from; the runner updates"},
		{"runner", "merge patch", own, `{"status":{"claim":null}}`, rbac, "as above"},
		{"runner", "apply", own, `{"apiVersion":"nodemend.dev/v1alpha1","kind":"NodeAction","metadata":{"name":"x"},"status":{}}`, rbac, "as above"},
		{"runner", "strategic patch", "nodeactions/" + p.actionA.Name, `{"metadata":{"finalizers":["a/b"]}}`, rbac, "no finalizer keeps an action for ever"},
		{"runner", "update", "nodeactions/" + p.actionA.Name, p.status(p.actionA), rbac, "not even as it is"},
		{"runner", "delete", "nodeactions/" + p.actionA.Name, "", rbac, "an order can't be made undone"},
		{"runner", "create", "nodeactions", p.body(p.actionFor(p.scene.a)), rbac, "a runner does not order"},
		{"runner", "get", "nodeactions/" + p.actionB.Name, "", allowed, "RBAC can't narrow what is read: the output of commands of other nodes can be read"},
		{"runner", "list", "nodeactions", "", allowed, "as above"},
		{"runner", "watch", "nodeactions?fieldSelector=spec.nodeName%3D" + p.b, "", allowed, "as above"},
		{"runner", "get", "remedypolicies/" + p.policy.Name, "", allowed, "policies can be read by every runner: put no secret into one"},
		{"runner", "list", "remedypolicies", "", rbac, "only by name, which an action says"},
		{"runner", "get", "remediations/" + p.remediation.Name, "", allowed, "as policies"},
		{"runner", "merge patch", "remediations/" + p.remediation.Name, `{"metadata":{"annotations":{"nodemend.dev/approved-step":"9"}}}`, rbac, "a node does not approve what is done to it"},
		{"runner", "merge patch", "remediations/" + p.remediation.Name + "/status", `{"status":{"action":"x"}}`, rbac, "a node does not announce actions"},
		{"runner", "get", "nodes/" + p.b, "", allowed, "RBAC can't narrow what is read"},
		{"runner", "merge patch", "nodes/" + p.a, `{"spec":{"unschedulable":false}}`, rbac, "a node does not give itself back, with this token"},
		{"runner", "delete", "nodes/" + p.b, "", rbac, "not even its own"},
		{"runner", "strategic patch", "nodes/" + p.a + "/status", condition(fault, "False"), rbac, "the detector's token is for that"},

		{"runner", "create", events, p.event(p.a), allowed, "every claim and every result is told"},
		{"runner", "create", events, p.event(p.b), by("events"), "about the own node only"},
		{"runner", "create", events, p.event(p.a, func(e *corev1.Event) { e.InvolvedObject.UID = p.scene.a.UID }), allowed, "the UID of the own node"},
		{"runner", "create", events, p.event(p.a, func(e *corev1.Event) { e.InvolvedObject.UID = "b" }), by("events"), "who looks for events by UID would find it at another object"},
		{"runner", "create", events, p.event(p.a, func(e *corev1.Event) { e.InvolvedObject.UID = p.scene.b.UID }), by("events"), "who looks for events by UID would find it at node B"},
		{"runner", "create", events, p.event(p.a, func(e *corev1.Event) { e.InvolvedObject.APIVersion = "example.com/v1" }), by("events"), "a Node of another API is another object"},
		{"runner", "create", events, p.event(p.a, func(e *corev1.Event) { e.Message = long }), by("events"), "1 MiB with each event would fill etcd"},
		{"runner", "create", events, p.event(p.a, func(e *corev1.Event) { e.Reason = long }), by("events"), "as the message"},
		{"runner", "create", events, p.event(p.a, func(e *corev1.Event) { e.InvolvedObject.FieldPath = long }), by("events"), "as the message"},
		{"runner", "create", events, p.event(p.a, func(e *corev1.Event) { e.Annotations = map[string]string{"a": long[:1<<17]} }), by("events"), "as the message"},
		{"runner", "create", events, p.event(p.a, func(e *corev1.Event) { e.Finalizers = []string{"example.com/a"} }), by("events"), "our events have nothing of the kind"},
		{"runner", "create", events, p.event(p.a, func(e *corev1.Event) {
			e.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: p.b, UID: p.scene.b.UID}}
		}), by("events"), "our events have nothing of the kind"},
		{"runner", "create", events, p.event(p.a, func(e *corev1.Event) { e.Source.Component = "nodemend-detector" }), by("events"), "each role in its own name"},
		{"runner", "create", events, p.event(p.a, func(e *corev1.Event) { e.Source.Component = "node-problem-detector" }), by("events"), "a runner has one name only"},
		{"runner", "create", "default:new events", newEvent(p.a), rbac, "the new API has no policy of ours, and no right is given"},
		{"runner", "create", "kube-system:events", p.event(p.a, func(e *corev1.Event) { e.Namespace = "kube-system" }), rbac, "only where events about nodes are"},
		{"runner", "strategic patch", events + "/" + p.others, `{"count":99}`, by("events"), "an event about node B"},
		{"runner", "merge patch", events + "/" + p.others, `{"involvedObject":{"name":"` + p.a + `"}}`, by("events"), "an event about node B, taken away"},
		{"runner", "merge patch", events + "/" + p.kubelets, `{"message":"all is well"}`, by("events"), "the kubelet's words"},
		{"runner", "merge patch", events + "/" + p.kubelets, `{"message":"all is well","source":{"component":"nodemend-runner"}}`, by("events"), "the kubelet's words, taken over"},
		{"runner", "json patch", events + "/" + p.kubelets, `[{"op":"replace","path":"/source","value":{}}]`, by("events"), "the kubelet's name, taken away"},
		{"runner", "merge patch", events + "/" + p.agents, `{"source":{"component":"nodemend-runner"}}`, by("events"), "the detector's words, taken over"},
		{"runner", "apply", events + "/" + p.a + ".1", `{"apiVersion":"v1","kind":"Event","metadata":{"name":"` + p.a + `.1","namespace":"default"},"involvedObject":{"kind":"Node","name":"` + p.b + `"}}`, by("events"), "to apply is to create"},
		{"runner", "delete", events + "/" + p.kubelets, "", rbac, "what was told stays told"},
		{"runner", "deletecollection", events, "", rbac, "as above"},
		{"runner", "list", events, "", rbac, "nothing of ours needs it"},
		{"unbound runner", "create", events, p.event(p.a), by("events"), "a token of no pod does not say on which node it is used"},

		{"runner", "create", "nodemend-system:serviceaccounts/nodemend-controller/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":[]}}`, rbac, "no role makes itself another one"},
		{"runner", "create", "nodemend-system:pods/none/exec?command=sh", "", rbac, "the controller's pod is out of reach"},
		{"runner", "get", "nodes/" + p.b + "/proxy/runningpods", "", rbac, "another node's kubelet is out of reach, through the API server too"},
		{"runner", "get", "nodes/" + p.a + "/proxy/metrics", "", rbac, "so is the own one, with this token"},
		{"runner", "create", "default:pods", p.body(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}), rbac, "a pod may be anything, on any node"},
		{"runner", "create", "selfsubjectaccessreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}`, allowed, "everybody may ask what he may do"},
		{"runner", "create", "selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, allowed, "everybody may ask who he is"},
		{"runner", "create", "subjectaccessreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview"}`, rbac, "nobody asks what others may do"},
		{"runner", "create", "tokenreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview"}`, rbac, "no way to try tokens"},
		{"runner", "get", "/version", "", allowed, "everybody may"},
		{"runner", "get", "/api", "", allowed, "which kinds there are is no secret"},
		{"runner", "get", "/metrics", "", rbac, "the API server's metrics tell of everybody"},
		{"runner", "get", "/debug/pprof/heap", "", rbac, "nor its memory"},
		{"runner", "get", "/logs/", "", rbac, "nor its logs"},
	}...)
	p.tryAll(t, p.tokens(), rows)
}
