package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/ack"
	"github.com/nodemend/nodemend/internal/repairnote"
)

// hardwareNode is a node whose check reports this; none if the status is empty.
func hardwareNode(name string, status corev1.ConditionStatus, reason, message string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if status != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: hardwareFailure, Status: status, Reason: reason, Message: message}}
	}
	return n
}

// hardwareRemediation began with what the check said.
func hardwareRemediation(node, reason, message string, change ...func(*v1alpha1.Remediation)) v1alpha1.Remediation {
	r := v1alpha1.Remediation{Spec: v1alpha1.RemediationSpec{
		NodeName: node, Trigger: v1alpha1.Trigger{Type: hardwareFailure, Status: corev1.ConditionTrue, Reason: reason, Message: message},
	}}
	for _, c := range change {
		c(&r)
	}
	return r
}

func TestTheReportCountsWhatWouldHaveBeenTakenOut(t *testing.T) {
	const dimm = "DIMM_A1: uncorrectable ECC (SEL 0x07, 2026-11-21T05:48Z)"
	out := func(r *v1alpha1.Remediation) { r.Status.Maintenance = "m" }
	nodes := []corev1.Node{
		hardwareNode("w1", "True", "MemoryFailure", dimm+"; warning: PSU2: power supply AC lost"),
		hardwareNode("w2", "True", "MultipleFailures", "DIMM_B2: uncorrectable ECC (SEL 0x01); FAN1: 0 RPM, at or below lower critical"),
		hardwareNode("w3", "False", "HardwareHealthy", "no hardware failure: 7 of 7 sensors available, 1 SEL records"),
		hardwareNode("w4", "Unknown", "BMCUnreachable", "the BMC can't be read: no answer; known before: FAN2: absent"),
		hardwareNode("w5", "", "", ""),
	}
	remediations := []v1alpha1.Remediation{
		hardwareRemediation("w1", "MemoryFailure", dimm),
		hardwareRemediation("w1", "MemoryFailure", dimm), // the one before
		hardwareRemediation("w2", "MemoryFailure", "DIMM_B2: uncorrectable ECC (SEL 0x01)", out),
		hardwareRemediation("w3", "FanFailure", "FAN7: 120 RPM, at or below lower critical (SEL 0x02)"),
		hardwareRemediation("w3", "Burnt", "of somebody else's check"),
		hardwareRemediation("elsewhere", "MemoryFailure", dimm),
		hardwareRemediation("w3", "MemoryFailure", dimm, func(r *v1alpha1.Remediation) { r.Spec.Trigger.Type = "Ready" }),
	}
	policies := []v1alpha1.RemedyPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "kubelet"}}, {
		ObjectMeta: metav1.ObjectMeta{Name: "hardware-failure"},
		Spec:       v1alpha1.RemedyPolicySpec{Mode: v1alpha1.ModeDryRun, Match: []v1alpha1.ConditionMatch{{Type: "X"}, {Type: hardwareFailure}}},
	}}
	report := newFleetReport(nodes, remediations, policies)
	want := fleetReport{
		Failed: 2, Healthy: 1, Unknown: map[string]int{"BMCUnreachable": 1}, Silent: 1, Policies: []string{"hardware-failure (DryRun)"},
		Findings: []fleetFinding{
			{"at or below lower critical", 2, 1, 1, 0, []string{"w2 FAN1", "w3 FAN7"}},
			{"uncorrectable ECC", 2, 2, 1, 1, []string{"w1 DIMM_A1", "w2 DIMM_B2"}},
			{"Burnt", 1, 0, 1, 0, []string{"w3"}},
		},
	}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const text = `Nodes: 2 with failed hardware, 1 healthy, 1 unknown (BMCUnreachable 1), 1 that
    do not report it
Policies: hardware-failure (DryRun)

WHAT                         NODES   NOW   WOULD BE OUT   OUT   PARTS
at or below lower critical   2       1     1              0     w2 FAN1, w3 FAN7
uncorrectable ECC            2       2     1              1     w1 DIMM_A1, w2
                                                                DIMM_B2
Burnt                        1       0     1              0     w3
`
	if got := (&tool{}).reportText(report, false); got != text {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
	none := (&tool{}).reportText(newFleetReport(nil, nil, nil), false)
	if !strings.Contains(none, "none matches HardwareFailure") || !strings.HasSuffix(none, "\nnothing was found\n") {
		t.Errorf("of nothing: %s", none)
	}
}

