//go:build integration

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

// startController runs the real one until the end of the test.
func startController(t *testing.T) {
	t.Helper()
	cfg := rest.CopyConfig(clustertest.Shared(t).Config)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx, cfg, controller.Options{Registry: prometheus.NewRegistry()}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func (s *scene) until(what string, so func(ctx context.Context) (bool, error)) {
	s.Helper()
	if err := wait.PollUntilContextTimeout(s.Context(), 50*time.Millisecond, time.Minute, true, so); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

func (s *scene) get(obj client.Object, name string) {
	s.Helper()
	s.must(s.c.Get(s.Context(), client.ObjectKey{Name: name}, obj))
}

func TestAMaintenanceIsStartedShownAndEnded(t *testing.T) {
	s := newScene(t)
	config := "--kubeconfig=" + kubeconfig(t)
	startController(t)
	got := command(t, s.now, "maintenance", "start", "worker-20", "--reason", "swap DIMM", config)
	for _, want := range []string{"maintenance worker-20-", "100%, 0 of 0 pods left", "kubectl nodemend maintenance end worker-20"} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q:\n%s", want, got)
		}
	}
	var n corev1.Node
	s.get(&n, "worker-20")
	if !n.Spec.Unschedulable {
		t.Error("the node is not cordoned")
	}
	if got := command(t, s.now, "maintenance", "end", "worker-20", config); !strings.Contains(got, "(swap DIMM) ends") {
		t.Error(got)
	}
	s.until("the node is given back", func(ctx context.Context) (bool, error) {
		err := s.c.Get(ctx, client.ObjectKey{Name: "worker-20"}, &n)
		return !n.Spec.Unschedulable, err
	})
}

