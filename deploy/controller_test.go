//go:build integration

package deploy_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller"
	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner"
)

func TestTheRolesTakeAnIncidentWithTheRightsTheyHave(t *testing.T) {
	s := newScene(t)
	budget := &v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: s.policy.Name},
		Spec:       v1alpha1.RemediationBudgetSpec{NodeSelector: s.policy.Spec.NodeSelector},
	}
	s.must(s.admin.Create(s.ctx, budget))
	s.must(s.admin.Delete(s.ctx, s.actionA)) // one at a time
	s.detect(s.account("detector", s.a), s.a)
	s.lead(s.account("controller", s.b))

	s.execute(s.account("runner", s.a), s.a)

	actions, remediation := &v1alpha1.NodeActionList{}, &v1alpha1.Remediation{}
	s.eventually("there is an action", func(ctx context.Context) (bool, error) {
		err := s.admin.List(ctx, actions, client.MatchingFields{"spec.nodeName": s.a.Name})
		return len(actions.Items) == 1, err
	})
	action := &actions.Items[0]
	s.eventually("the remediation has seen the result", func(ctx context.Context) (bool, error) {
		err := s.admin.Get(ctx, types.NamespacedName{Name: action.Spec.Remediation}, remediation)
		history := remediation.Status.History
		return len(history) == 1 && history[0].Outcome == v1alpha1.ReasonDryRun, err
	})

	s.eventually("the policy says that it can act", func(ctx context.Context) (bool, error) {
		p := &v1alpha1.RemedyPolicy{}
		err := s.admin.Get(ctx, key(s.policy), p)
		last := p.Status.LastRemediation
		return meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.RemedyPolicyReady) && p.Status.ObservedGeneration == p.Generation &&
			ptr.Deref(p.Status.OpenRemediations, 0) == 1 && last != nil && last.Name == remediation.Name, err
	})

	// A deleted remediation leads to deleted actions and to a returned permit.
	s.must(s.admin.Delete(s.ctx, s.policy))
	s.must(s.admin.Delete(s.ctx, remediation))
	s.eventually("the action is deleted and the permit returned", func(ctx context.Context) (bool, error) {
		err := s.admin.Get(ctx, key(action), &v1alpha1.NodeAction{})
		if client.IgnoreNotFound(err) != nil {
			return false, err
		}
		return err != nil && s.admin.Get(ctx, key(budget), budget) == nil && len(budget.Status.Groups[v1alpha1.UngroupedNodes].Permits) == 0, nil
	})
	s.eventually("the remediation is gone, and its tombstone is there", func(ctx context.Context) (bool, error) {
		err := s.admin.Get(ctx, key(remediation), &v1alpha1.Remediation{})
		if client.IgnoreNotFound(err) != nil {
			return false, err
		}
		return err != nil && s.admin.Get(ctx, types.NamespacedName{Name: remediation.Name + "-deleted"}, &v1alpha1.Remediation{}) == nil, nil
	})
	events := &corev1.EventList{}
	s.eventually("the controller writes events on the node", func(ctx context.Context) (bool, error) {
		err := s.admin.List(ctx, events, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"involvedObject.name": s.a.Name, "reportingComponent": "nodemend-controller"})
		return len(events.Items) > 0, err
	})
	s.eventually("the runner writes an event", func(ctx context.Context) (bool, error) {
		err := s.admin.List(ctx, events, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"involvedObject.name": s.a.Name, "source": "nodemend-runner"})
		return len(events.Items) > 0, err
	})
	s.eventually("the leader election writes an event", func(ctx context.Context) (bool, error) {
		err := s.admin.List(ctx, events, client.InNamespace(namespace), client.MatchingFields{"involvedObject.kind": "Lease"})
		return len(events.Items) > 0, err
	})
}

func TestTheControllerCancelsWhatNobodyHasClaimed(t *testing.T) {
	s := newScene(t)
	leader := s.client(s.account("controller", s.b))
	s.must(patchAction(s.ctx, leader, s.actionA, finishedAs(v1alpha1.ReasonCancelled)))
	s.must(patchAction(s.ctx, leader, s.actionB, finishedAs(v1alpha1.ReasonExpired)))
	s.must(leader.Delete(s.ctx, s.actionA))
	s.must(leader.Create(s.ctx, s.actionFor(s.a)))
}

