//go:build integration

package v1alpha1_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.RunTogether(m))
}

func TestANodeActionsSpecNeverChanges(t *testing.T) {
	c := newClient(t)
	a := createAction(t, c, "spec", "node-a")
	for _, change := range []map[string]any{{"nodeName": "node-b"}, {"attempt": 2}, {"policy": map[string]any{"uid": "other"}}, {"expiresAt": "2031-01-01T00:00:00Z"}} {
		refuse(t, patch(t, c, a, map[string]any{"spec": change}), "a node action's spec never changes")
	}
}

func TestAClaimNeverChanges(t *testing.T) {
	c := newClient(t)
	a := createAction(t, c, "claim", "node-a")
	claim := map[string]any{"runnerID": "runner-1", "bootID": "boot-1", "remedy": "command", "time": "2026-01-02T03:04:05Z"}
	accept(t, patchStatus(t, c, a, map[string]any{"claim": claim}))
	accept(t, patchStatus(t, c, a, map[string]any{"claim": claim}))

	const message = "a claim never changes"
	refuse(t, patchStatus(t, c, a, map[string]any{"claim": map[string]any{"runnerID": "runner-2"}}), message)
	refuse(t, patchStatus(t, c, a, map[string]any{"claim": map[string]any{"time": "2026-01-02T03:04:06Z"}}), message)
	refuse(t, patchStatus(t, c, a, map[string]any{"claim": nil}), message)
	refuse(t, patchStatus(t, c, a, nil), message)
}

func TestAFinishedActionNeverChanges(t *testing.T) {
	c := newClient(t)
	a := createAction(t, c, "finished", "node-a")
	finished := func(status, reason string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{
			"type": v1alpha1.ActionFinished, "status": status, "reason": reason, "message": "",
			"lastTransitionTime": "2026-01-02T03:04:05Z",
		}}}
	}
	accept(t, patchStatus(t, c, a, finished("False", "Running")))
	accept(t, patchStatus(t, c, a, finished("True", v1alpha1.ReasonCancelled)))
	accept(t, patchStatus(t, c, a, finished("True", v1alpha1.ReasonCancelled)))

	const message = "a finished action never changes"
	refuse(t, patchStatus(t, c, a, finished("True", v1alpha1.ReasonSucceeded)), message)
	refuse(t, patchStatus(t, c, a, finished("False", "Running")), message)
	refuse(t, patchStatus(t, c, a, map[string]any{"claim": map[string]any{"runnerID": "r", "bootID": "b", "remedy": "command", "time": "2026-01-02T03:04:05Z"}}), message)
	refuse(t, patchStatus(t, c, a, map[string]any{"conditions": nil}), message)
	refuse(t, patchStatus(t, c, a, nil), message)
}

func TestARemediationsSpecNeverChanges(t *testing.T) {
	c := newClient(t)
	r := createRemediation(t, c, "immutable")
	for _, change := range []map[string]any{{"nodeName": "node-b"}, {"recovery": map[string]any{"healthyFor": "2s"}}, {"steps": []any{}}} {
		refuse(t, patch(t, c, r, map[string]any{"spec": change}), "a remediation's spec never changes")
	}
}

func TestWhatPeopleDecideIsBounded(t *testing.T) {
	c := newClient(t)
	r := createRemediation(t, c, "decided")
	decided := func(what, by string, times int) error {
		var all []any
		for range times {
			all = append(all, map[string]any{"what": what, "step": 2, "by": by, "at": "2026-01-02T03:04:05Z"})
		}
		return patchStatus(t, c, r, map[string]any{"decisions": all})
	}
	accept(t, decided(v1alpha1.DecisionApproved, strings.Repeat("ö", 256), 20))
	accept(t, decided(v1alpha1.DecisionRetried, "", 1))
	refuse(t, decided(v1alpha1.DecisionApproved, "jane", 21), "must have at most 20 items")
	refuse(t, decided(v1alpha1.DecisionApproved, strings.Repeat("j", 257), 1), "may not be more than 256")
	refuse(t, decided("Denied", "jane", 1), `supported values: "Approved", "Retried"`)
}

