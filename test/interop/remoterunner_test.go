//go:build integration

package interop

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/runner/machines"
)

// remoteRunner runs the real one until the test ends, with its account and no other rights. Its remote.yaml
// allows these machines, and has no switch.
func (w *world) remoteRunner(allowed remote.Replace) {
	w.t.Helper()
	cfg := w.cluster.UserConfig("system:serviceaccount:" + namespace + ":nodemend-remote-runner")
	cfg.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/pod-name": {"nodemend-remote-runner-0"}}
	none := errors.New("there is no switch in these tests")
	w.spawn("remote runner", func(ctx context.Context) error {
		return runner.RunRemote(ctx, cfg, runner.RemoteOptions{
			Switch: func(*corev1.Node) (power.Switch, error) { return nil, none },
			Needed: func(*corev1.Node) (*corev1.Node, error) { return nil, none },
			Machines: machines.New(machines.Options{
				Config:    func() (*remote.Replace, error) { return &allowed, nil },
				Here:      func() (client.Client, error) { return client.New(cfg, client.Options{}) },
				Elsewhere: func(string) (client.Client, error) { return nil, errors.New("all machines are here") },
			}),
			Lead: func(ctx context.Context, _ string, lead func(context.Context) error) error { return lead(ctx) },
		})
	})
}

// replace is a step that has the machine replaced.
func replace() v1alpha1.Step {
	return v1alpha1.Step{Replace: &v1alpha1.ReplaceRemedy{}, Attempts: 1, Timeout: duration(10 * time.Minute), VerifyTimeout: duration(time.Second)}
}

// replaced is what the only action of the remediation says of the machine; nil: it says nothing yet.
func (w *world) replaced(policy, node string) *v1alpha1.ReplaceStatus {
	w.t.Helper()
	r := w.remediation(policy, node)
	if r == nil {
		return nil
	}
	var list v1alpha1.NodeActionList
	w.Expect(w.client.List(w.ctx, &list)).To(Succeed())
	for i := range list.Items {
		if a := &list.Items[i]; a.Spec.Remediation == r.Name && a.Status.Replace != nil {
			return a.Status.Replace
		}
	}
	return nil
}