func TestALineOfTheReportNamesFewParts(t *testing.T) {
	var nodes []corev1.Node
	for _, name := range []string{"w1", "w2", "w3", "w4", "w5"} {
		nodes = append(nodes, hardwareNode(name, "True", "FanFailure", "FAN1: absent"))
	}
	report := newFleetReport(nodes, nil, nil)
	if got := (&tool{}).reportText(report, false); !says(got, "w1 FAN1, w2 FAN1, w3 FAN1, and 2 more") {
		t.Error(got)
	}
	if got := (&tool{}).reportText(report, true); !strings.Contains(got, "w5 FAN1\n") {
		t.Error(got)
	}
}

// detectorPod is one as the chart makes it.
func detectorPod(node string, command, args []string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "nodemend-system", Name: "detector-" + node},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "other"}, {Name: "detector", Command: command, Args: args}}},
	}
}

func TestTheNodeIsAskedWithTheConfigurationOfItsDetector(t *testing.T) {
	for name, test := range map[string]struct {
		command, args []string
		want          string
	}{
		"without one":       {[]string{"/nodemend-agent"}, []string{"detector"}, "/nodemend-agent hardware describe"},
		"as the chart does": {[]string{"/nodemend-agent"}, []string{"detector", "--config=/config/detector.yaml", "-v=1"}, "/nodemend-agent hardware describe --config=/config/detector.yaml"},
		"in two words":      {[]string{"/nodemend", "detector", "--config", "/c.yaml"}, nil, "/nodemend hardware describe --config=/c.yaml"},
		"others' flags":     {[]string{"/nodemend", "detector", "--config.system-log-monitor=builtin:kernel"}, nil, "/nodemend hardware describe"},
	} {
		pod := detectorPod("w1", test.command, test.args)
		got, err := inPod(&pod, []string{"hardware", "describe"})
		if line := strings.Join(got, " "); err != nil || line != test.want {
			t.Errorf("%s: %q, %v; want %q", name, line, err, test.want)
		}
	}
	if _, err := inPod(&corev1.Pod{}, nil); err == nil {
		t.Error("a pod without a container")
	}
}

// bound returns a ClusterRoleBinding of Nodemend for ServiceAccounts of its name in these namespaces.
func bound(name string, namespaces ...string) *rbacv1.ClusterRoleBinding {
	b := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, namespace := range namespaces {
		b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace})
	}
	return b
}