func TestAStepIsExactlyOneRemedy(t *testing.T) {
	c := newClient(t)
	const one = "exactly one remedy is required: command, restartUnit, reboot, external, replace or maintenance"
	const source = "exactly one is required: argv or script"
	for step, message := range map[string]string{
		`{"command": {"argv": ["/bin/true"]}}`:                          "",
		`{"command": {"script": "exit 0"}}`:                             "",
		`{"restartUnit": {"name": "containerd.service"}}`:               "",
		`{"restartUnit": {"name": "dev-disk-by\\x2duuid-1@2:3.mount"}}`: "",
		`{"reboot": {}}`:                    "",
		`{"reboot": {"method": "SysRq"}}`:   "",
		`{"reboot": {"method": "Systemd"}}`: "",
		`{}`:                                one,
		`{"timeout": "1m"}`:                 one,
		`{"restartUnit": {"name": "a.service"}, "reboot": {}}`: one,
		`{"command": {"argv": ["/bin/true"]}, "reboot": {}}`:   one,
		`{"command": {}}`: source,
		`{"command": {"argv": ["/bin/true"], "script": "exit 0"}}`:              source,
		`{"command": {"script": ""}}`:                                           "at least 1 chars long",
		`{"command": {"script": "` + strings.Repeat("a", 65537) + `"}}`:         "may not be more than 65536",
		`{"command": {"argv": ["true"]}}`:                                       "absolute path of a program",
		`{"restartUnit": {}}`:                                                   "restartUnit.name: Required value",
		`{"restartUnit": {"name": ""}}`:                                         "should match",
		`{"restartUnit": {"name": "containerd"}}`:                               "should match",
		`{"restartUnit": {"name": ".service"}}`:                                 "should match",
		`{"restartUnit": {"name": "system.slice"}}`:                             "should match",
		`{"restartUnit": {"name": "reboot.target"}}`:                            "should match",
		`{"restartUnit": {"name": "/etc/containerd.service"}}`:                  "should match",
		`{"restartUnit": {"name": "a.service b.service"}}`:                      "should match",
		`{"restartUnit": {"name": "etcd*.service"}}`:                            "should match",
		`{"restartUnit": {"name": "my-systemd-reboot.service"}}`:                "",
		`{"restartUnit": {"name": "systemd-reboot.service"}}`:                   "must not be a unit that ends the system",
		`{"restartUnit": {"name": "emergency.service"}}`:                        "must not be a unit that ends the system",
		`{"restartUnit": {"name": "` + strings.Repeat("a", 250) + `.service"}}`: "may not be more than 255",
		`{"reboot": {"method": "sysrq"}}`:                                       `supported values: "SysRq", "Systemd"`,
		`{"reboot": {"method": ""}}`:                                            `supported values: "SysRq", "Systemd"`,
		`{"external": {"templateRef": {"apiVersion": "a.b/v1", "kind": "XTemplate", "name": "x"}}, "timeout": "2m"}`:  "",
		`{"external": {"templateRef": {"apiVersion": "a.b/v1", "kind": "XTemplate", "name": "x"}}}`:                   "must be from 2m to 24h",
		`{"external": {"templateRef": {"apiVersion": "a.b/v1", "kind": "XTemplate", "name": "x"}}, "timeout": "25h"}`: "must be from 2m to 24h",
		`{"replace": {}, "timeout": "10m"}`:                            "",
		`{"replace": {"drain": {"timeout": "10m"}}, "timeout": "24h"}`: "",
		`{"replace": {}}`:                  "must be from 10m to 24h",
		`{"replace": {}, "timeout": "9m"}`: "must be from 10m to 24h",
		`{"replace": {}, "timeout": "10m"}, {"restartUnit": {"name": "a.service"}}`:                              "replace must be the last step",
		`{"replace": {}, "timeout": "10m"}, {"maintenance": {"reason": "x"}}`:                                    "replace must be the last step",
		`{"replace": {}, "timeout": "10m"}, {"replace": {}, "timeout": "10m"}`:                                   "replace must be the last step",
		`{"external": {}, "timeout": "2m"}`:                                                                      "external.templateRef: Required value",
		`{"external": {"templateRef": {"apiVersion": "a.b/v1", "kind": "X", "name": "x"}}, "timeout": "2m"}`:     "should match",
		`{"external": {"templateRef": {"apiVersion": "v1", "kind": "XTemplate", "name": "x"}}, "timeout": "2m"}`: "should match",
	} {
		judge(t, step, createPolicy(t, c, `{"steps": [`+step+`]}`, &v1alpha1.RemedyPolicy{}), message)
	}
}

