//go:build integration

package deploy_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/checks/remote"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/test/helm"
)

// fromOutside are the values with a remote detector.
var fromOutside = []string{
	"remoteDetector.enabled=true", "remoteDetector.config.controlPlaneEndpoint.enabled=true", "remoteDetector.secrets[0]=endpoints",
	"remoteDetector.conditions[0]=ControlPlaneEndpointUnhealthy", "remoteDetector.conditions[1]=NodeDiskAlert",
}

// notified are the values with a remote detector that Alertmanagers notify.
var notified = append([]string{"remoteDetector.config.alerts.webhook.address=:9108", "remoteDetector.config.alerts.conditions[0].type=NodeDiskAlert"}, fromOutside...)

// remoteDetector installs what a remote detector adds, but its workload, and returns the config of
// its pod on node B.
func (s *scene) remoteDetector() *rest.Config {
	s.Helper()
	helm.Program(s.T)
	for _, obj := range rendered(s.T, fromOutside...) {
		if strings.HasPrefix(obj.GetName(), "nodemend-remote-detector") && obj.GetKind() != "Deployment" {
			s.must(s.admin.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(&obj), client.FieldOwner("test"), client.ForceOwnership))
		}
	}
	account := s.account("remote-detector", s.b)
	own := s.client(account)
	p := &props{scene: s}
	p.until(func() bool { // rights and policy are in force
		refused := patchStatus(s.ctx, client.NewDryRunClient(own), s.a.Name, condition("Ready", "False"))
		return refused != nil && strings.Contains(refused.Error(), "the remote detector may write") && own.List(s.ctx, &corev1.NodeList{}) == nil &&
			client.NewDryRunClient(own).Create(s.ctx, lease("any")) == nil
	})
	return account
}

