//go:build integration

package deploy_test

import (
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestARunnerReportsOnTheActionsOfItsNode(t *testing.T) {
	s := newScene(t)
	runner := s.client(s.account("runner", s.a))

	own := client.MatchingFields{"spec.nodeName": s.a.Name}
	watch, err := runner.Watch(s.ctx, &v1alpha1.NodeActionList{}, own)
	s.must(err)
	watch.Stop()
	var actions v1alpha1.NodeActionList
	s.must(runner.List(s.ctx, &actions, own))
	if len(actions.Items) != 1 {
		t.Fatalf("listed %d actions, want one", len(actions.Items))
	}
	action := &actions.Items[0]
	s.must(runner.Get(s.ctx, key(s.policy), &v1alpha1.RemedyPolicy{}))
	s.must(runner.Get(s.ctx, key(s.a), &corev1.Node{}))
	s.must(client.IgnoreNotFound(runner.Get(s.ctx, types.NamespacedName{Name: v1alpha1.ClusterPauseBudget}, &v1alpha1.RemediationBudget{})))
	s.must(claim(s.ctx, runner, action))
	s.must(finish(s.ctx, runner, action))

	event := eventAbout("Node", s.a.Name)
	s.must(runner.Create(s.ctx, event))
	s.must(runner.Patch(s.ctx, event, client.RawPatch(types.StrategicMergePatchType, []byte(`{"count":2}`))))
}

func TestARunnerWritesNothingOfAnotherNode(t *testing.T) {
	s := newScene(t)
	runner := s.client(s.account("runner", s.a))
	foreign := eventAbout("Node", s.b.Name)
	s.must(s.admin.Create(s.ctx, foreign))
	spoofed := s.actionB.DeepCopy()
	spoofed.Spec.NodeName = s.a.Name
	claimed := s.newAction(s.b)
	s.must(claim(s.ctx, s.admin, claimed))
	refusal := "the runner of node " + s.a.Name + " may not report on NodeAction "

	s.refused([]attempt{
		{"claim", refusal + s.actionB.Name + ": it is for node " + s.b.Name, func() error { return claim(s.ctx, runner, s.actionB.DeepCopy()) }},
		{"claim under a false name", refusal + s.actionB.Name + ": it is for node " + s.b.Name, func() error { return claim(s.ctx, runner, spoofed) }},
		{"finish what is claimed", refusal + claimed.Name + ": it is for node " + s.b.Name, func() error { return finish(s.ctx, runner, claimed.DeepCopy()) }},
		{"event", "nodemend-runner on node " + s.a.Name + " may write events about this node only, not about Node " + s.b.Name, func() error {
			return runner.Create(s.ctx, eventAbout("Node", s.b.Name))
		}},
		{"event about a pod", "may write events about this node only, not about Pod " + s.a.Name, func() error {
			return runner.Create(s.ctx, eventAbout("Pod", s.a.Name))
		}},
		{"change of an event", "not about Node " + s.b.Name + " and Node " + s.b.Name, func() error {
			return runner.Patch(s.ctx, foreign.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"message":"all is well"}`)))
		}},
		{"theft of an event", "not about Node " + s.a.Name + " and Node " + s.b.Name, func() error {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"involvedObject":{"name":"`+s.a.Name+`"}}`))
			return runner.Patch(s.ctx, foreign.DeepCopy(), patch)
		}},
	})
}