// What is for another program the controller claims and ends itself; of a runner's actions it does neither.
func TestTheControllerReportsForOtherProgramsAlone(t *testing.T) {
	s := newScene(t)
	leader := s.client(s.account("controller", s.b))
	external := s.actionFor(s.a)
	external.Spec.Executor = v1alpha1.ExecutorExternal
	s.must(s.admin.Create(s.ctx, external))
	const (
		claims  = `{"claim":{"runnerID":"the controller","bootID":"","time":"2026-01-01T00:00:00Z","remedy":"external"}}`
		follows = `{"claim":{"runnerID":"the controller","bootID":"","time":"2026-01-01T00:00:00Z","remedy":"external"},"external":{"object":{"apiVersion":"example.com/v1","kind":"Example","name":"a"}}}`
	)
	s.must(patchAction(s.ctx, leader, external, follows))
	s.must(patchAction(s.ctx, leader, external, finishedAs(v1alpha1.ReasonSucceeded)))
	for what, change := range map[string]string{"claims": claims, "follows": follows, "ends": finishedAs(v1alpha1.ReasonSucceeded)} {
		if err := patchAction(s.ctx, leader, s.actionB, change); !apierrors.IsForbidden(err) {
			t.Errorf("it %s an action of a runner: %v", what, err)
		}
	}
}

func TestTheControllerTakesOnlyItsFinalizerFromAnActionThatIsOver(t *testing.T) {
	s := newScene(t)
	leader := s.client(s.account("controller", s.b))
	for executor, finalizer := range map[v1alpha1.Executor]string{
		v1alpha1.ExecutorRemote: v1alpha1.PowerFinalizer, v1alpha1.ExecutorExternal: v1alpha1.ExternalFinalizer,
	} {
		s.takesOnlyItsFinalizer(leader, executor, finalizer)
	}
}

func (s *scene) takesOnlyItsFinalizer(leader client.Client, executor v1alpha1.Executor, finalizer string) {
	action := s.actionFor(s.a)
	action.Spec.Executor, action.Finalizers = executor, []string{finalizer}
	s.must(leader.Create(s.ctx, action))
	merge := func(patch string) func() error {
		return func() error {
			return leader.Patch(s.ctx, action.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
		}
	}
	const only = "the controller may only remove its finalizer from NodeAction "
	s.refused([]attempt{{"the finalizer of one that is under way", only + action.Name + ", once it has finished or is being deleted", merge(`{"metadata":{"finalizers":null}}`)}})
	s.must(leader.Delete(s.ctx, action.DeepCopy()))
	s.refused([]attempt{{"a label", only, merge(`{"metadata":{"labels":{"a":"b"},"finalizers":null}}`)}})
	s.must(merge(`{"metadata":{"finalizers":null}}`)())
}

// The controller holds what is asked for, and neither asks nor speaks for who does.
func TestTheControllerWritesOnlyItsFinalizerAndTheStatusOfWhatIsAskedFor(t *testing.T) {
	s := newScene(t)
	leader := s.client(s.account("controller", s.b))
	asked := &v1alpha1.NodemendRemediation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.a.Name, Annotations: map[string]string{v1alpha1.TimedOutAnnotation: "now"}},
		Spec:       v1alpha1.NodemendRemediationSpec{Policy: s.policy.Name},
	}
	s.must(s.admin.Create(s.ctx, asked))
	merge := func(patch string) func() error {
		return func() error {
			return leader.Patch(s.ctx, asked.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
		}
	}
	const only = "the controller may only add and remove its finalizer of NodemendRemediation "
	another := asked.DeepCopy()
	another.ResourceVersion, another.Name = "", "another"
	s.refused([]attempt{
		{"that its driver has told to stop", only + asked.Name, merge(`{"metadata":{"annotations":null}}`)},
		{"another owner", only, merge(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"x","uid":"x"}]}}`)},
		{"another finalizer", only, merge(`{"metadata":{"finalizers":["a/b"]}}`)},
		{"a request", "cannot create resource", func() error { return leader.Create(s.ctx, another) }},
		{"its end", "cannot delete resource", func() error { return leader.Delete(s.ctx, asked.DeepCopy()) }},
	})
	s.must(merge(`{"metadata":{"finalizers":["` + v1alpha1.RequestFinalizer + `"]}}`)())
	s.must(leader.Status().Patch(s.ctx, asked.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"nodeName":"x"}}`))))
	s.must(s.admin.Delete(s.ctx, asked.DeepCopy()))
	s.must(merge(`{"metadata":{"finalizers":null}}`)())
}

