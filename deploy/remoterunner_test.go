//go:build integration

package deploy_test

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/helm"
)

// remotely are the values with a remote runner.
var remotely = []string{
	"remoteRunner.enabled=true", "remoteRunner.secrets[0]=bmc", "remoteRunner.config.switches[0].ipmi.host=bmc.example.com",
	"remoteRunner.config.switches[0].ipmi.user=fence", "remoteRunner.config.switches[0].ipmi.passwordFile=/etc/nodemend/bmc/password",
}

// installRemoteRunner applies what the remote runner adds, but its workload.
func (s *scene) installRemoteRunner() {
	s.Helper()
	helm.Program(s.T)
	for _, obj := range rendered(s.T, remotely...) {
		if strings.HasPrefix(obj.GetName(), "nodemend-remote-runner") && obj.GetKind() != "Deployment" {
			s.must(s.admin.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(&obj), client.FieldOwner("test"), client.ForceOwnership))
		}
	}
}

// remoteRunner installs a remote runner, and returns the config of its pod on node B.
func (s *scene) remoteRunner() *rest.Config {
	s.Helper()
	s.installRemoteRunner()
	account := s.account("remote-runner", s.b)
	own := s.client(account)
	p := &props{scene: s}
	p.until(func() bool { // each role is in force
		return own.List(s.ctx, &v1alpha1.NodeActionList{}) == nil && client.IgnoreNotFound(own.Get(s.ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: s.a.Name}, lease("any"))) == nil &&
			client.NewDryRunClient(own).Create(s.ctx, remoteEvent("Node", s.a.Name)) == nil && client.NewDryRunClient(own).Create(s.ctx, lease("any")) == nil
	})
	return account
}

// remoteAction is one for the remote runner.
func (s *scene) remoteAction() *v1alpha1.NodeAction {
	s.Helper()
	action := s.actionFor(s.a)
	action.Spec.Executor = v1alpha1.ExecutorRemote
	s.must(s.admin.Create(s.ctx, action))
	return action
}

// in is a phase of a power cycle.
func in(phase string) func(*v1alpha1.NodeAction) {
	return func(a *v1alpha1.NodeAction) {
		a.Status.Power = &v1alpha1.PowerCycleStatus{RunnerID: "r", Phase: phase}
	}
}