func TestARebootGoesThroughTheKernelIfNothingIsSaid(t *testing.T) {
	var got v1alpha1.RemedyPolicy
	accept(t, createPolicy(t, newClient(t), `{"steps": [{"reboot": {}}]}`, &got))
	if method := got.Spec.Steps[0].Reboot.Method; method != v1alpha1.RebootSysRq {
		t.Errorf("method %q, want %q", method, v1alpha1.RebootSysRq)
	}
	if got.Spec.Output != nil {
		t.Errorf("output %v, want none", got.Spec.Output)
	}
}

func TestOutputIsKeptOrRedactedByRegularExpressions(t *testing.T) {
	c := newClient(t)
	patterns := func(n int, pattern string) string {
		return `{"redact": [` + strings.TrimSuffix(strings.Repeat(`"`+pattern+`",`, n), ",") + `]}`
	}
	for output, message := range map[string]string{
		`{}`:                                   "",
		`{"keep": "Tail"}`:                     "",
		`{"keep": "None"}`:                     "",
		`{"redact": ["(?i)password=\\S+"]}`:    "",
		patterns(16, strings.Repeat("a", 256)): "",
		// 256 characters of what costs a matcher most.
		patterns(16, strings.Repeat("(a*)*", 51)): "",
		`{"keep": "All"}`:                         `supported values: "Tail", "None"`,
		patterns(17, "a"):                         "must have at most 16 items",
		patterns(1, strings.Repeat("a", 257)):     "may not be more than 256",
		patterns(1, ""):                           "at least 1 chars long",
		`{"redact": ["a", "[b"]}`:                 "spec.output.redact[1]: Invalid value: \"string\": error parsing regexp: missing closing ]: `[b`",
		`{"redact": ["(?=a)"]}`:                   "must be a regular expression (RE2)",
	} {
		judge(t, output, createPolicy(t, c, `{"steps": [{"reboot": {}}], "output": `+output+`}`, &v1alpha1.RemedyPolicy{}), message)
	}

	var got v1alpha1.RemedyPolicy
	accept(t, createPolicy(t, c, `{"steps": [{"reboot": {}}], "output": {}}`, &got))
	if got.Spec.Output.Keep != v1alpha1.OutputTail {
		t.Errorf("keep %q, want %q", got.Spec.Output.Keep, v1alpha1.OutputTail)
	}
}

func TestActionsAreListedAndWatchedByNode(t *testing.T) {
	c := newClient(t)
	createAction(t, c, "ours-before", "node-w")
	createAction(t, c, "others-before", "node-x")

	ours := client.MatchingFields{"spec.nodeName": "node-w"}
	var list v1alpha1.NodeActionList
	accept(t, c.List(t.Context(), &list, ours))
	if len(list.Items) != 1 || list.Items[0].Name != "ours-before" {
		t.Fatalf("the list for node-w has %v, want ours-before alone", actionNames(list.Items))
	}

	watcher, err := c.Watch(t.Context(), &v1alpha1.NodeActionList{}, ours, &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
	})
	accept(t, err)
	defer watcher.Stop()
	others := createAction(t, c, "others-after", "node-x")
	accept(t, c.Delete(t.Context(), others))
	action := createAction(t, c, "ours-after", "node-w")
	accept(t, patchStatus(t, c, action, map[string]any{"claim": map[string]any{"runnerID": "r", "bootID": "b", "remedy": "command", "time": "2026-01-02T03:04:05Z"}}))
	accept(t, c.Delete(t.Context(), action))

	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		got := nextEvent(t, watcher)
		if name := got.Object.(*v1alpha1.NodeAction).Name; got.Type != want || name != "ours-after" {
			t.Fatalf("event %s %s, want %s ours-after", got.Type, name, want)
		}
	}
}