// Who has this token can say how nodes look from outside, and nothing else of them.
func TestTheRemoteDetectorWritesItsConditionsAlone(t *testing.T) {
	s := newScene(t)
	own := s.client(s.remoteDetector())
	unbound := s.client(s.bound("remote-detector", nil))
	const seen, alert = config.ControlPlaneEndpointUnhealthy, "NodeDiskAlert"
	const ours = "the remote detector may write "
	const listed = ours + "ControlPlaneEndpointUnhealthy, NodeDiskAlert only, not "
	status := func(node, patch string) func() error {
		return func() error { return patchStatus(s.ctx, client.NewDryRunClient(own), node, patch) }
	}
	raw := func(patchType types.PatchType, patch string) func() error {
		return func() error {
			return client.NewDryRunClient(own).Status().Patch(s.ctx, named(s.a.Name), client.RawPatch(patchType, []byte(patch)))
		}
	}
	for what, try := range map[string]func() error{
		"of node A":      status(s.a.Name, condition(seen, "True")),
		"of node B":      status(s.b.Name, condition(seen, "False")),
		"the other type": status(s.a.Name, condition(alert, "Unknown")),
		"both":           status(s.a.Name, `{"status":{"conditions":[{"type":"`+seen+`","status":"True"},{"type":"`+alert+`","status":"True"}]}}`),
		"watch nodes": func() error {
			list := &corev1.NodeList{}
			return own.List(s.ctx, list)
		},
	} {
		if err := try(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.must(patchStatus(s.ctx, own, s.a.Name, condition(seen, "True")))
	if err := status(s.a.Name, `{"status":{"conditions":[{"$patch":"delete","type":"`+seen+`"}]}}`)(); err != nil {
		t.Errorf("removal of its own: %v", err)
	}
	s.refused([]attempt{
		{"a condition of a check", listed + fault, status(s.a.Name, condition(fault, "False"))},
		{"a new condition", listed + "Other", status(s.a.Name, condition("Other", "True"))},
		{"Ready", listed + "Ready", status(s.a.Name, condition("Ready", "False"))},
		{"one of two", listed + "Ready", status(s.a.Name, `{"status":{"conditions":[{"type":"`+seen+`","status":"True"},{"type":"Ready","status":"False"}]}}`)},
		{"deletion of Ready", listed + "Ready", status(s.a.Name, `{"status":{"conditions":[{"$patch":"delete","type":"Ready"}]}}`)},
		{"deletion of all", listed, raw(types.MergePatchType, `{"status":{"conditions":[]}}`)},
		{"two of one type", "one condition of each type", raw(types.JSONPatchType, `[{"op":"add","path":"/status/conditions/-","value":{"type":"`+alert+`","status":"True"}},{"op":"add","path":"/status/conditions/-","value":{"type":"`+alert+`","status":"False"}}]`)},
		{"another status", "with the status True, False or Unknown", status(s.a.Name, condition(seen, "Maybe"))},
		{"a long message", "a message of 4096 characters at most", status(s.a.Name, `{"status":{"conditions":[{"type":"`+seen+`","status":"True","message":"`+strings.Repeat("x", 5000)+`"}]}}`)},
		{"label", ours + "conditions only, not metadata.labels", status(s.a.Name, `{"metadata":{"labels":{"a":"b"}}}`)},
		{"annotation with a condition", ours + "conditions only, not metadata.annotations", status(s.a.Name, `{"metadata":{"annotations":{"a":"b"}},"status":{"conditions":[{"type":"`+seen+`","status":"False"}]}}`)},
		{"finalizer", ours + "conditions only, not metadata.finalizers", status(s.a.Name, `{"metadata":{"finalizers":["example.com/stuck"]}}`)},
		{"capacity", ours + "conditions only, not status.", status(s.a.Name, `{"status":{"capacity":{"cpu":"1000"}}}`)},
		{"addresses", ours + "conditions only, not status.addresses", status(s.a.Name, `{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}`)},
		{"a token of no pod", "not bound to a pod", func() error { return patchStatus(s.ctx, unbound, s.a.Name, condition(seen, "False")) }},
		{"taint", `cannot patch resource "nodes"`, func() error {
			return own.Patch(s.ctx, named(s.a.Name), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"taints":[]}}`)))
		}},
		{"delete of a node", `cannot delete resource "nodes"`, func() error { return own.Delete(s.ctx, named(s.a.Name)) }},
		{"a secret", `cannot get resource "secrets"`, func() error { return own.Get(s.ctx, key(secret("any")), &corev1.Secret{}) }},
		{"events", `cannot create resource "events"`, func() error { return own.Create(s.ctx, remoteEvent("Node", s.a.Name)) }},
		{"another's Lease", `cannot update resource "leases"`, func() error { return own.Update(s.ctx, lease("nodemend-controller")) }},
	})
}

// A node does not say how it is seen from outside.
func TestTheDetectorOfANodeDoesNotWriteWhatTheRemoteOneSees(t *testing.T) {
	helm.Program(t)
	for _, values := range [][]string{nil, fromOutside} {
		for _, obj := range rendered(t, values...) {
			if obj.GetKind() != "ValidatingAdmissionPolicy" || obj.GetName() != "nodemend-detector" {
				continue
			}
			text, err := obj.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(text), "NodeDiskAlert"); got != (values != nil) {
				t.Errorf("with %v the policy names the remote detector's conditions: %t", values, got)
			}
		}
	}
}

// The whole of it, with its own token on a real API server: what nobody answers at is found, and
// a restart resets nothing.
func TestARemoteDetectorSetsConditionsOfNodesItDoesNotRunOn(t *testing.T) {
	s := newScene(t)
	account := s.remoteDetector()
	c := config.DefaultRemote()
	e := &c.ControlPlaneEndpoint
	e.Enabled, e.NodeSelector, e.Port, e.FailureThreshold = true, "kubernetes.io/hostname="+s.a.Name, 1, 1
	e.Interval.Duration, e.Timeout.Duration = time.Second, 10*time.Second
	s.must(patchNode(s.ctx, s.admin, s.a.Name, `{"metadata":{"labels":{"kubernetes.io/hostname":"`+s.a.Name+`"}}}`))
	s.must(patchStatus(s.ctx, s.admin, s.a.Name, `{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"}]}}`))
	var since time.Time
	for range 2 {
		ctx, cancel := context.WithCancel(s.ctx)
		done := make(chan error, 1)
		began := time.Now().Truncate(time.Second)
		go func() {
			done <- remote.Run(ctx, remote.Options{
				Config: c, Client: account, Registry: prometheus.NewRegistry(),
				Lead: func(ctx context.Context, _ string, lead func(context.Context) error) error { return lead(ctx) },
			})
		}()
		err := wait.PollUntilContextTimeout(s.ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
			node := &corev1.Node{}
			if err := s.admin.Get(ctx, key(s.a), node); err != nil {
				return false, err
			}
			for _, c := range node.Status.Conditions {
				if c.Type == config.ControlPlaneEndpointUnhealthy && !c.LastHeartbeatTime.Time.Before(began) {
					if c.Status != corev1.ConditionUnknown || c.Reason != remote.ReasonNoOtherHealthy || !since.IsZero() && !c.LastTransitionTime.Time.Equal(since) {
						t.Errorf("it is %+v, want Unknown since %s", c, since)
					}
					since = c.LastTransitionTime.Time
					return true, nil
				}
			}
			return false, nil
		})
		cancel()
		if ended := <-done; err != nil || ended != nil {
			t.Fatalf("no condition was written: %v, %v", err, ended)
		}
	}
	other := &corev1.Node{}
	if err := s.admin.Get(s.ctx, key(s.b), other); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if got := reason(other, config.ControlPlaneEndpointUnhealthy); got != "" {
		t.Errorf("node B, which is not selected, has %s", got)
	}
}

func TestTheRemoteDetectorIsOffUnlessItIsWanted(t *testing.T) {
	helm.Program(t)
	for _, obj := range rendered(t) {
		if strings.Contains(obj.GetName(), "remote-detector") {
			t.Errorf("there is %s %s", obj.GetKind(), obj.GetName())
		}
	}
	pod, found := pods(t, rendered(t, fromOutside...))["remote-detector"]
	if !found {
		t.Fatal("there is none")
	}
	c := pod.Containers[0]
	if pod.HostNetwork || pod.HostPID || !*pod.SecurityContext.RunAsNonRoot || *c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem || *pod.AutomountServiceAccountToken {
		t.Error("the remote detector has privileges")
	}
	mounted := false
	for _, mount := range c.VolumeMounts {
		mounted = mounted || mount.MountPath == "/etc/nodemend/endpoints" && mount.ReadOnly
	}
	if !mounted {
		t.Errorf("the Secret is not mounted: %v", c.VolumeMounts)
	}
	for _, values := range [][]string{fromOutside, notified} {
		services := 0
		for _, obj := range rendered(t, values...) {
			if obj.GetKind() == "Service" && obj.GetName() == "nodemend-remote-detector" {
				services++
			}
		}
		ports := pods(t, rendered(t, values...))["remote-detector"].Containers[0].Ports
		at := slices.IndexFunc(ports, func(p corev1.ContainerPort) bool { return p.Name == "alerts" && p.ContainerPort == 9108 })
		if is := len(values) == len(notified); (services == 1) != is || (at >= 0) != is {
			t.Errorf("with %v there are %d Services, and the ports %v", values, services, ports)
		}
	}
}