// Who has this token can switch nothing: the logins are in files. It says what was switched.
func TestTheRemoteRunnerWritesForItsActionsAlone(t *testing.T) {
	s := newScene(t)
	p := &props{scene: s}
	own := s.client(s.remoteRunner())
	unbound, node := s.client(s.bound("remote-runner", nil)), s.client(s.account("runner", s.a))
	fresh, claimed, cut, foreign := s.remoteAction(), s.remoteAction(), s.remoteAction(), s.newAction(s.b)
	s.must(claim(s.ctx, s.admin, claimed))
	s.must(claim(s.ctx, s.admin, cut))
	in("Cutting")(cut)
	s.must(s.admin.Status().Update(s.ctx, cut))
	over := s.remoteAction()
	claimedAt(0)(over)
	over.Status.Claim.Remedy = v1alpha1.RemedyReboot
	s.must(s.admin.Status().Update(s.ctx, over))
	in("Ended")(over)
	s.must(finish(s.ctx, s.admin, over))
	p.until(func() bool { // rights and policies are in force
		dry := client.NewDryRunClient(own)
		refused, event := dry.Status().Update(s.ctx, with(foreign, claimedAt(0))), dry.Create(s.ctx, remoteEvent("Pod", "any"))
		return refused != nil && strings.Contains(refused.Error(), "the remote runner may not report on") &&
			event != nil && strings.Contains(event.Error(), "about nodes only") && dry.Status().Update(s.ctx, with(fresh, claimedAt(0))) == nil
	})

	write := func(c client.Client, action *v1alpha1.NodeAction, changes ...func(*v1alpha1.NodeAction)) func() error {
		return func() error { return client.NewDryRunClient(c).Status().Update(s.ctx, with(action, changes...)) }
	}
	for what, try := range map[string]func() error{
		"claim":                         write(own, fresh, claimedAt(0)),
		"end without a claim":           write(own, fresh, ended(v1alpha1.ReasonNotNeeded)),
		"look":                          write(own, claimed, in("Looking")),
		"say that power will be cut":    write(own, claimed, in("Cutting")),
		"power that was off":            write(own, claimed, in("Ended"), ended(v1alpha1.ReasonPowerWasOff)),
		"succeed after a cut":           write(own, cut, in("Ended"), result(""), ended(v1alpha1.ReasonSucceeded)),
		"not back after a cut":          write(own, cut, in("Ended"), result(""), ended(v1alpha1.ReasonNotBack)),
		"power still on after a cut":    write(own, cut, in("Ended"), result(""), ended(v1alpha1.ReasonPowerStillOn)),
		"the node's runner, its action": write(node, s.actionA, claimedAt(0)),
		"list budgets":                  func() error { return own.List(s.ctx, &v1alpha1.RemediationBudgetList{}) },
		"list the maintenances of a node": func() error {
			return own.List(s.ctx, &v1alpha1.NodeMaintenanceList{}, client.MatchingFields{"spec.nodeName": s.a.Name})
		},
		"watch what goes off late": write(own, claimed, in("Watching")),
		"read a Lease": func() error {
			return client.IgnoreNotFound(own.Get(s.ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: s.a.Name}, lease("any")))
		},
		"an event about a node": func() error { return client.NewDryRunClient(own).Create(s.ctx, remoteEvent("Node", s.a.Name)) },
	} {
		if err := try(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	const notClaimed = "it had not claimed it before"
	s.refused([]attempt{
		{"claim of a node's action", "the remote runner may not report on NodeAction " + foreign.Name + ": it is for the runner of node " + s.b.Name, write(own, foreign, claimedAt(0))},
		{"claim by a token without a pod", "not bound to a pod", write(unbound, fresh, claimedAt(0))},
		{"claim by the node's runner", "it is for the remote runner", write(node, fresh, claimedAt(0))},
		{"end by the node's runner", "it is for the remote runner", write(node, fresh, ended(v1alpha1.ReasonRefused))},
		{"progress by the node's runner", "it is for the remote runner", write(node, s.actionA, claimedAt(0), in("Looking"))},
		{"late claim", "may not claim a NodeAction after its expiresAt", write(own, fresh, claimedAt(2*time.Hour))},
		{"success without a claim", notClaimed, write(own, fresh, claimedAt(0), result(""), ended(v1alpha1.ReasonSucceeded))},
		{"progress with the claim", notClaimed, write(own, fresh, claimedAt(0), in("Cutting"))},
		{"success without a cut", "it had not said before that it would switch anything", write(own, claimed, ended(v1alpha1.ReasonSucceeded))},
		{"success with the cut", "it had not said before that it would switch anything", write(own, claimed, in("Ended"), ended(v1alpha1.ReasonNotBack))},
		{"loss", "may not end a NodeAction as Lost", write(own, claimed, ended(v1alpha1.ReasonLost))},
		{"what a boot has left", "which only the node knows", write(own, over, left("the end"))},
		{"an event about a pod", "about nodes only", func() error { return own.Create(s.ctx, remoteEvent("Pod", "any")) }},
		{"an event in another's name", "as nodemend-remote-runner", func() error { return own.Create(s.ctx, eventAbout("Node", s.a.Name)) }},
		{"delete of an action", `cannot delete resource "nodeactions"`, func() error { return own.Delete(s.ctx, fresh.DeepCopy()) }},
		{"taint", `cannot patch resource "nodes"`, func() error {
			return own.Patch(s.ctx, named(s.a.Name), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"taints":[]}}`)))
		}},
		{"a secret", `cannot get resource "secrets"`, func() error { return own.Get(s.ctx, key(secret("bmc")), &corev1.Secret{}) }},
		{"a finalizer", `cannot patch resource "nodeactions"`, func() error {
			return own.Patch(s.ctx, cut.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":[]}}`)))
		}},
		{"a maintenance", `cannot delete resource "nodemaintenances"`, func() error {
			return own.Delete(s.ctx, &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "any"}})
		}},
		{"another's Lease", `cannot update resource "leases"`, func() error { return own.Update(s.ctx, lease("nodemend-controller")) }},
		{"delete of a node", `cannot delete resource "nodes"`, func() error { return own.Delete(s.ctx, named(s.a.Name)) }},
		{"policies", `cannot list resource "remedypolicies"`, func() error { return own.List(s.ctx, &v1alpha1.RemedyPolicyList{}) }},
		{"pods", `cannot list resource "pods"`, func() error { return own.List(s.ctx, &corev1.PodList{}) }},
	})
	for what, try := range map[string]func() error{ // the rules of the CRD bind everybody
		"a claim never changes":             write(own, claimed, claimedAt(time.Minute)),
		"Unsupported value":                 write(own, claimed, in("Elsewhere")),
		"only what is claimed has progress": write(s.admin, fresh, in("Looking")),
		"a node action's spec never changes": func() error {
			changed := fresh.DeepCopy()
			changed.Spec.Executor = ""
			return s.admin.Update(s.ctx, changed)
		},
	} {
		if err := try(); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %q", err, what)
		}
	}
}

// with is an action with another status.
func with(action *v1alpha1.NodeAction, changes ...func(*v1alpha1.NodeAction)) *v1alpha1.NodeAction {
	changed := action.DeepCopy()
	for _, change := range changes {
		change(changed)
	}
	return changed
}

func lease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func remoteEvent(kind, name string) *corev1.Event {
	event := eventAbout(kind, name)
	event.GenerateName, event.Name = "", name+"."+utilrand.String(6)
	event.Source.Component = "nodemend-remote-runner"
	return event
}

func TestTheRemoteRunnerIsOffUnlessItIsWanted(t *testing.T) {
	helm.Program(t)
	for _, obj := range rendered(t) {
		if strings.Contains(obj.GetName(), "remote-runner") {
			t.Errorf("there is %s %s", obj.GetKind(), obj.GetName())
		}
	}
	pod, found := pods(t, rendered(t, remotely...))["remote-runner"]
	if !found {
		t.Fatal("there is none")
	}
	c := pod.Containers[0]
	if pod.HostNetwork || pod.HostPID || !*pod.SecurityContext.RunAsNonRoot || *c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem || *pod.AutomountServiceAccountToken {
		t.Error("the remote runner has privileges")
	}
	if c.LivenessProbe != nil {
		t.Error("the remote runner may be restarted while power is off")
	}
	mounted := false
	for _, mount := range c.VolumeMounts {
		mounted = mounted || mount.MountPath == "/etc/nodemend/bmc" && mount.ReadOnly
	}
	if !mounted {
		t.Errorf("the Secret is not mounted: %v", c.VolumeMounts)
	}
}