func TestKubectlGetSaysWhatIsGoingOn(t *testing.T) {
	c := newClient(t)
	condition := func(kind, reason string) map[string]any {
		return map[string]any{"type": kind, "status": "True", "reason": reason, "message": "m", "lastTransitionTime": "2026-01-02T03:04:05Z"}
	}
	r := createRemediation(t, c, "printed")
	accept(t, patchStatus(t, c, r, map[string]any{
		"step": 2, "attempt": 1, "conditions": []any{condition("Progressing", "Waiting"), condition("Blocked", "DryRun")},
		"state": "Waiting", "blockedBy": "DryRun",
	}))
	free := createRemediation(t, c, "free")
	unblocked := condition("Blocked", "None")
	unblocked["status"], unblocked["message"] = "False", ""
	accept(t, patchStatus(t, c, free, map[string]any{"step": 1, "attempt": 1, "conditions": []any{condition("Progressing", "Acting"), unblocked}, "state": "Acting"}))
	a := createAction(t, c, "printed", "node-p")
	accept(t, patchStatus(t, c, a, map[string]any{
		"claim":      map[string]any{"runnerID": "r", "bootID": "b", "remedy": "command", "time": "2026-01-02T03:04:05Z"},
		"result":     map[string]any{"exitCode": 3, "startedAt": "2026-01-02T03:04:05.000000Z", "finishedAt": "2026-01-02T03:04:06.000000Z"},
		"conditions": []any{condition("Finished", "Failed")},
	}))
	b := createBudget(t, c, "printed", intstr.FromString("10%"))
	accept(t, patchStatus(t, c, b, map[string]any{"nodes": 31, "groups": map[string]any{"-": map[string]any{"limit": 3, "nodes": 31, "healthy": 29, "unavailable": 2}}}))
	accept(t, patchStatus(t, c, b, permits("node-a", "r1")))
	policy := &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "printed"},
		Spec: v1alpha1.RemedyPolicySpec{
			Match: []v1alpha1.ConditionMatch{{Type: "PLEGUnhealthy", Status: corev1.ConditionTrue}, {Type: "Ready", Status: corev1.ConditionUnknown}},
			Steps: []v1alpha1.Step{{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/true"}}}},
		},
	}
	accept(t, c.Create(t.Context(), policy))
	accept(t, patchStatus(t, c, policy, map[string]any{"nodes": 31, "openRemediations": 0, "conditions": []any{condition("Ready", "Enforced")}}))
	for resource, want := range map[string][2]string{
		"rmd":  {"NAME NODE CONDITION STEP ATTEMPT STATE BLOCKED BY AGE", "printed node-a PLEGUnhealthy 2 1 Waiting DryRun"},
		"nact": {"NAME NODE POLICY STEP ATTEMPT CLAIMED FINISHED EXIT CODE AGE", "printed node-p pleg 1 1"},
		"rbud": {"NAME MAX CONCURRENT NODES PAUSED AGE", "printed 10% 31"},
		"rpol": {"NAME FIRST MATCH MODE PAUSED NODES OPEN READY HEALTHY FOR AGE", "printed PLEGUnhealthy Enforce 31 0 True 1m"},
	} {
		lines := strings.Split(kubectl(t, "get", resource, "printed"), "\n")
		header, row := strings.Join(strings.Fields(lines[0]), " "), strings.Join(strings.Fields(lines[1]), " ")
		if header != want[0] || !strings.HasPrefix(row, want[1]) {
			t.Errorf("kubectl get %s prints\n%s\n%s\nwant\n%s\n%s …", resource, header, row, want[0], want[1])
		}
	}
	for line, want := range map[string]string{
		"rmd printed -o wide":                          `^printed +node-a .* DryRun +\S+ +pleg +m +m\s*$`,
		"rmd free -o wide":                             `^free +node-a +PLEGUnhealthy +1 +1 +Acting +\d+s +pleg +m\s*$`,
		"rmd --field-selector=status.state=Acting":     `^free [^\n]*\n?$`,
		"rmd --field-selector=status.blockedBy=DryRun": `^printed [^\n]*\n?$`,
		"rbud printed -o wide":                         `^printed +10% +31 +\S+ +29 +2\s*$`,
	} {
		if got := kubectl(t, append([]string{"get", "--no-headers"}, strings.Fields(line)...)...); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("kubectl get %s prints\n%s\nwant %s", line, got, want)
		}
	}
}

// newClient returns a client of the shared API server that refuses unknown
// fields.
func newClient(t *testing.T) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(clustertest.Shared(t).Config, client.Options{Scheme: scheme, FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// patch sends a JSON merge patch and returns the answer.
func patch(t *testing.T, c client.Client, object client.Object, change any) error {
	t.Helper()
	return c.Patch(t.Context(), object, mergePatch(t, change))
}

// patchStatus sends a JSON merge patch of the status.
func patchStatus(t *testing.T, c client.Client, object client.Object, status any) error {
	t.Helper()
	return c.Status().Patch(t.Context(), object, mergePatch(t, map[string]any{"status": status}))
}

func mergePatch(t *testing.T, change any) client.Patch {
	t.Helper()
	data, err := json.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	return client.RawPatch(types.MergePatchType, data)
}

// permits is a change of permits: pairs of a node and the remediation that
// takes its permit, or nil to release it.
func permits(pairs ...any) map[string]any {
	change := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == nil {
			change[pairs[i].(string)] = nil
		} else {
			change[pairs[i].(string)] = map[string]any{"remediation": pairs[i+1]}
		}
	}
	return map[string]any{"groups": map[string]any{v1alpha1.UngroupedNodes: map[string]any{"permits": change}}}
}

// holds checks which permits the API server has: pairs of a node and a
// remediation.
func holds(t *testing.T, c client.Client, budget *v1alpha1.RemediationBudget, pairs ...string) {
	t.Helper()
	want := map[string]v1alpha1.Permit{}
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = v1alpha1.Permit{Remediation: pairs[i+1]}
	}
	accept(t, c.Get(t.Context(), client.ObjectKeyFromObject(budget), budget))
	if got := budget.Status.Groups[v1alpha1.UngroupedNodes].Permits; !maps.Equal(got, want) {
		t.Errorf("permits %v, want %v", got, want)
	}
}

