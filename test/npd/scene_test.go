//go:build integration

package npd

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	cpmtypes "k8s.io/node-problem-detector/pkg/custompluginmonitor/types"
	"k8s.io/node-problem-detector/pkg/types"

	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

const (
	// patience bounds every wait: only what hangs needs it.
	patience = 5 * time.Minute
	poll     = 50 * time.Millisecond

	// The ports that both programs listen on unless they are told others.
	healthPort, metricsPort = "20256", "20257"

	// sceneEnv marks, in the environment, all processes of a scene.
	sceneEnv = "NODEMEND_TEST_SCENE"
)

// scene is a Node, and a machine as far as a program sees one.
type scene struct {
	*WithT
	t       *testing.T
	program program
	dir     string
	// node is the name of the Node.
	node       string
	core       *corev1client.CoreV1Client
	kubeconfig string
	// address is the scene's own, for both ports.
	address string
	// monitors are flags, env variables of the environment.
	monitors, env            []string
	processes, rules, fences int
}

func newScene(t *testing.T, p program) *scene {
	t.Helper()
	cluster := clustertest.Shared(t)
	core, err := corev1client.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	id := rand.Uint32()
	s := &scene{
		WithT: NewWithT(t), t: t, program: p, dir: t.TempDir(), core: core, kubeconfig: cluster.Kubeconfig,
		node:    fmt.Sprintf("node-%08x", id),
		address: fmt.Sprintf("127.%d.%d.%d", id>>24, id>>16&0xff, 1+id>>8&0x7f),
	}
	s.SetDefaultEventuallyTimeout(patience)
	s.SetDefaultEventuallyPollingInterval(poll)
	t.Cleanup(s.killAll)
	s.Expect(os.Mkdir(s.path("bin"), 0o700)).To(Succeed())
	// Nothing may get at the machine's own.
	s.command("systemctl", "exit 1")
	s.command("pkill", "exit 1")
	return s
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

// command puts a script first in the programs' PATH. Its calls are recorded.
func (s *scene) command(name, body string) {
	s.t.Helper()
	s.script(filepath.Join("bin", name), fmt.Sprintf("echo \"$*\" >> %s\n%s", s.path(name+".calls"), body))
}

// calls returns the arguments of all calls of a command.
func (s *scene) calls(name string) []string { return s.lines(name + ".calls") }

func (s *scene) script(name, body string) (path string) {
	s.t.Helper()
	path = s.path(name)
	s.Expect(os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700)).To(Succeed())
	return path
}

// lines returns the lines of a file that may not exist yet.
func (s *scene) lines(name string) []string {
	data, err := os.ReadFile(s.path(name))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// touch makes an empty file, by which a test tells a plugin something.
func (s *scene) touch(name string) {
	s.t.Helper()
	s.Expect(os.WriteFile(s.path(name), nil, 0o600)).To(Succeed())
}

// killAll kills all that is left of the scene's processes, also those that have
// left their session.
func (s *scene) killAll() {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	s.Expect(err).NotTo(HaveOccurred())
	for _, path := range environments {
		environment, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && strings.Contains("\x00"+string(environment), "\x00"+sceneEnv+"="+s.dir+"\x00") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// createNode makes the Node, with these conditions.
func (s *scene) createNode(conditions ...corev1.NodeCondition) {
	s.t.Helper()
	nodes := s.core.Nodes()
	node, err := nodes.Create(s.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}, metav1.CreateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	s.t.Cleanup(func() {
		s.Expect(nodes.Delete(context.WithoutCancel(s.t.Context()), s.node, metav1.DeleteOptions{})).To(Succeed())
	})
	if len(conditions) > 0 {
		node.Status.Conditions = conditions
		_, err = nodes.UpdateStatus(s.t.Context(), node, metav1.UpdateOptions{})
		s.Expect(err).NotTo(HaveOccurred())
	}
}

// condition returns a condition of the Node; a zero one if it lacks it.
func (s *scene) condition(conditionType corev1.NodeConditionType) (corev1.NodeCondition, error) {
	node, err := s.core.Nodes().Get(s.t.Context(), s.node, metav1.GetOptions{})
	if err != nil {
		return corev1.NodeCondition{}, err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == conditionType {
			return c, nil
		}
	}
	return corev1.NodeCondition{}, nil
}

// events returns how often events with this reason were written about the Node.
func (s *scene) events(reason string) (count int) {
	s.t.Helper()
	list, err := s.core.Events(metav1.NamespaceDefault).List(s.t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + s.node + ",reason=" + reason,
	})
	s.Expect(err).NotTo(HaveOccurred())
	for _, e := range list.Items {
		count += int(max(1, e.Count))
	}
	return count
}

// detectorConfig writes the detector's own configuration: checks are off, and
// heartbeats are so short that tests see them.
func (s *scene) detectorConfig() (path string) {
	s.t.Helper()
	path = s.path("detector.yaml")
	s.Expect(os.WriteFile(path, fmt.Appendf(nil, `
heartbeat: {interval: 1s, problemInterval: 1s}
stateFile: %s
socket: ""
checks:
  only: [hardware]
customPlugins: {allowRepair: %t}
`, s.path("state.json"), s.program.repairs), 0o600)).To(Succeed())
	return path
}

// healthyReason is what a condition of plugins has as its reason while it is
// False, and failedReason while it is True.
func healthyReason(condition string) string { return "No" + condition }
func failedReason(condition string) string  { return condition + "Found" }

// rule is a rule that sets a condition by a script, of which each start is recorded.
func (s *scene) rule(condition, script string) *cpmtypes.CustomRule {
	s.t.Helper()
	s.rules++
	name := fmt.Sprintf("%s-%d", condition, s.rules)
	path := s.script(name, fmt.Sprintf("date +%%s >> %s.runs\n%s", s.path(condition), script))
	return &cpmtypes.CustomRule{Type: types.Perm, Condition: condition, Reason: failedReason(condition), Path: path}
}

// runs returns when the plugins of a condition were started.
func (s *scene) runs(condition string) (starts []time.Time) {
	for _, line := range s.lines(condition + ".runs") {
		seconds, _ := strconv.ParseInt(line, 10, 64)
		starts = append(starts, time.Unix(seconds, 0))
	}
	return starts
}

// plugins returns a configuration of custom plugins.
func plugins(interval, timeout string, rules ...*cpmtypes.CustomRule) (c cpmtypes.CustomPluginConfig) {
	c.Plugin, c.Source = "custom", "test"
	c.PluginGlobalConfig.InvokeIntervalString, c.PluginGlobalConfig.TimeoutString = &interval, &timeout
	c.Rules = rules
	known := map[string]bool{}
	for _, r := range rules {
		if !known[r.Condition] {
			c.DefaultConditions = append(c.DefaultConditions, types.Condition{Type: r.Condition, Reason: healthyReason(r.Condition), Message: "fine"})
		}
		known[r.Condition] = true
	}
	return c
}

// customPlugins has the scene's program run a configuration.
func (s *scene) customPlugins(c cpmtypes.CustomPluginConfig) {
	s.t.Helper()
	data, err := json.Marshal(c)
	s.Expect(err).NotTo(HaveOccurred())
	s.monitor("custom-plugin-monitor", string(data))
}

// monitor has the scene's program run a monitor with this configuration.
func (s *scene) monitor(kind, config string) {
	s.t.Helper()
	path := s.path(fmt.Sprintf("monitor-%d.json", len(s.monitors)))
	s.Expect(os.WriteFile(path, []byte(config), 0o600)).To(Succeed())
	s.monitors = append(s.monitors, "--config."+kind+"="+path)
}