func TestARemediationThatIsStartedByHandIsTheControllersOwn(t *testing.T) {
	s := newScene(t)
	config := "--kubeconfig=" + kubeconfig(t)
	s.must(s.c.Patch(s.Context(), &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "container-runtime"}},
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"match":[{"type":"ContainerRuntimeUnhealthy","status":"True","for":"24h"}],"mode":"DryRun"}}`))))
	command(t, s.now, "run", "container-runtime", "worker-18", config)
	startController(t)
	var list v1alpha1.RemediationList
	s.until("the controller has taken it", func(ctx context.Context) (bool, error) {
		err := s.c.List(ctx, &list, client.MatchingFields{"spec.nodeName": "worker-18"})
		return err == nil && len(list.Items) == 1 && list.Items[0].BlockedBy() != "", err
	})
	if r := &list.Items[0]; r.Status.BlockedBy != r.BlockedBy() || r.Status.State != r.State() {
		t.Errorf("the status is summarized as %q, %q, the conditions say %q, %q", r.Status.State, r.Status.BlockedBy, r.State(), r.BlockedBy())
	}
	if by := list.Items[0].Annotations[v1alpha1.StartedByAnnotation]; by == "" {
		t.Error("nobody is named who has started it")
	}
	var policy, remediation unstructured.Unstructured
	policy.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RemedyPolicy"))
	remediation.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Remediation"))
	s.get(&policy, "container-runtime")
	s.get(&remediation, list.Items[0].Name)
	for _, field := range []string{"match", "steps", "recovery"} {
		want, _, _ := unstructured.NestedFieldNoCopy(policy.Object, "spec", field)
		if got, _, _ := unstructured.NestedFieldNoCopy(remediation.Object, "spec", field); !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("its %s is %v, to the letter of its policy it is %v", field, got, want)
		}
	}
}

// watching runs the command until it is stopped, and returns what it prints.
func (s *scene) watching(args ...string) (lines *bufio.Scanner, stop func()) {
	s.Helper()
	read, written := io.Pipe()
	root := newRootCommand(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: written, ErrOut: written}, clock.RealClock{})
	root.SetArgs(append([]string{"watch", "--kubeconfig=" + kubeconfig(s.T)}, args...))
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	s.Cleanup(cancel)
	go func() {
		_ = written.CloseWithError(errors.Join(root.ExecuteContext(ctx), io.EOF))
	}()
	return bufio.NewScanner(read), cancel
}

func (s *scene) prints(lines *bufio.Scanner, want string) {
	s.Helper()
	if !lines.Scan() {
		s.Fatalf("it ended before it printed %q: %v", want, lines.Err())
	}
	if !strings.Contains(lines.Text(), want) {
		s.Errorf("it printed\n%s\nwant\n%s", lines.Text(), want)
	}
}

func TestWhatIsWatchedIsPrintedAsItChanges(t *testing.T) {
	s := newScene(t)
	r := s.newestOf("worker-17")
	lines, stop := s.watching("worker-17")
	s.prints(lines, "TIME      NODE          POLICY                STEP    STATE")
	s.prints(lines, "worker-17     container-runtime     1/2     Waiting (Refused), attempt 2: action b-1 was not executed")
	for _, patch := range []string{`{"status":{"actions":7}}`, `{"status":{"conditions":[
		{"type":"Progressing","status":"True","reason":"Waiting","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"},
		{"type":"Blocked","status":"True","reason":"Refused","message":"another number","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, `{"status":{"step":2}}`} { // only the last is news
		s.must(s.c.Status().Patch(s.Context(), r, client.RawPatch("application/merge-patch+json", []byte(patch))))
	}
	s.prints(lines, "worker-17     container-runtime     2/2     Waiting")
	stop()
	if lines.Scan() {
		t.Errorf("it printed %q at its end", lines.Text())
	}
}

func TestWhatWasOverBeforeIsNotWatchedButWhatEndsIs(t *testing.T) {
	s := newScene(t)
	var policy v1alpha1.RemedyPolicy
	s.get(&policy, "hardware")
	s.must(s.c.Status().Patch(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-16"}}, client.RawPatch("application/strategic-merge-patch+json",
		[]byte(`{"status":{"conditions":[{"type":"HardwareFailure","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`))))
	lines, _ := s.watching("worker-16") // which has recovered
	r := s.remediation("worker-16", &policy, func(r *v1alpha1.RemediationStatus) {
		r.Step, r.Attempt = 1, 1
		s.says(r, "Progressing", "True", v1alpha1.ReasonWaiting, "")
	})
	for lines.Scan() && !strings.Contains(lines.Text(), "Waiting") { // as it is created, too, if that is seen
		if strings.Contains(lines.Text(), "container-runtime") {
			t.Fatalf("it printed %s", lines.Text())
		}
	}
	s.must(s.c.Status().Patch(s.Context(), r, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"endTime":"2026-01-01T00:00:00Z","conditions":[
		{"type":"Progressing","status":"False","reason":"Recovered","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`))))
	s.prints(lines, "worker-16     hardware              1/1     Recovered")
}

func TestAfterAnUninstallNothingIsCordonedHeldOrLeft(t *testing.T) {
	for _, with := range []string{"a controller", "no controller"} {
		t.Run("with "+with, func(t *testing.T) {
			s := newScene(t)
			config := "--kubeconfig=" + kubeconfig(t)
			if with == "a controller" {
				startController(t)
			}
			// The plugin's clock has to run: it waits.
			got := commandNow(t, "uninstall", "--yes", config)
			if !strings.Contains(got, "all nodes are given back") {
				t.Fatal(got)
			}
			for _, list := range []client.ObjectList{
				&v1alpha1.RemedyPolicyList{}, &v1alpha1.RemediationList{}, &v1alpha1.NodeMaintenanceList{}, &v1alpha1.RemediationBudgetList{},
			} {
				objects, err := (&uninstall{tool: &tool{}, c: s.c}).all(t.Context(), list)
				if err != nil || len(objects) > 0 {
					t.Errorf("%T: %d are left (%v)", list, len(objects), err)
				}
			}
			var ours, others corev1.Node
			s.get(&ours, "worker-21")
			s.get(&others, "worker-22")
			if _, marked := ours.Annotations[v1alpha1.CordonedAnnotation]; marked || ours.Spec.Unschedulable {
				t.Error("our cordon is left")
			}
			if !others.Spec.Unschedulable {
				t.Error("somebody else's cordon is gone")
			}
			if got := commandNow(t, "uninstall", "--yes", config); !strings.Contains(got, "all nodes are given back") {
				t.Errorf("it cannot be repeated:\n%s", got)
			}
		})
	}
}

func TestAnUninstallThatIsRefusedUndoesItsOwnPauseAndNobodyElses(t *testing.T) {
	for name, tt := range map[string]struct {
		before string // who has paused the cluster
		stays  bool
	}{
		"nobody has paused":   {"", false},
		"somebody has paused": {"network maintenance", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			config := "--kubeconfig=" + kubeconfig(t)
			if tt.before != "" {
				command(t, s.now, "pause", "--reason", tt.before, config)
			}
			s.bindEditor()
			got := commandNow(t, "uninstall", "--yes", config, "--as=edith")
			if !strings.Contains(got, "no ClusterRole of Nodemend allows to delete remedypolicies") {
				t.Errorf("it is not refused as expected:\n%s", got)
			}
			var pause v1alpha1.RemediationBudget
			err := s.c.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterPauseBudget}, &pause)
			if client.IgnoreNotFound(err) != nil || (err == nil) != tt.stays {
				t.Errorf("whether the cluster is paused: %v", err)
			}
			if tt.stays && !strings.HasPrefix(pause.Spec.PauseReason, tt.before) {
				t.Errorf("the reason of the pause is now %q", pause.Spec.PauseReason)
			}
		})
	}
}

// bindEditor gives edith what the ClusterRoles for people allow, to read and to write.
func (s *scene) bindEditor() {
	s.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "edith-"}}
	for _, g := range grants() {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{g.group}, Resources: g.resources, Verbs: g.verbs})
	}
	s.must(s.c.Create(s.Context(), role))
	s.must(s.c.Create(s.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "edith-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "edith"}},
	}))
	s.until("edith has her rights", func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "edith",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: v1alpha1.GroupVersion.Group, Resource: "remediationbudgets", Verb: "create"},
		}}
		err := s.c.Create(ctx, review)
		return review.Status.Allowed, err
	})
}