// accept ends the test if the API server refused.
func accept(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal("refused: ", err)
	}
}

// refuse checks that the object was invalid for this reason.
func refuse(t *testing.T, err error, message string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("accepted, want %q", message)
	case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), message):
		t.Errorf("refused with %q, want %q", err, message)
	}
}

// judge checks that the API server accepted something, or refused it with the
// message.
func judge(t *testing.T, what string, err error, message string) {
	t.Helper()
	t.Run(what[:min(len(what), 60)], func(t *testing.T) {
		if message == "" {
			accept(t, err)
		} else {
			refuse(t, err, message)
		}
	})
}

// createPolicy sends a policy with a spec in JSON, which may lack match, as it
// stands, and keeps nothing. got is what the API server has made of it.
func createPolicy(t *testing.T, c client.Client, spec string, got *v1alpha1.RemedyPolicy) error {
	t.Helper()
	object := unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "judged"}}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RemedyPolicy"))
	fields := map[string]any{"match": []any{map[string]any{"type": "Ready", "status": "Unknown"}}}
	if err := json.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(spec, err)
	}
	object.Object["spec"] = fields
	if err := c.Create(t.Context(), &object, client.DryRunAll); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, got)
}

func nextEvent(t *testing.T, watcher watch.Interface) watch.Event {
	t.Helper()
	select {
	case event := <-watcher.ResultChan():
		return event
	case <-time.After(30 * time.Second):
		t.Fatal("no event in 30s")
		return watch.Event{}
	}
}

func actionNames(actions []v1alpha1.NodeAction) (names []string) {
	for _, action := range actions {
		names = append(names, action.Name)
	}
	return names
}

func createBudget(t *testing.T, c client.Client, name string, maxConcurrent intstr.IntOrString) *v1alpha1.RemediationBudget {
	t.Helper()
	b := &v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.RemediationBudgetSpec{MaxConcurrent: &maxConcurrent},
	}
	accept(t, c.Create(t.Context(), b))
	return b
}

func createAction(t *testing.T, c client.Client, name, node string) *v1alpha1.NodeAction {
	t.Helper()
	a := &v1alpha1.NodeAction{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NodeActionSpec{
			NodeName:       node,
			NodeUID:        "node-uid",
			Remediation:    "r1",
			RemediationUID: "r1-uid",
			Policy:         v1alpha1.PolicyReference{Name: "pleg", UID: "pleg-uid"},
			StepHash:       strings.Repeat("0f", 32),
			Step:           1,
			Attempt:        1,
			ExpiresAt:      metav1.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
		},
	}
	accept(t, c.Create(t.Context(), a))
	return a
}

func createRemediation(t *testing.T, c client.Client, name string) *v1alpha1.Remediation {
	t.Helper()
	r := &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.RemediationSpec{
			NodeName: "node-a",
			NodeUID:  "node-uid",
			Policy:   v1alpha1.PolicyReference{Name: "pleg", UID: "pleg-uid"},
			Trigger: v1alpha1.Trigger{
				Type: "PLEGUnhealthy", Status: corev1.ConditionTrue, Reason: "Timeout",
				LastTransitionTime: metav1.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			},
			Match:    []v1alpha1.ConditionMatch{{Type: "PLEGUnhealthy", Status: corev1.ConditionTrue}},
			Steps:    []v1alpha1.Step{{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/true"}}}},
			Recovery: v1alpha1.Recovery{HealthyFor: v1alpha1.Duration{Duration: time.Minute}},
		},
	}
	accept(t, c.Create(t.Context(), r))
	return r
}

// kubectl runs kubectl against the shared cluster and returns what it printed.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := clustertest.Shared(t).Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