func TestTheControllerReadsTheHeartbeatsOfKubelets(t *testing.T) {
	s := newScene(t)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: s.a.Name, Namespace: corev1.NamespaceNodeLease}}
	s.must(client.IgnoreAlreadyExists(s.admin.Create(s.ctx, lease)))
	s.must(s.client(s.account("controller", s.b)).Get(s.ctx, key(lease), lease))
}

func TestTheControllerNeitherActsNorWritesPolicies(t *testing.T) {
	s := newScene(t)
	leader := s.client(s.account("controller", s.b))
	claimed, started, reported := s.newAction(s.a), s.newAction(s.a), s.newAction(s.a)
	s.must(claim(s.ctx, s.admin, claimed))
	s.must(patchAction(s.ctx, s.admin, started, `{"conditions":[{"type":"Started","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`))
	status := func(action *v1alpha1.NodeAction, status string) func() error {
		return func() error { return patchAction(s.ctx, leader, action, status) }
	}
	patch := func(obj client.Object, patch string) func() error {
		return func() error {
			return leader.Patch(s.ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch)))
		}
	}
	only := "the controller may only cancel NodeAction " + s.actionA.Name
	const aClaim = `"claim":{"runnerID":"a","bootID":"b","time":"2026-01-01T00:00:00Z","remedy":"command"}`
	const aResult = `"result":{"startedAt":"2026-01-01T00:00:00.000000Z","finishedAt":"2026-01-01T00:00:00.000000Z"}`
	s.must(patchAction(s.ctx, s.admin, reported, `{`+aResult+`}`))
	s.refused([]attempt{
		{"claim", only + ", not write its status.claim: only the runner may", status(s.actionA, `{`+aClaim+`}`)},
		{"claim and cancel", only + ", not write its status.claim", status(s.actionA, `{`+aClaim+`,`+finishedAs(v1alpha1.ReasonCancelled)[1:])},
		{"result", only + ", not write its status.result", status(s.actionA, `{`+aResult+`,`+finishedAs(v1alpha1.ReasonCancelled)[1:])},
		{"drop a result", "the controller may only cancel NodeAction " + reported.Name + ", not write its status.result", status(reported, `{"result":null,`+finishedAs(v1alpha1.ReasonCancelled)[1:])},
		{"not finished", only + ": set its condition Finished to True", status(s.actionA, strings.Replace(finishedAs(v1alpha1.ReasonCancelled), "True", "False", 1))},
		{"success", only + ": set its condition Finished to True with reason Cancelled or Expired", status(s.actionA, finishedAs(v1alpha1.ReasonSucceeded))},
		{"failure", only + ": set its condition Finished", status(s.actionA, finishedAs(v1alpha1.ReasonFailed))},
		{"another condition", only + ": set its condition Finished", status(s.actionA,
			`{"conditions":[{"type":"Started","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`)},
		{"cancel and drop a condition", "the controller may only cancel NodeAction " + started.Name + ": set its condition Finished", status(started, finishedAs(v1alpha1.ReasonCancelled))},
		{"cancel a claimed one", "the controller may not cancel NodeAction " + claimed.Name + ": the runner of node " + s.a.Name + " has claimed it", status(claimed, finishedAs(v1alpha1.ReasonCancelled))},
		{"update the status", `cannot update resource "nodeactions/status"`, func() error { return claim(s.ctx, leader, s.actionA.DeepCopy()) }},
		{"label an action", "the controller may only remove its finalizer from NodeAction", patch(s.actionA.DeepCopy(), `{"metadata":{"labels":{"a":"b"}}}`)},
		{"create a policy", `cannot create resource "remedypolicies"`, func() error {
			policy := s.policy.DeepCopy()
			policy.ObjectMeta = metav1.ObjectMeta{Name: "mine"}
			return leader.Create(s.ctx, policy)
		}},
		{"patch a policy", `cannot patch resource "remedypolicies"`, patch(s.policy.DeepCopy(), `{"spec":{"steps":[]}}`)},
		{"update the status of a policy", `cannot update resource "remedypolicies/status"`, func() error { return leader.Status().Update(s.ctx, s.policy.DeepCopy()) }},
		{"update a policy", `cannot update resource "remedypolicies"`, func() error { return leader.Update(s.ctx, s.policy.DeepCopy()) }},
		{"delete a policy", `cannot delete resource "remedypolicies"`, func() error { return leader.Delete(s.ctx, s.policy.DeepCopy()) }},
		{"widen a budget", `cannot patch resource "remediationbudgets"`, patch(&v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "any"}}, `{}`)},
		{"a secret cordon", "the controller may not change the cordon of node " + s.a.Name + " without its mark", patch(named(s.a.Name), `{"spec":{"unschedulable":true}}`)},
		{"taint a node", "the controller may only cordon and uncordon node " + s.a.Name + ", not change its spec.taints",
			patch(named(s.a.Name), `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`)},
		{"label a node", "not change its metadata.labels", patch(named(s.a.Name), `{"metadata":{"labels":{"a":"b"}}}`)},
		{"annotate a node", "not change its annotation a", patch(named(s.a.Name), `{"metadata":{"annotations":{"a":"b"}}}`)},
		{"a finalizer of a node", "not change its metadata.finalizers", patch(named(s.a.Name), `{"metadata":{"finalizers":["a/b"]}}`)},
		{"delete a node", `cannot delete resource "nodes"`, func() error { return leader.Delete(s.ctx, named(s.a.Name)) }},
		{"delete a pod", `cannot delete resource "pods"`, func() error {
			return leader.Delete(s.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "any", Namespace: namespace}})
		}},
		{"condition", `cannot patch resource "nodes/status"`, func() error { return patchStatus(s.ctx, leader, s.a.Name, condition(fault, "False")) }},
		{"read a secret", `cannot get resource "secrets"`, func() error { return leader.Get(s.ctx, key(secret("any")), &corev1.Secret{}) }},
		{"another lease", `cannot update resource "leases"`, func() error {
			return leader.Update(s.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "any", Namespace: "kube-system"}})
		}},
		{"a node's lease", `cannot update resource "leases"`, func() error {
			return leader.Update(s.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: s.a.Name, Namespace: corev1.NamespaceNodeLease}})
		}},
	})
}