func TestWhereAMaintenanceIsNotTheOnlyOneItIsNamedToBeEnded(t *testing.T) {
	s := newScene(t)
	config := "--kubeconfig=" + kubeconfig(t)
	for _, reason := range []string{"disk", "fan"} {
		command(t, s.now, "maintenance", "start", "worker-20", "--no-wait", "--reason", reason, config)
	}
	left := func() (names []string) {
		found, err := maintenancesOf(t.Context(), s.c, "worker-20")
		s.must(err)
		for i := range found {
			names = append(names, found[i].Name)
		}
		return names
	}
	both := left()
	got := command(t, s.now, "maintenance", "end", "worker-20", config)
	for _, want := range append([]string{"has 2 maintenances", "--maintenance NAME", "--all", "disk", "fan"}, both...) {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q:\n%s", want, got)
		}
	}
	if got := command(t, s.now, "maintenance", "end", "worker-20", "--maintenance=other", config); !strings.Contains(got, `no maintenance "other"`) {
		t.Error(got)
	}
	if now := left(); len(both) != 2 || len(now) != 2 {
		t.Fatalf("of %v are left %v", both, now)
	}
	command(t, s.now, "maintenance", "end", "worker-20", "--maintenance", both[0], config)
	if now := left(); len(now) != 1 || now[0] != both[1] {
		t.Errorf("of %v are left %v", both, now)
	}
	command(t, s.now, "maintenance", "end", "worker-20", "--all", config)
	command(t, s.now, "maintenance", "start", "worker-20", "--no-wait", "--reason", "board", "--power-off", "--out-of-service", config)
	if found, err := maintenancesOf(t.Context(), s.c, "worker-20"); err != nil || len(found) != 1 || found[0].Spec.Power != v1alpha1.PowerRequestOff || !found[0].Spec.OutOfService || found[0].Spec.Drain == nil {
		t.Errorf("%v, %+v", err, found)
	}
	command(t, s.now, "maintenance", "start", "worker-20", "--no-wait", "--reason", "more", config)
	command(t, s.now, "maintenance", "end", "worker-20", "--all", config)
	if now := left(); len(now) > 0 {
		t.Errorf("with --all are left %v", now)
	}
}