func TestARunnerHasNoOtherRights(t *testing.T) {
	s := newScene(t)
	runner := s.client(s.account("runner", s.a))
	merge := func(obj client.Object, patch string) func() error {
		return func() error { return runner.Patch(s.ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch))) }
	}
	attempts := []attempt{
		{"patch the status of its action", `cannot patch resource "nodeactions/status"`, func() error { return patchAction(s.ctx, runner, s.actionA, `{}`) }},
		{"create an action", `cannot create resource "nodeactions"`, func() error { return runner.Create(s.ctx, s.actionFor(s.a)) }},
		{"delete an action", `cannot delete resource "nodeactions"`, func() error { return runner.Delete(s.ctx, s.actionA.DeepCopy()) }},
		{"label an action", `cannot patch resource "nodeactions"`, merge(s.actionA.DeepCopy(), `{"metadata":{"labels":{"a":"b"}}}`)},
		{"update an action", `cannot update resource "nodeactions"`, func() error { return runner.Update(s.ctx, s.actionA.DeepCopy()) }},
		{"create a policy", `cannot create resource "remedypolicies"`, func() error {
			policy := s.policy.DeepCopy()
			policy.ObjectMeta = metav1.ObjectMeta{Name: "mine"}
			return runner.Create(s.ctx, policy)
		}},
		{"patch a policy", `cannot patch resource "remedypolicies"`, merge(s.policy.DeepCopy(), `{"spec":{"steps":[]}}`)},
		{"list policies", `cannot list resource "remedypolicies"`, func() error { return runner.List(s.ctx, &v1alpha1.RemedyPolicyList{}) }},
		{"read another budget", `cannot get resource "remediationbudgets"`, func() error {
			return runner.Get(s.ctx, types.NamespacedName{Name: "all-nodes"}, &v1alpha1.RemediationBudget{})
		}},
		{"list budgets", `cannot list resource "remediationbudgets"`, func() error { return runner.List(s.ctx, &v1alpha1.RemediationBudgetList{}) }},
		{"end the pause", `cannot delete resource "remediationbudgets"`, func() error {
			return runner.Delete(s.ctx, &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterPauseBudget}})
		}},
		{"create a remediation", `cannot create resource "remediations"`, func() error {
			return runner.Create(s.ctx, &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})
		}},
		{"list nodes", `cannot list resource "nodes"`, func() error { return runner.List(s.ctx, &corev1.NodeList{}) }},
		{"read a secret", `cannot get resource "secrets"`, func() error { return runner.Get(s.ctx, key(secret("any")), &corev1.Secret{}) }},
		{"list secrets", `cannot list resource "secrets"`, func() error { return runner.List(s.ctx, &corev1.SecretList{}, client.InNamespace(namespace)) }},
		{"list pods", `cannot list resource "pods"`, func() error { return runner.List(s.ctx, &corev1.PodList{}) }},
		{"make a token", `cannot create resource "serviceaccounts/token"`, func() error {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nodemend-controller", Namespace: namespace}}
			return runner.SubResource("token").Create(s.ctx, account, &authenticationv1.TokenRequest{})
		}},
		{"event in another namespace", `cannot create resource "events"`, func() error {
			event := eventAbout("Node", s.a.Name)
			event.Namespace = namespace
			return runner.Create(s.ctx, event)
		}},
	}
	for _, node := range []string{s.a.Name, s.b.Name} {
		attempts = append(attempts,
			attempt{"label " + node, `cannot patch resource "nodes"`, merge(named(node), `{"metadata":{"labels":{"a":"b"}}}`)},
			attempt{"taint " + node, `cannot patch resource "nodes"`, merge(named(node), `{"spec":{"taints":[]}}`)},
			attempt{"cordon " + node, `cannot patch resource "nodes"`, merge(named(node), `{"spec":{"unschedulable":true}}`)},
			attempt{"delete " + node, `cannot delete resource "nodes"`, func() error { return runner.Delete(s.ctx, named(node)) }},
			attempt{"condition of " + node, `cannot patch resource "nodes/status"`, func() error {
				return patchStatus(s.ctx, runner, node, condition(fault, "False"))
			}},
		)
	}
	s.refused(attempts)
}

func TestAnActionsLabelsAreNotPartOfItsStatus(t *testing.T) {
	s := newScene(t)
	runner := s.client(s.account("runner", s.a))
	action := s.actionA.DeepCopy()
	action.Labels = map[string]string{"a": "b"}
	action.Annotations = map[string]string{"a": "b"}
	action.Finalizers = []string{"example.com/stuck"}
	action.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: s.a.Name, UID: s.a.UID}}
	action.Spec.ExpiresAt = metav1.NewTime(time.Now().Add(24 * time.Hour))
	s.must(claim(s.ctx, runner, action))

	got := &v1alpha1.NodeAction{}
	s.must(s.admin.Get(s.ctx, key(s.actionA), got))
	if got.Status.Claim == nil {
		t.Error("the status was not written")
	}
	if len(got.Labels)+len(got.Annotations)+len(got.Finalizers)+len(got.OwnerReferences) > 0 {
		t.Errorf("the metadata was written with the status: %+v", got.ObjectMeta)
	}
	if !got.Spec.ExpiresAt.Equal(&s.actionA.Spec.ExpiresAt) {
		t.Error("the spec was written with the status")
	}
}

func TestATokenThatIsNotBoundToAPodIsRefused(t *testing.T) {
	s := newScene(t)
	toNode := &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: s.a.Name, UID: s.a.UID}
	for kind, to := range map[string]*authenticationv1.BoundObjectReference{"unbound": nil, "bound to the node": toNode} {
		runner, detector := s.client(s.bound("runner", to)), s.client(s.bound("detector", to))
		const unbound = "that is not bound to a pod on a node may not "
		s.refused([]attempt{
			{kind + ", claim", "a token of nodemend-runner " + unbound + "report on any NodeAction", func() error {
				return claim(s.ctx, runner, s.actionA.DeepCopy())
			}},
			{kind + ", condition", "a token of nodemend-detector " + unbound + "write any node's status", func() error {
				return patchStatus(s.ctx, detector, s.a.Name, condition(fault, "False"))
			}},
			{kind + ", event of the runner", unbound + "write events", func() error { return runner.Create(s.ctx, eventAbout("Node", s.a.Name)) }},
			{kind + ", event of the detector", unbound + "write events", func() error { return detector.Create(s.ctx, eventAbout("Node", s.a.Name)) }},
			{kind + ", event about no node", unbound + "write events", func() error { return detector.Create(s.ctx, eventAbout("Node", "")) }},
		})
	}
}