func TestTheControllerTakesBackNoCordonButItsOwn(t *testing.T) {
	s := newScene(t)
	leader := s.client(s.account("controller", s.b))
	patch := func(c client.Client, patch string) error {
		return c.Patch(s.ctx, named(s.a.Name), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	const cordon = `{"metadata":{"annotations":{"nodemend.dev/cordoned-for":"m"}},"spec":{"unschedulable":true}}`
	const uncordon = `{"metadata":{"annotations":{"nodemend.dev/cordoned-for":null}},"spec":{"unschedulable":null}}`
	s.must(patch(leader, cordon))
	s.refused([]attempt{{"leave the mark", "without its mark", func() error { return patch(leader, `{"spec":{"unschedulable":null}}`) }}})
	s.must(patch(leader, uncordon))

	s.must(patch(s.admin, `{"spec":{"unschedulable":true}}`))
	s.refused([]attempt{
		{"another's cordon", "the controller may not change the cordon of node " + s.a.Name, func() error { return patch(leader, uncordon) }},
		{"mark another's cordon", "the controller may not mark the cordon of node " + s.a.Name + " as its own", func() error {
			return patch(leader, `{"metadata":{"annotations":{"nodemend.dev/cordoned-for":"m"}}}`)
		}},
		{"take the mark and the cordon of another away", "without its mark", func() error { return patch(leader, `{"spec":{"unschedulable":false}}`) }},
	})
	s.must(patch(s.admin, `{"spec":{"unschedulable":null}}`))
}

func TestTheControllerTakesBackNoVetoButItsOwn(t *testing.T) {
	s := newScene(t)
	leader := s.client(s.account("controller", s.b))
	karpenters := func(annotations map[string]string) string {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "veto-" + utilrand.String(8), Labels: map[string]string{"karpenter.sh/nodepool": "p"}, Annotations: annotations,
		}}
		s.temporary(node)
		return node.Name
	}
	patch := func(node, patch string) error {
		return leader.Patch(s.ctx, named(node), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	const (
		take = `{"metadata":{"annotations":{"nodemend.dev/cordoned-for":"m","karpenter.sh/do-not-repair":"true","nodemend.dev/repair-held-for":"m"}},"spec":{"unschedulable":true}}`
		lift = `{"metadata":{"annotations":{"karpenter.sh/do-not-repair":null,"nodemend.dev/repair-held-for":null}}}`
		hold = `{"metadata":{"annotations":{"karpenter.sh/do-not-repair":"true","nodemend.dev/repair-held-for":"m"}}}`
		mark = `{"metadata":{"annotations":{"nodemend.dev/repair-held-for":"m"}}}`
		gone = `{"metadata":{"annotations":{"nodemend.dev/cordoned-for":null,"karpenter.sh/do-not-repair":null,"nodemend.dev/repair-held-for":null}},"spec":{"unschedulable":null}}`
	)
	ours := karpenters(nil)
	s.refused([]attempt{
		{"without its cordon", "the controller may not change the annotation karpenter.sh/do-not-repair of node " + ours, func() error { return patch(ours, hold) }},
		{"for a node that is not Karpenter's", "the controller may not change the annotation karpenter.sh/do-not-repair of node " + s.a.Name, func() error { return patch(s.a.Name, take) }},
		{"without its mark", "karpenter.sh/do-not-repair of node " + ours, func() error {
			return patch(ours, `{"metadata":{"annotations":{"nodemend.dev/cordoned-for":"m","karpenter.sh/do-not-repair":"true"}},"spec":{"unschedulable":true}}`)
		}},
		{"another word", "karpenter.sh/do-not-repair of node " + ours, func() error {
			return patch(ours, strings.ReplaceAll(take, `"true"`, `"false"`))
		}},
		{"the mark alone", "the controller may not mark the annotation karpenter.sh/do-not-repair", func() error { return patch(ours, mark) }},
	})
	s.must(patch(ours, take))
	s.refused([]attempt{
		{"leave the mark", "karpenter.sh/do-not-repair of node " + ours, func() error {
			return patch(ours, `{"metadata":{"annotations":{"karpenter.sh/do-not-repair":null}}}`)
		}},
		{"let it be repaired after all", "karpenter.sh/do-not-repair of node " + ours, func() error {
			return patch(ours, `{"metadata":{"annotations":{"karpenter.sh/do-not-repair":"false","nodemend.dev/repair-held-for":null}}}`)
		}},
		{"mark it for another one", "as its own", func() error { return patch(ours, strings.ReplaceAll(mark, `"m"`, `"n"`)) }},
	})
	for _, p := range []string{lift, hold, gone} {
		s.must(patch(ours, p))
	}

	theirs := karpenters(map[string]string{"karpenter.sh/do-not-repair": "true"})
	s.refused([]attempt{
		{"mark a person's", "as its own", func() error { return patch(theirs, mark) }},
		{"with the cordon", "as its own", func() error { return patch(theirs, take) }},
		{"take a person's away", "karpenter.sh/do-not-repair of node " + theirs, func() error { return patch(theirs, lift) }},
	})
	said := karpenters(map[string]string{"karpenter.sh/do-not-repair": "false"})
	s.refused([]attempt{{"against a person's word", "karpenter.sh/do-not-repair of node " + said, func() error { return patch(said, take) }}})
}

func TestNobodyElseCreatesOrDeletesActions(t *testing.T) {
	s := newScene(t)
	person := s.client(s.clusterAdmin())
	s.refused([]attempt{
		{"create", "olga may not create NodeActions: only the controller may. To stop a remediation, delete the Remediation", func() error {
			return person.Create(s.ctx, s.actionFor(s.a))
		}},
		{"delete", "olga may not delete NodeActions: only the controller may.", func() error { return person.Delete(s.ctx, s.actionA.DeepCopy()) }},
		{"delete all", "olga may not delete NodeActions: only the controller may.", func() error { return person.DeleteAllOf(s.ctx, &v1alpha1.NodeAction{}) }},
	})
	s.must(s.admin.Create(s.ctx, s.actionFor(s.a))) // one of system:masters
	s.must(s.admin.Delete(s.ctx, s.actionA))
}

func TestTheAdmissionPoliciesBindNobodyElse(t *testing.T) {
	s := newScene(t)
	person := s.client(s.clusterAdmin())
	s.must(patchStatus(s.ctx, person, s.a.Name, `{"metadata":{"labels":{"a":"b"}},"status":{"conditions":[{"type":"Ready","status":"False"}]}}`))
	s.must(claim(s.ctx, person, s.actionA))
	s.must(finish(s.ctx, person, s.actionA))
	s.must(person.Create(s.ctx, eventAbout("Pod", "any")))
}

// lead runs a controller with leader election until the test ends.
func (s *scene) lead(account *rest.Config) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() {
		done <- controller.Run(ctx, account, controller.Options{
			LeaderElection: true, LeaderElectionNamespace: namespace, Registry: prometheus.NewRegistry(),
		})
	}()
	s.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.Error(err)
		}
	})
}

