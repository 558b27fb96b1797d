//go:build integration

package deploy_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	detectorconfig "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/test/helm"
)

// reported is the patch that has a node report its BMC like this.
func reported(value string) string {
	return `{"metadata":{"annotations":{"` + power.BMCAnnotation + `":"` + strings.ReplaceAll(value, `"`, `\"`) + `"}}}`
}

const atSeven = `{"addresses":["10.0.0.7"],"guid":"4c4c4544-0032-3810-8052-b4c04f4a5731"}`

// reportsBMC lets detectors report BMCs until the test ends: other tests ask what they may do without.
func (s *scene) reportsBMC(dryRun client.Client) {
	s.Helper()
	helm.Program(s.T)
	p := &props{scene: s}
	try := func() error { return patchStatus(s.ctx, dryRun, s.a.Name, reported(`{"addresses":["192.0.2.1"]}`)) } // what it does not say
	s.Cleanup(func() {
		s.ctx = context.WithoutCancel(s.ctx)
		s.install()
		s.untilRefused("nodemend-detector", try)
	})
	for _, obj := range rendered(s.T, "detector.reportBMC=true").ofKind("ValidatingAdmissionPolicy") {
		if obj.GetName() == "nodemend-detector" {
			s.must(s.admin.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(&obj), client.FieldOwner("test"), client.ForceOwnership))
		}
	}
	p.until(func() bool { return try() == nil })
}