func TestOnlyTheDetectorsOfNodemendAreAsked(t *testing.T) {
	pod := func(namespace, name, node, account string) client.Object {
		p := detectorPod(node, []string{"/nodemend-agent"}, nil)
		p.Namespace, p.Name, p.Spec.ServiceAccountName = namespace, name, account
		p.Labels = map[string]string{nameLabel: "nodemend", componentLabel: "detector"}
		return &p
	}
	pods := []client.Object{
		pod("aaa", "made-up", "w1", detectorAccount), // of a tenant
		pod("nodemend-system", "real", "w1", detectorAccount),
		pod("nodemend-system", "other", "w2", "default"),
		pod("zzz", "made-up", "w3", detectorAccount),
	}
	nodes := []corev1.Node{hardwareNode("w1", "True", "", ""), hardwareNode("w2", "True", "", "")}
	for name, tc := range map[string]struct {
		bindings []client.Object
		problem  string
	}{
		"installed":  {[]client.Object{bound("nodemend-detector", "nodemend-system"), bound("nodemend-controller", "nodemend-system")}, ""},
		"nowhere":    {nil, "there is none of the ClusterRoleBindings nodemend-detector"},
		"two places": {[]client.Object{bound("nodemend-detector", "nodemend-system", "old")}, "name the namespaces nodemend-system, old"},
	} {
		c := fake.NewClientBuilder().WithObjects(pods...).WithObjects(tc.bindings...).Build()
		found, err := (&tool{}).detectors(t.Context(), c, nodes)
		if tc.problem != "" {
			if err == nil || !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if p := found["w1"]; err != nil || len(found) != 1 || p.Namespace != "nodemend-system" || p.Name != "real" {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	if found, err := (&tool{}).detectors(t.Context(), fake.NewClientBuilder().Build(), nodes); err != nil || len(found) > 0 {
		t.Errorf("without a pod: %v, %v", found, err)
	}
}

func TestKubectlIsGivenWhatThisCommandWasGiven(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\nfor arg; do echo \"$arg\"; done\ncase \"$*\" in *broken*) echo 'no BMC found' >&2; echo 'command terminated with exit code 2' >&2; exit 2;; *detector-well*) echo 'nothing was acknowledged' >&2; exit 3;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	tl := &tool{}
	root := newRootCommand(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}, clock.RealClock{})
	tl.global = root.PersistentFlags()
	describe, _, err := root.Find([]string{"hardware", "describe"})
	if err != nil {
		t.Fatal(err)
	}
	if err := describe.ParseFlags([]string{"--context=prod", "--as-group=a", "--as-group=b"}); err != nil {
		t.Fatal(err)
	}
	detectors := map[string]corev1.Pod{
		"w1":     detectorPod("w1", []string{"/nodemend-agent"}, nil),
		"broken": detectorPod("broken", []string{"/nodemend-agent"}, nil),
		"well":   detectorPod("well", []string{"/nodemend-agent"}, nil),
	}
	got, err := tl.onNode(t.Context(), detectors, "w1", "hardware", "ack", "--reason=it's; $(done)")
	want := "exec\n--namespace=nodemend-system\ndetector-w1\n--container=detector\n--as-group=a\n--as-group=b\n--context=prod\n--\n/nodemend-agent\nhardware\nack\n--reason=it's; $(done)\n"
	if err != nil || got != want {
		t.Errorf("got\n%s%v, want\n%s", got, err, want)
	}
	if _, err := tl.onNode(t.Context(), detectors, "broken", "hardware", "describe"); err == nil || err.Error() != "pod nodemend-system/detector-broken: no BMC found" {
		t.Errorf("got %v", err)
	}
	if _, err := tl.onNode(t.Context(), detectors, "well", "hardware", "ack"); !errors.Is(err, errNoFailure) || !strings.Contains(err.Error(), "detector-well: nothing was acknowledged") {
		t.Errorf("got %v", err)
	}
	if _, err := tl.onNode(t.Context(), detectors, "w9", "hardware", "describe"); err == nil || !strings.Contains(err.Error(), "no pod of the detector") {
		t.Errorf("got %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := tl.onNode(t.Context(), detectors, "w1", "hardware", "describe"); err == nil || !strings.Contains(err.Error(), "running kubectl") {
		t.Errorf("got %v", err)
	}
}

func TestAnAcknowledgementSaysWhichFailuresAreMeant(t *testing.T) {
	for name, tc := range map[string]struct {
		flags     string
		one, many string // what is wrong; empty: nothing
	}{
		"nothing":   {"", "say which failures", "say with --what"},
		"a kind":    {"--kind=PowerSupply", "", ""},
		"a part":    {"--component=PSU1", "", ""},
		"a failure": {"--what=absent", "", ""},
		"seen":      {"--seen=5f0c21aa", "", "are for one node"},
		"all":       {"--all", "", "are for one node"},
		"a record":  {"--until=0x1a", "", "one server's SEL"},
		"no record": {"--kind=Fan --until=", "--until has no value", "one server's SEL"},
		"both":      {"--all --kind=Fan", "--all means all", "are for one node"},
	} {
		for one, want := range map[bool]string{true: tc.one, false: tc.many} {
			var which ack.Selection
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			which.AddTo(flags)
			if err := flags.Parse(strings.Fields(tc.flags)); err != nil {
				t.Fatal(err)
			}
			if err := checkSelection(&which, one); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s, of one %t: %v, want %q", name, one, err, want)
			}
		}
	}
}

func TestOfSeveralNodesSomeHaveNoSuchFailure(t *testing.T) {
	var out bytes.Buffer
	tl := &tool{streams: genericiooptions.IOStreams{Out: &out}}
	nodes := []corev1.Node{hardwareNode("w1", "True", "", ""), hardwareNode("w2", "True", "", ""), hardwareNode("w3", "True", "", "")}
	ask := func(_ context.Context, name string) (string, error) {
		switch name {
		case "w1":
			return "acknowledged PowerSupply PSU1: absent\nby jane; the detector looks again now\n", nil
		case "w2":
			return "", errNoFailure
		default:
			return "", errors.New("no answer")
		}
	}
	err := tl.eachNode(t.Context(), nodes, ask)
	const want = "node w1: acknowledged PowerSupply PSU1: absent\nnode w1: by jane; the detector looks again now\nnode w2: no such failure\n"
	if err == nil || err.Error() != "node w3: no answer" || out.String() != want {
		t.Errorf("%v, printed\n%s", err, out.String())
	}
	if err := tl.eachNode(t.Context(), nodes[:2], ask); err != nil {
		t.Error(err)
	}
	for _, without := range [][]corev1.Node{nodes[1:2], {nodes[1], nodes[1]}} {
		if err := tl.eachNode(t.Context(), without, ask); err == nil {
			t.Errorf("%d nodes without one are no error", len(without))
		}
	}
}

func TestATicketHasWhatIsKnown(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 21, 5, 48, 33, 0, time.UTC))
	n := hardwareNode("w1", "True", "MemoryFailure", "DIMM_A1: uncorrectable ECC (SEL 0x07)")
	n.Status.Conditions[0].LastTransitionTime = at
	n.Status.NodeInfo.SystemUUID, n.Spec.ProviderID = "4c4c4544-0032-3810-8052-b4c04f4a5731", "metal3://w1"
	r := hardwareRemediation("w1", "MemoryFailure", "DIMM_A1: uncorrectable ECC (SEL 0x07)", func(r *v1alpha1.Remediation) {
		r.Name, r.Spec.Policy.Name, r.CreationTimestamp, r.Status.State = "w1-1", "hardware-failure", at, "TakingOut"
	})
	other := hardwareRemediation("w1", "", "", func(r *v1alpha1.Remediation) { r.Spec.Trigger.Type = "Ready" })
	m := v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "w1-hardware", CreationTimestamp: at},
		Spec:       v1alpha1.NodeMaintenanceSpec{NodeName: "w1", Reason: "the BMC reports a hardware failure", RequestedBy: "jane"},
	}
	k := newTicket(&n, []v1alpha1.Remediation{other, r}, []v1alpha1.NodeMaintenance{m})
	k.BMC = "BMC       node-bmc\n\x1b[2Jraw 01\n"
	text := visible((&tool{}).ticketText(k))
	for _, want := range []string{
		"Node:              w1\n", "4c4c4544-0032-3810-8052-b4c04f4a5731\n", "metal3://w1\n",
		"True (MemoryFailure) since 2026-11-21T05:48:33Z\n", "w1-hardware since 2026-11-21T05:48:33Z for jane: the BMC reports a hardware failure; drain: not started",
		"w1-1 of policy hardware-failure since 2026-11-21T05:48:33Z", "began with MemoryFailure: DIMM_A1: uncorrectable ECC (SEL 0x07)\n",
		"\nFrom the node:\n    | BMC       node-bmc\n", "    | \ufffd[2Jraw 01\n",
	} {
		if !says(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Count(text, "Remediation:") != 1 {
		t.Errorf("remediations of other conditions are in\n%s", text)
	}
	if strings.Contains(text, "told last") {
		t.Errorf("a node that answers has told before:\n%s", text)
	}

	// The server is off.
	n.Status.Conditions[0].Message = repairnote.Join("DIMM_A1: uncorrectable ECC (SEL 0x07)", []string{"slot A1: serial 4711", "\x1b[2JSEL 0x07, record 07"})
	k = newTicket(&n, nil, []v1alpha1.NodeMaintenance{m})
	k.NotAsked = "no answer"
	const told = "\nWhat it has told last:\n    | slot A1: serial 4711\n    | \ufffd[2JSEL 0x07, record 07\n"
	if text := (&tool{}).ticketText(k); !strings.HasSuffix(text, told) || !strings.Contains(text, "DIMM_A1: uncorrectable ECC (SEL 0x07)\n") {
		t.Errorf("got\n%s", text)
	}
	// It is well again, or there is no such node any more.
	n.Status.Conditions[0].Message = "no hardware failure"
	m.Status.Evidence = []v1alpha1.Evidence{{Type: "Other", Details: []string{"x"}}, {Type: hardwareFailure, Details: []string{"slot A1: serial 4711", "\x1b[2JSEL 0x07, record 07"}}}
	k = newTicket(&n, nil, []v1alpha1.NodeMaintenance{m})
	k.NotAsked = "no answer"
	if text := (&tool{}).ticketText(k); !strings.HasSuffix(text, told) {
		t.Errorf("got\n%s", text)
	}

	n.Status.Conditions = nil
	k = newTicket(&n, nil, nil)
	k.NotAsked = "no pod\nof it"
	if text := (&tool{}).ticketText(k); !strings.Contains(text, "not reported") || !strings.Contains(text, "The node was not asked: no pod of it\n") {
		t.Errorf("got\n%s", text)
	}
}

func TestTheStatusOfAMaintenanceHasTheEvidence(t *testing.T) {
	m := v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: "w1", Reason: "r"},
		Status: v1alpha1.NodeMaintenanceStatus{Evidence: []v1alpha1.Evidence{{
			Type: hardwareFailure, Reason: "MemoryFailure", Since: metav1.NewTime(time.Date(2026, 11, 21, 5, 48, 33, 0, time.UTC)),
			Message: "DIMM_A1: uncorrectable ECC", Details: []string{"slot A1: serial 4711", "\x1b[2J"},
		}}},
	}
	tl := &tool{clock: clock.RealClock{}}
	const want = "\nHardwareFailure (MemoryFailure) since 2026-11-21T05:48:33Z, for the technician:\n" +
		"    | DIMM_A1: uncorrectable ECC\n    | slot A1: serial 4711\n    | \ufffd[2J\n"
	if text := tl.maintenanceText([]v1alpha1.NodeMaintenance{m}, true); !strings.HasSuffix(text, want) {
		t.Errorf("got\n%s", text)
	}
	if text := tl.maintenanceText([]v1alpha1.NodeMaintenance{m}, false); strings.Contains(text, "technician") {
		t.Errorf("in the list of all:\n%s", text)
	}
}