// execute runs a runner of a node until the test ends. It reports what it would do:
// what this machine lets it do is no concern here.
func (s *scene) execute(account *rest.Config, node *corev1.Node) {
	s.Helper()
	dir := s.TempDir()
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() {
		done <- runner.Run(ctx, account, runner.Options{
			NodeName: node.Name, DryRun: true, Systemd: &systemd.Dialer{},
			RunDir: filepath.Join(dir, "run"), HostRoot: "/",
			SysRqPath: filepath.Join(dir, "sysrq"), DetectorSocket: filepath.Join(dir, "detector.sock"),
		})
	}()
	s.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.Error(err)
		}
	})
}

func (s *scene) eventually(what string, done func(context.Context) (bool, error)) {
	s.Helper()
	if err := wait.PollUntilContextTimeout(s.ctx, poll, patience, true, done); err != nil {
		s.Fatalf("waiting until %s: %v", what, err)
	}
}

// hasMedik8s makes the namespace of medik8s' Leases, which stays: nobody ends one here.
func (s *scene) hasMedik8s() {
	s.Helper()
	s.must(client.IgnoreAlreadyExists(s.admin.Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "medik8s-leases"}})))
}

// With controller.medik8sLeases the controller holds Leases of medik8s as itself, and takes none from others but as its own.
func TestTheControllerHoldsLeasesOfMedik8sForItselfAlone(t *testing.T) {
	s := newScene(t)
	s.hasMedik8s()
	for _, obj := range rendered(t, "controller.medik8sLeases=true") {
		if obj.GetName() == "nodemend-controller-leases" || obj.GetNamespace() == "medik8s-leases" {
			s.must(s.admin.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(&obj), client.FieldOwner("test"), client.ForceOwnership))
			s.Cleanup(func() { s.must(client.IgnoreNotFound(s.admin.Delete(context.WithoutCancel(s.ctx), &obj))) })
		}
	}
	leader := s.client(s.account("controller", s.b))
	lease := func(name, holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder)},
		}
	}
	const refused = "the controller may only hold Leases of medik8s itself"
	p := &props{scene: s}
	p.ctx = s.ctx
	p.until(func() bool { // the rights and the rule are there
		err := client.NewDryRunClient(leader).Create(s.ctx, lease("probe", "somebody"))
		return err != nil && strings.Contains(err.Error(), refused)
	})
	theirs := lease("node-theirs", "NodeHealthCheck-workers")
	s.must(s.admin.Create(s.ctx, theirs))
	s.refused([]attempt{
		{"for somebody else", refused, func() error { return leader.Create(s.ctx, lease("node-x", "NodeHealthCheck-workers")) }},
		{"give one to somebody else", refused, func() error {
			return leader.Patch(s.ctx, theirs.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"holderIdentity":"others"}}`)))
		}},
		{"delete another's", refused, func() error { return leader.Delete(s.ctx, theirs.DeepCopy()) }},
		{"a kubelet's", `cannot delete resource "leases"`, func() error {
			return leader.Delete(s.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: s.a.Name, Namespace: corev1.NamespaceNodeLease}})
		}},
	})
	ours := lease("node-ours", "nodemend")
	s.must(leader.Create(s.ctx, ours))
	s.must(leader.Patch(s.ctx, theirs.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"holderIdentity":"nodemend"}}`))))
	s.must(leader.Delete(s.ctx, ours))
}