// Who has this token can say where the BMC of its own node is, and write nothing else there.
func TestADetectorReportsTheBMCOfItsNodeIfThatIsAllowed(t *testing.T) {
	s := newScene(t)
	own := client.NewDryRunClient(s.client(s.account("detector", s.a)))
	unbound := client.NewDryRunClient(s.client(s.bound("detector", nil)))
	status := func(patch string) func() error {
		return func() error { return patchStatus(s.ctx, own, s.a.Name, patch) }
	}
	s.refused([]attempt{{"by default", "may write conditions only, not metadata.annotations", status(reported(atSeven))}})

	s.must(patchNode(s.ctx, s.admin, s.a.Name, `{"metadata":{"annotations":{"people":"say"}}}`))
	s.reportsBMC(own)
	merge := func(patch string) func() error {
		return func() error {
			return own.Status().Patch(s.ctx, named(s.a.Name), client.RawPatch(types.MergePatchType, []byte(patch)))
		}
	}
	for what, try := range map[string]func() error{
		"an address":         status(reported(`{"addresses":["10.0.0.7"]}`)),
		"several, of IPv6":   status(reported(`{"addresses":["10.0.0.7","fd00::7","2001:db8::7","::ffff:10.0.0.8"],"guid":"4c4c4544-0032-3810-8052-b4c04f4a5731"}`)),
		"with a condition":   status(strings.TrimSuffix(reported(atSeven), "}") + `,` + strings.TrimPrefix(condition(fault, "False"), "{")),
		"a condition, alone": status(condition(fault, "False")),
	} {
		if err := try(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	const ours, text = "may write conditions, and the annotation nodemend.dev/bmc, only, not metadata.", "may write addresses and a GUID into the annotation nodemend.dev/bmc, and may not delete it"
	s.refused([]attempt{
		{"of node B", "may not write the status of node " + s.b.Name, func() error { return patchStatus(s.ctx, own, s.b.Name, reported(atSeven)) }},
		{"a token of no pod", "not bound to a pod", func() error { return patchStatus(s.ctx, unbound, s.a.Name, reported(atSeven)) }},
		{"another annotation", ours + "annotations.nodemend.dev/cordoned-for", status(`{"metadata":{"annotations":{"nodemend.dev/cordoned-for":"m"}}}`)},
		{"one of two", ours + "annotations.a", status(`{"metadata":{"annotations":{"` + power.BMCAnnotation + `":"{\"addresses\":[\"10.0.0.7\"]}","a":"b"}}}`)},
		{"people's, changed", ours + "annotations.people", status(`{"metadata":{"annotations":{"people":"lie"}}}`)},
		{"people's, deleted", ours + "annotations.people", merge(`{"metadata":{"annotations":{"people":null}}}`)},
		{"all, deleted", ours + "annotations.people", merge(`{"metadata":{"annotations":null}}`)},
		{"label", ours + "labels", status(`{"metadata":{"labels":{"a":"b"}}}`)},
		{"finalizer", ours + "finalizers", status(`{"metadata":{"finalizers":["a/b"]}}`)},
		{"a name", text, status(reported(`{"addresses":["bmc.example.com"]}`))},
		{"no address", text, status(reported(`{"addresses":[]}`))},
		{"other fields", text, status(reported(`{"addresses":["10.0.0.7"],"user":"admin"}`))},
		{"any text", text, status(reported("all is well"))},
		{"an empty one", text, status(reported(""))},
		{"a long one", text, status(reported(`{"addresses":["` + strings.Repeat("1", 600) + `"]}`))},
		{"Ready with it", "its own conditions only, not Ready", status(strings.TrimSuffix(reported(atSeven), "}") + `,` + strings.TrimPrefix(condition("Ready", "False"), "{"))},
	})
	s.must(patchStatus(s.ctx, s.admin, s.a.Name, reported(atSeven)))
	s.refused([]attempt{{"its deletion", text, merge(`{"metadata":{"annotations":{"` + power.BMCAnnotation + `":null}}}`)}})
}

// One value is the right, and has the detectors use it, beside what else their configuration says.
func TestTheChartHasDetectorsReportTheirBMCs(t *testing.T) {
	helm.Program(t)
	const value, other = "detector.reportBMC=true", "detector.config.checks.hardware.interval=4m"
	for name, tt := range map[string]struct {
		values          []string
		config, reports bool
		interval        time.Duration
	}{
		"by default":             {nil, false, false, 0},
		"reports":                {[]string{value}, true, true, 5 * time.Minute},
		"reports, configured":    {[]string{value, other}, true, true, 4 * time.Minute},
		"configured":             {[]string{other}, true, false, 4 * time.Minute},
		"reports, of host units": {[]string{value, "hostUnits.enabled=true"}, false, false, 0},
	} {
		objects := rendered(t, tt.values...)
		found := false
		for _, obj := range objects.ofKind("ConfigMap") {
			if obj.GetName() != "nodemend-detector" {
				continue
			}
			found = true
			text, _, err := unstructured.NestedString(obj.Object, "data", "detector.yaml")
			if err != nil {
				t.Fatal(err)
			}
			c, err := detectorconfig.Parse("detector.yaml", []byte(text))
			if hardware := c.Checks.Hardware; err != nil || hardware.ReportBMC != tt.reports || hardware.Interval.Duration != tt.interval {
				t.Errorf("%s: %+v, %v", name, hardware, err)
			}
		}
		for pod, spec := range pods(t, objects) {
			if strings.HasPrefix(pod, "detector") && slices.Contains(spec.Containers[0].Args, "--config=/config/detector.yaml") != tt.config {
				t.Errorf("%s: %s has the arguments %q", name, pod, spec.Containers[0].Args)
			}
		}
		if found != tt.config {
			t.Errorf("%s: there is a ConfigMap: %t", name, found)
		}
	}
}

// The whole of it, with its own token on a real API server: without the right conditions are written as
// ever; with it the address is where the remote runner looks for it.
func TestWhatADetectorReportsOfItsBMCIsWhereTheRemoteRunnerAsks(t *testing.T) {
	s := newScene(t)
	account := s.account("detector", s.a)
	until := func(what string, done func(node *corev1.Node) bool) *corev1.Node {
		t.Helper()
		node := &corev1.Node{}
		err := wait.PollUntilContextTimeout(s.ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
			err := s.admin.Get(ctx, key(s.a), node)
			return err == nil && done(node), err
		})
		if err != nil {
			t.Fatalf("%s: %v; the node has %v", what, err, node.Annotations)
		}
		return node
	}
	guid, err := power.ParseGUID("4c4c4544-0032-3810-8052-b4c04f4a5731")
	s.must(err)
	report := power.ReportedBMC{Addresses: []netip.Addr{netip.MustParseAddr("192.168.0.120"), netip.MustParseAddr("10.0.0.7")}, GUID: &guid}

	s.detect(account, s.a).ReportBMC(report)
	node := until("conditions without the right", func(node *corev1.Node) bool {
		return reason(node, fault) == "Broken" && reason(node, newCondition) == "Broken"
	})
	if node.Annotations[power.BMCAnnotation] != "" {
		t.Errorf("written without the right: %v", node.Annotations)
	}

	s.reportsBMC(client.NewDryRunClient(s.client(account)))
	s.detect(account, s.a).ReportBMC(report) // as a new pod does
	node = until("the annotation", func(node *corev1.Node) bool { return node.Annotations[power.BMCAnnotation] != "" })
	config, err := remote.Parse("remote.yaml", []byte("switches:\n- ipmi: {reportedIn: [10.0.0.0/24], user: fence, passwordFile: /p}\n"))
	s.must(err)
	if found, err := config.Switch(remote.NodeOf(node)); err != nil || found.String() != "ipmi://10.0.0.7:623" {
		t.Errorf("asked is %v, %v, by %v", found, err, node.Annotations)
	}
}
