package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// tried is a node whose switch was tried.
func tried(name string, status corev1.ConditionStatus, reason string, checked time.Time) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if reason != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: v1alpha1.NodeFenceable, Status: status, Reason: reason, Message: "ipmi://10.0.0.1:623: " + reason, LastHeartbeatTime: metav1.NewTime(checked)}}
	}
	return n
}

func TestTheStatusCountsNodesThatCouldBeSwitchedOff(t *testing.T) {
	hour := noon.Add(-time.Hour)
	s := statusOf(t, nodeSet{}, tried("a", "True", v1alpha1.FenceAnswers, hour), tried("b", "False", v1alpha1.FenceNoAnswer, hour), tried("c", "False", v1alpha1.FenceNoSwitch, hour),
		tried("d", "", "", hour), tried("e", "True", v1alpha1.FenceAnswers, noon.Add(-24*time.Hour)))
	text := strings.Join(strings.Fields(atNoon().statusText(s, true)), " ")
	const want = "Fences: 1 of 5 nodes could be switched off from outside; not d (NeverChecked); not b (NoAnswer); not c (NoSwitch); not e (NotCheckedLately)."
	if !strings.Contains(text, want) {
		t.Error(text)
	}
	// Whoever has root on a node can write its conditions.
	forged := atNoon().statusText(statusOf(t, nodeSet{}, tried("a", "False", "\x1b[2J\nPolicy forged (Automatic)", hour)), true)
	if strings.Contains(forged, "\x1b") || strings.Contains(forged, "forged") || !strings.Contains(forged, "not a (Other)") {
		t.Errorf("%q", forged)
	}
	if text := atNoon().statusText(statusOf(t, nodeSet{}, tried("a", "", "", noon)), true); strings.Contains(text, "Fences") {
		t.Errorf("without a remote runner:\n%s", text)
	}
}

// remoteRunner is a client of an API server whose remote runner checks what is asked for after ten
// seconds, but never the node "silent".
func remoteRunner(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	return fake.NewClientBuilder().WithObjects(objects...).WithStatusSubresource(&corev1.Node{}).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := c.Patch(ctx, obj, patch, opts...); err != nil {
				return err
			}
			if obj.GetAnnotations()[v1alpha1.FenceCheckAnnotation] == "" {
				t.Errorf("nothing is asked of node %s: %v", obj.GetName(), obj.GetAnnotations())
			}
			name := obj.GetName()
			if name == "silent" {
				return nil
			}
			go func() {
				time.Sleep(10 * time.Second) //nolint:forbidigo // the time of a bubble
				node := &corev1.Node{}
				if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
					t.Error(err)
				}
				status, reason := corev1.ConditionTrue, v1alpha1.FenceAnswers
				if name == "locked" {
					status, reason = corev1.ConditionFalse, v1alpha1.FenceLoginRefused
				}
				node.Status.Conditions = tried(name, status, reason, time.Now()).Status.Conditions
				if err := c.Status().Update(ctx, node); err != nil {
					t.Error(err)
				}
			}()
			return nil
		},
	}).Build()
}

func TestAFenceIsCheckedNow(t *testing.T) {
	for name, test := range map[string]struct {
		names []string
		took  time.Duration
		says  []string
		fails string
	}{
		"it would do":                   {[]string{"well"}, 10 * time.Second, []string{"well", "yes", "SwitchAnswers"}, ""},
		"the login is refused":          {[]string{"well", "locked"}, 10 * time.Second, []string{"LoginRefused"}, "1 of 2 nodes can't be switched off from outside: locked"},
		"no remote runner":              {[]string{"silent"}, time.Minute, []string{"no, as it was", "NoAnswer"}, "the remote runner has not tried 1 of 1 node: silent"},
		"it answers for one node alone": {[]string{"well", "silent"}, time.Minute, []string{"yes ", "no, as it was"}, "the remote runner has not tried 1 of 2 nodes: silent"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := time.Now().Add(-2 * time.Hour)
				c := remoteRunner(t, tried("well", "False", v1alpha1.FenceNoAnswer, before), tried("locked", "", "", before), tried("silent", "False", v1alpha1.FenceNoAnswer, before))
				tool := &tool{clock: clock.RealClock{}, streams: genericiooptions.IOStreams{Out: &bytes.Buffer{}}}
				began := time.Now()
				checks, err := tool.checkFences(t.Context(), c, &nodeSet{}, test.names, time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < test.took || took > test.took+lookEvery { //nolint:forbidigo // the time of a bubble
					t.Errorf("it took %s", took)
				}
				text := tool.fencesText(checks, true)
				for _, want := range test.says {
					if !strings.Contains(text, want) {
						t.Errorf("it does not say %q:\n%s", want, text)
					}
				}
				if err := unfenced(checks); (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}