func TestARemediationWhoseRunnerIsSilentCanBeRetried(t *testing.T) {
	s := newScene(t)
	for _, c := range []struct {
		status string
		wanted bool
	}{{"False", false}, {"True", true}} {
		s.must(s.c.Status().Patch(s.Context(), s.newestOf("worker-17"), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil,
			`{"status":{"history":null,"conditions":[
			{"type":"Progressing","status":"True","reason":"Acting","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"},
			{"type":"Blocked","status":%q,"reason":"NoReport","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, c.status))))
		got := command(t, s.now, "retry", "worker-17", "--kubeconfig="+kubeconfig(t))
		if strings.Contains(got, "starts over with step 1") != c.wanted {
			t.Errorf("Blocked is %s: %s", c.status, got)
		}
	}
}

func TestWhatAPolicyLeavesToPeopleIsEndedByThem(t *testing.T) {
	for name, change := range map[string]func(*scene, *v1alpha1.Remediation){
		"the policy asks for a release": func(s *scene, r *v1alpha1.Remediation) {
			s.must(s.c.Status().Patch(s.Context(), r, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"conditions":[
				{"type":"Blocked","status":"True","reason":"ReleaseRequired","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`))))
		},
		"its remediation has ended": func(s *scene, r *v1alpha1.Remediation) {
			s.must(s.c.Status().Patch(s.Context(), r, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"endTime":"2026-01-01T00:00:00Z"}}`))))
		},
		"its remediation is being cancelled": func(s *scene, r *v1alpha1.Remediation) { s.must(s.c.Delete(s.Context(), r)) },
		"its remediation is gone": func(s *scene, r *v1alpha1.Remediation) {
			s.must(s.c.Patch(s.Context(), r, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
			s.must(s.c.Delete(s.Context(), r))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			change(s, s.newestOf("worker-21"))
			if got := command(t, s.now, "maintenance", "end", "worker-21", "--kubeconfig="+kubeconfig(t)); !strings.Contains(got, "DIMM A1) ends") {
				t.Error(got)
			}
		})
	}
}

func TestArgumentsAreCompleted(t *testing.T) {
	newScene(t)
	config := "--kubeconfig=" + kubeconfig(t)
	for _, tt := range []struct{ line, want string }{
		{"exclude worker-2", "worker-20 worker-21 worker-22 worker-23"},
		{"include worker-20 worker-16", "worker-16"},
		{"describe worker-19", "worker-19-HASH worker-19"},
		{"approve worker-19", "worker-19-HASH worker-19"},
		{"retry worker-19", "worker-19-HASH worker-19"},
		{"cancel worker-20", "worker-20"},
		{"cancel worker-20 worker-1", ""},
		{"why worker-20", "worker-20"},
		{"why worker-20 worker-1", ""},
		{"run hard", "hardware"},
		{"run hardware worker-20", "worker-20"},
		{"pause budget/", "budget/workers"},
		{"pause policy/k", "policy/kubelet"},
		{"resume budget/workers policy/h", "policy/hardware"},
	} {
		args := strings.Fields(tt.line)
		last := len(args) - 1
		got := command(t, time.Now(), append([]string{"__complete", args[0], config}, args[1:]...)...)
		words, _, _ := strings.Cut(steady(got), ":4\n") // then, for people
		if got := strings.Join(strings.Fields(words), " "); got != tt.want {
			t.Errorf("%s: %q completes to %q, want %q", tt.line, args[last], got, tt.want)
		}
	}
}
