//go:build integration

package deploy_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

const (
	namespace = "nodemend-system"
	// patience bounds every wait: only what hangs needs it.
	patience = 5 * time.Minute
	poll     = 50 * time.Millisecond

	fault = "RuntimeUnhealthy"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: deploy.CRDs}))
}

// scene is two nodes, A and B, a policy, and an action of it for each node. The
// manifests are installed and in force.
type scene struct {
	*testing.T
	ctx              context.Context
	cfg              *rest.Config
	admin            client.WithWatch
	scheme           *runtime.Scheme
	a, b             *corev1.Node
	policy           *v1alpha1.RemedyPolicy
	actionA, actionB *v1alpha1.NodeAction
}

func newScene(t *testing.T) *scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	s := &scene{T: t, ctx: ctx, cfg: clustertest.Shared(t).Config, scheme: runtime.NewScheme()}
	s.must(errors.Join(clientgoscheme.AddToScheme(s.scheme), v1alpha1.AddToScheme(s.scheme)))
	s.admin = s.client(s.cfg)
	s.install()

	suffix := utilrand.String(6)
	s.policy = &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "policy-" + suffix},
		Spec: v1alpha1.RemedyPolicySpec{
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"scene": suffix}},
			Match:        []v1alpha1.ConditionMatch{{Type: fault, Status: corev1.ConditionTrue}},
			Steps:        []v1alpha1.Step{{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/true"}}}},
			// The nodes of a scene are new.
			DelayAfterJoin: &v1alpha1.Duration{},
		},
	}
	s.must(s.admin.Create(s.ctx, s.policy))
	s.a, s.b = s.newNode("a-"+suffix, suffix), s.newNode("b-"+suffix, suffix)
	s.actionA, s.actionB = s.newAction(s.a), s.newAction(s.b)
	s.waitUntilInForce()
	return s
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// install applies all manifests but the CRDs, which are there, and the workloads.
func (s *scene) install() {
	s.Helper()
	for _, obj := range installed(s.T) {
		if slices.Contains([]string{"CustomResourceDefinition", "DaemonSet", "Deployment"}, obj.GetKind()) {
			continue
		}
		s.must(s.admin.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(&obj), client.FieldOwner("test"), client.ForceOwnership))
	}
}

func (s *scene) newNode(name, suffix string) *corev1.Node {
	s.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"scene": suffix}}}
	s.must(s.admin.Create(s.ctx, node))
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, LastHeartbeatTime: metav1.Now()},
		{Type: fault, Status: corev1.ConditionTrue, Reason: "Test", LastHeartbeatTime: metav1.Now()},
	}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"pause"}, SizeBytes: 1}}
	s.must(s.admin.Status().Update(s.ctx, node))
	return node
}

// actionFor is an action that has not been created.
func (s *scene) actionFor(node *corev1.Node) *v1alpha1.NodeAction {
	s.Helper()
	hash, err := s.policy.Spec.Steps[0].Hash()
	s.must(err)
	return &v1alpha1.NodeAction{
		ObjectMeta: metav1.ObjectMeta{Name: "action-" + utilrand.String(8)},
		Spec: v1alpha1.NodeActionSpec{
			NodeName: node.Name, NodeUID: node.UID,
			Remediation: "none", RemediationUID: "none",
			Policy:   v1alpha1.PolicyReference{Name: s.policy.Name, UID: s.policy.UID},
			StepHash: hash, Step: 1, Attempt: 1,
			Timeout: v1alpha1.Duration{Duration: time.Minute}, ExpiresAt: metav1.NewTime(time.Now().Add(time.Hour)),
		},
	}
}

func (s *scene) newAction(node *corev1.Node) *v1alpha1.NodeAction {
	s.Helper()
	action := s.actionFor(node)
	s.must(s.admin.Create(s.ctx, action))
	return action
}

func (s *scene) client(cfg *rest.Config) client.WithWatch {
	s.Helper()
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: s.scheme})
	s.must(err)
	return c
}

// account is the config of a role's pod on a node: with the token that its
// kubelet would ask for.
func (s *scene) account(role string, node *corev1.Node) *rest.Config {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "nodemend-" + role + "-", Namespace: namespace},
		Spec: corev1.PodSpec{
			NodeName: node.Name, ServiceAccountName: "nodemend-" + role,
			Containers: []corev1.Container{{Name: role, Image: "nodemend"}},
		},
	}
	s.must(s.admin.Create(s.ctx, pod))
	return s.bound(role, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID})
}

// bound is the config with a token of a role that is bound to an object; nil: to
// none, as tokens were in former times.
func (s *scene) bound(role string, to *authenticationv1.BoundObjectReference) *rest.Config {
	s.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nodemend-" + role, Namespace: namespace}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: to}}
	s.must(s.admin.SubResource("token").Create(s.ctx, account, request))
	cfg := rest.AnonymousClientConfig(s.cfg)
	cfg.QPS = -1
	cfg.BearerToken = request.Status.Token
	return cfg
}

