//go:build integration

package perf

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/process"
)

const (
	// fences is how many nodes have a BMC.
	fences = 5000
	// password is that of all of them.
	password = "sixteen letters!"
	// addressOf is the label by which their addresses are found.
	addressOf = "node-restriction.kubernetes.io/bmc"
)

// BenchmarkFences runs the remote runner as in production beside 5,000 nodes, each with a BMC, and has
// people ask it to try them all now, which in peace it does within an hour. It needs -benchtime=1x.
func BenchmarkFences(b *testing.B) {
	c := clustertest.Shared(b)
	s := &scene{b: b, ctx: b.Context(), config: c.Config, kubeconfig: c.Kubeconfig}
	var err error
	if s.client, err = client.NewWithWatch(c.Config, client.Options{}); err != nil {
		b.Fatal(err)
	}
	s.path = s.build()
	rack := newRack(b)
	s.grow(fences)
	number, hosts := map[string]int{}, make([]string, len(s.nodes))
	for i, name := range s.nodes {
		number[name], hosts[i] = i, name+": "+rack.host(i)
	}
	s.parallel(s.nodes, func(ctx context.Context, name string) error {
		i := number[name]
		if err := s.merge(ctx, name, "", map[string]any{"metadata": map[string]any{"labels": map[string]any{addressOf: rack.host(i)}}}); err != nil {
			return err
		}
		return s.merge(ctx, name, "status", map[string]any{"status": map[string]any{"nodeInfo": map[string]any{"systemUUID": rack.machine(i)}}})
	})
	for _, way := range []struct{ name, text string }{
		{"by-label", `host: "{label:` + addressOf + `}"`},
		{"listed", "hosts: {" + strings.Join(hosts, ", ") + "}"},
	} {
		b.Run(way.name, func(b *testing.B) {
			s.b = b
			s.tryFences(rack, way.text)
		})
	}
}

// tryFences measures a remote runner whose remote.yaml finds the BMCs in this way.
func (s *scene) tryFences(rack *rack, way string) {
	s.parallel(s.nodes, func(ctx context.Context, name string) error { // as if nobody had tried them
		forgotten := map[string]any{"$patch": "delete", "type": v1alpha1.NodeFenceable}
		return s.merge(ctx, name, "status", map[string]any{"status": map[string]any{"conditions": []any{forgotten}}})
	})
	rack.forget()
	p := s.startRemote(rack, way)
	defer s.stop(p)
	s.pause(s.ctx, idle) // the start is over
	s.b.ReportMetric(s.memory(p, "VmRSS"), "rss-idle-MiB")

	began, before, cpu := time.Now(), rack.counted(), s.cpu(p)
	s.parallel(s.nodes, func(ctx context.Context, name string) error {
		asked := map[string]any{v1alpha1.FenceCheckAnnotation: began.UTC().Format(time.RFC3339)}
		return s.merge(ctx, name, "", map[string]any{"metadata": map[string]any{"annotations": asked}})
	})
	select {
	case <-before.all:
	case <-p.Exited:
	case <-s.ctx.Done():
	}
	took := time.Since(began)
	s.pause(s.ctx, idle) // the last answers are written
	after := rack.counted()
	checks := float64(after.reads - before.reads)
	s.b.ReportMetric(took.Seconds(), "s-for-all")
	s.b.ReportMetric((s.cpu(p)-cpu).Seconds()*1000/checks, "cpu-ms/check")
	s.b.ReportMetric(float64(after.requests-before.requests)/checks, "requests/check")
	s.b.ReportMetric(float64(after.top), "at-once")
	s.b.ReportMetric(s.memory(p, "VmRSS"), "rss-MiB")
	s.b.ReportMetric(s.memory(p, "VmHWM"), "rss-peak-MiB")

	var nodes corev1.NodeList
	if err := s.client.List(s.ctx, &nodes); err != nil {
		s.b.Fatal(err)
	}
	would := 0
	for i := range nodes.Items {
		if c := v1alpha1.FindNodeCondition(&nodes.Items[i], v1alpha1.NodeFenceable); c != nil && c.Status == corev1.ConditionTrue {
			would++
		}
	}
	if would != fences {
		tail, _ := process.Tail(p.log, 4000)
		s.b.Fatalf("%d of %d nodes are fenceable: %s", would, fences, tail)
	}
}

// startRemote starts the remote runner as in production, but for the addresses and the election.
func (s *scene) startRemote(rack *rack, way string) program {
	dir := s.b.TempDir()
	secret, config := filepath.Join(dir, "password"), filepath.Join(dir, "remote.yaml")
	text := fmt.Sprintf("switches:\n- ipmi: {port: %d, user: fence, passwordFile: %s, %s}\n", rack.port, secret, way)
	for file, content := range map[string]string{secret: password, config: text} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			s.b.Fatal(err)
		}
	}
	p := program{log: filepath.Join(dir, "log")}
	log, err := os.Create(p.log)
	if err != nil {
		s.b.Fatal(err)
	}
	cmd := exec.CommandContext(s.ctx, s.path, "runner", "--remote", "--kubeconfig="+s.kubeconfig, "--config="+config,
		"--leader-election=false", "--metrics-address=", "--health-address=")
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.Process, err = process.Start(cmd, log); err != nil {
		s.b.Fatal(err)
	}
	return p
}

// merge changes a node, or a subresource of it.
func (s *scene) merge(ctx context.Context, name, subresource string, change map[string]any) error {
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	node, patch := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.StrategicMergePatchType, data)
	if subresource == "" {
		return s.client.Patch(ctx, node, patch)
	}
	return s.client.SubResource(subresource).Patch(ctx, node, patch)
}