// clusterAdmin is a person with all rights that is not one of system:masters.
func (s *scene) clusterAdmin() *rest.Config {
	s.Helper()
	const name = "olga"
	err := s.admin.Create(s.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})
	s.must(client.IgnoreAlreadyExists(err))
	return clustertest.Shared(s).UserConfig(name)
}

// waitUntilInForce waits for each policy, which takes the API server a moment.
func (s *scene) waitUntilInForce() {
	s.Helper()
	as := func(role string) client.Client { // without a claim of a node
		return client.NewDryRunClient(s.client(clustertest.Shared(s).UserConfig("system:serviceaccount:" + namespace + ":nodemend-" + role)))
	}
	runner, detector, controller := as("runner"), as("detector"), as("controller")
	person := client.NewDryRunClient(s.client(s.clusterAdmin()))
	for policy, try := range map[string]func() error{
		"nodemend-runner":     func() error { return claim(s.ctx, runner, s.actionA.DeepCopy()) },
		"nodemend-detector":   func() error { return patchStatus(s.ctx, detector, s.a.Name, `{}`) },
		"nodemend-events":     func() error { return detector.Create(s.ctx, eventAbout("Node", s.a.Name)) },
		"nodemend-actions":    func() error { return person.Create(s.ctx, s.actionFor(s.a)) },
		"nodemend-controller": func() error { return patchAction(s.ctx, controller, s.actionA, `{"claim":null}`) },
		"nodemend-controller-remediations": func() error {
			approved := s.remediationOf(s.a)
			approved.Annotations = map[string]string{v1alpha1.ApprovedStepAnnotation: "1"}
			return controller.Create(s.ctx, approved)
		},
		"nodemend-controller-maintenances": func() error {
			return controller.Create(s.ctx, maintenanceOf(s.a.Name, "any"))
		},
		"nodemend-names": func() error {
			budget := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "named", Annotations: map[string]string{v1alpha1.StartedByAnnotation: "jane"}}}
			return person.Create(s.ctx, budget)
		},
		"nodemend-words": func() error { return s.creates(person, wordOf("somebody", "u", bootOne)) },
	} {
		s.untilRefused(policy, try)
	}
}

// awaitPolicy waits until admission knows the policy of the scene.
func (s *scene) awaitPolicy(person client.Client) {
	s.Helper()
	forged := s.remediationOf(s.a)
	forged.Spec.Steps[0].Attempts = 7
	var last error
	err := wait.PollUntilContextTimeout(s.ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		last = client.NewDryRunClient(person).Create(ctx, forged.DeepCopy())
		return last != nil && strings.Contains(last.Error(), "does not say what"), nil
	})
	if err != nil {
		s.Fatalf("ValidatingAdmissionPolicy nodemend-remediations does not know policy %s: %v; last answer: %v", s.policy.Name, err, last)
	}
}

// remediationOf is one of the scene's policy that has not been created.
func (s *scene) remediationOf(node *corev1.Node) *v1alpha1.Remediation {
	snapshot := s.policy.Spec.DeepCopy()
	return &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: "remediation-" + utilrand.String(8)},
		Spec: v1alpha1.RemediationSpec{
			NodeName: node.Name, NodeUID: node.UID,
			Policy:  v1alpha1.PolicyReference{Name: s.policy.Name, UID: s.policy.UID},
			Trigger: v1alpha1.Trigger{Type: fault, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
			Match:   snapshot.Match, Steps: snapshot.Steps, Recovery: snapshot.Recovery,
		},
	}
}

func (s *scene) untilRefused(policy string, try func() error) {
	s.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.ctx, poll, patience, true, func(context.Context) (bool, error) {
		last = try()
		return last != nil && strings.Contains(last.Error(), "'"+policy+"'"), nil
	})
	if err != nil {
		s.Fatalf("ValidatingAdmissionPolicy %s is not in force: %v; last answer: %v", policy, err, last)
	}
}

// attempt is a request that has to be refused, with this in the message.
type attempt struct {
	name, want string
	try        func() error
}

// refused makes all attempts.
func (s *scene) refused(attempts []attempt) {
	s.Helper()
	for _, a := range attempts {
		s.Run(a.name, func(t *testing.T) {
			err := a.try()
			switch {
			case err == nil:
				t.Errorf("accepted, want a refusal with %q", a.want)
			case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), a.want):
				t.Errorf("got %q, want a refusal (403) with %q", err, a.want)
			}
		})
	}
}

// person is somebody who has one of the roles for people, and no other right.
func (s *scene) person(role string) *rest.Config {
	s.Helper()
	name := "person-who-may-" + role
	err := s.admin.Create(s.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nodemend-" + role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})
	s.must(client.IgnoreAlreadyExists(err))
	return clustertest.Shared(s).UserConfig(name)
}

// kubelet has the credentials of a node, which root there has.
func (s *scene) kubelet(node *corev1.Node) *rest.Config {
	return clustertest.Shared(s).UserConfig("system:node:"+node.Name, "system:nodes")
}
