//go:build integration

package newcomer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/criserver"
	"github.com/nodemend/nodemend/test/helm"
	"github.com/nodemend/nodemend/test/process"
)

const (
	namespace = "nodemend-system"
	// patience bounds every wait: a test that needs it has failed.
	patience = 2 * time.Minute
	poll     = 100 * time.Millisecond
	grace    = 20 * time.Second
)

// detectorConfig is faster than the defaults. There is no real kubelet here, and
// never the BMC of this machine.
const detectorConfig = `
heartbeat: {problemInterval: 1s}
stateFile: ""
socket: ""
checks:
  only: [runtime]
  runtime: {endpoint: "unix://%s", interval: 1s, timeout: 500ms, startupGrace: 0s}
`

// scene is a control plane of its own with nodes that kwok plays. On one of them
// detector and runner are real, as is the controller: kwok's pods are only what their
// tokens are bound to.
type scene struct {
	*testing.T
	ctx        context.Context
	cluster    *cluster.Cluster
	client     kubernetes.Interface
	dir        string
	node       string
	conditions map[string]bool // that a node had before
	runtime    *criserver.Server
	roles      []*process.Process
	plugin     string // the program, once it was built
	programs   string // a directory that has those of a release; empty: they are built
}

func newScene(t *testing.T) *scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	t.Cleanup(cancel)
	dir, err := os.MkdirTemp("", "nodemend-newcomer-") //nolint:usetesting // a unix socket's path has 108 characters
	s := &scene{T: t, ctx: ctx, dir: dir, conditions: map[string]bool{}}
	s.must(err)
	s.Cleanup(func() { s.must(os.RemoveAll(dir)) })

	s.cluster, err = cluster.Start(ctx, cluster.Options{
		ControllerManager: true, Scheduler: true, Kwok: true,
		ExtraArgs: map[string][]string{"kwok": {"--node-lease-duration-seconds=8"}},
	})
	s.must(err)
	s.Cleanup(func() { s.must(s.cluster.Stop()) })
	s.client, err = kubernetes.NewForConfig(s.cluster.Config)
	s.must(err)
	nodes, err := s.cluster.AddNodes(ctx, 4, "worker", map[string]string{corev1.LabelOSStable: "linux"})
	s.must(err)
	s.node = nodes[0]
	for _, condition := range s.get(s.node).Status.Conditions {
		s.conditions[string(condition.Type)] = true
	}
	s.runtime, err = criserver.Start(ctx, filepath.Join(dir, "cri.sock"), criserver.Options{})
	s.must(err)
	s.Cleanup(s.runtime.Stop)
	return s
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) kubectl(args ...string) string {
	s.Helper()
	out, err := s.cluster.Kubectl(s.ctx, args...)
	s.must(err)
	return out
}

// delete deletes what a file describes, and waits until it is gone.
func (s *scene) delete(manifests string, args ...string) {
	s.Helper()
	stop := s.cluster.RemindOfCRDs(s.ctx)
	s.kubectl(append([]string{"delete", "-f", s.file(manifests)}, args...)...)
	s.must(stop())
}

// helm installs or upgrades the chart.
func (s *scene) helm(command string, args ...string) {
	s.Helper()
	_, err := helm.Run(s, append([]string{command, "nodemend", helm.Chart, "--namespace=" + namespace, "--kubeconfig=" + s.cluster.Kubeconfig, "--timeout=90s"}, args...)...)
	s.must(err)
}

// apply applies manifests as docs/install.md says.
func (s *scene) apply(manifests string) {
	s.Helper()
	s.kubectl("apply", "--server-side", "-f", s.file(manifests))
}

// file writes a text to a file and returns its path.
func (s *scene) file(text string) string {
	s.Helper()
	file, err := os.CreateTemp(s.dir, "*.yaml")
	s.must(err)
	_, err = file.WriteString(text)
	s.must(err)
	s.must(file.Close())
	return file.Name()
}

// sample is the sample policy for the container runtime, tried out first and with the
// patience of a test.
func (s *scene) sample() string {
	s.Helper()
	files, err := filepath.Glob(helm.Root(s) + "/deploy/*/container-runtime.yaml")
	s.must(err)
	if len(files) != 1 {
		s.Fatalf("the sample policies are %q, want one", files)
	}
	data, err := os.ReadFile(files[0])
	s.must(err)
	var policy v1alpha1.RemedyPolicy
	s.must(yaml.UnmarshalStrict(data, &policy))
	policy.Spec.Mode = v1alpha1.ModeDryRun
	policy.Spec.Match[0].For = v1alpha1.Duration{Duration: time.Second}
	policy.Spec.DelayAfterJoin = &v1alpha1.Duration{}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "RemedyPolicy", "metadata": map[string]string{"name": policy.Name}, "spec": policy.Spec,
	})
	s.must(err)
	return string(text)
}

// startRoles starts the programs in the place of their pods, with the tokens that the
// kubelet would give these.
func (s *scene) startRoles() {
	s.Helper()
	s.start(s.build("nodemend", ""), "controller", "--leader-election-namespace="+namespace)
	s.startAgents("--config=" + s.file(fmt.Sprintf(detectorConfig, filepath.Join(s.dir, "cri.sock"))))
}

// startAgents starts detector and runner on the real node.
func (s *scene) startAgents(detector ...string) {
	s.Helper()
	agent := s.build("nodemend", "agent")
	proc, err := process.OwnProc(s.dir)
	s.must(err)
	s.start(agent, "detector", append([]string{"--node-name=" + s.node, "--port=0", "--prometheus-port=0"}, detector...)...)
	s.start(agent, "runner", "--node-name="+s.node, "--execution=Direct", "--host-proc="+proc,
		"--run-dir="+filepath.Join(s.dir, "runner"))
}

// build builds a program of cmd, unless there are those of a release, and returns its path.
func (s *scene) build(program, tags string) string {
	s.Helper()
	if s.programs != "" {
		return filepath.Join(s.programs, strings.TrimSuffix(program+"-"+tags, "-"))
	}
	path := filepath.Join(s.dir, program+tags)
	build := exec.CommandContext(s.ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-tags="+tags, "-o", path, "github.com/nodemend/nodemend/cmd/"+program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		s.Fatalf("building %s: %v: %s", program, err, output)
	}
	return path
}

// shows runs kubectl nodemend, and wants all of these in what it prints.
func (s *scene) shows(command string, wanted ...string) {
	s.Helper()
	out := s.prints(command)
	flat := strings.Join(strings.Fields(out), " ") // it is folded
	for _, want := range wanted {
		if !strings.Contains(flat, strings.TrimSpace(want)) {
			s.Errorf("kubectl nodemend %s does not say %q:\n%s", command, want, out)
		}
	}
}

// prints returns what kubectl nodemend prints.
func (s *scene) prints(command string) string {
	s.Helper()
	if s.plugin == "" {
		s.plugin = s.build("kubectl-nodemend", "")
	}
	args := append(strings.Fields(command), "--kubeconfig="+s.cluster.Kubeconfig)
	out, err := exec.CommandContext(s.ctx, s.plugin, args...).CombinedOutput()
	if err != nil {
		s.Fatalf("kubectl nodemend %s: %v: %s", command, err, out)
	}
	return string(out)
}

func (s *scene) start(program, role string, args ...string) {
	s.Helper()
	path := filepath.Join(s.dir, role+".log")
	log, err := os.Create(path)
	s.must(err)
	cmd := exec.CommandContext(s.ctx, program, append([]string{role, "--kubeconfig=" + s.kubeconfig(role)}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p, err := process.Start(cmd, log)
	s.must(err)
	s.roles = append(s.roles, p)
	s.Cleanup(func() {
		p.Kill()
		if tail, err := process.Tail(path, 3000); err == nil && s.Failed() {
			s.Logf("the end of the log of the %s:\n%s", role, tail)
		}
	})
}

// kubeconfig writes one with the token of the role's pod: of the real node, if it is
// an agent. That of a controller is on another one, which is not drained: with its pod a
// token ends.
func (s *scene) kubeconfig(role string) string {
	s.Helper()
	options := metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=nodemend,app.kubernetes.io/component=" + role,
		FieldSelector: "spec.nodeName=" + s.node,
	}
	if role == "controller" {
		options.FieldSelector = "spec.nodeName!=" + s.node
	}
	pods, err := s.client.CoreV1().Pods(namespace).List(s.ctx, options)
	s.must(err)
	if len(pods.Items) == 0 {
		s.Fatalf("the %s has no pod", role)
	}
	pod := &pods.Items[0]
	request, err := s.client.CoreV1().ServiceAccounts(namespace).CreateToken(s.ctx, pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}, metav1.CreateOptions{})
	s.must(err)
	config := clientcmdapi.NewConfig()
	admin := s.cluster.Config
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthority: admin.CAFile, CertificateAuthorityData: admin.CAData}
	config.AuthInfos["a"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "a"}
	config.CurrentContext = "x"
	path := filepath.Join(s.dir, role+".kubeconfig")
	s.must(clientcmd.WriteToFile(*config, path))
	return path
}

// stopRoles ends the programs as the kubelet does when it ends their pods.
func (s *scene) stopRoles() {
	s.Helper()
	for _, p := range s.roles {
		if p.HasExited() {
			s.Errorf("a role has ended by itself: %v", p.Err)
		}
		if killed, err := p.StopGroup(grace); err != nil || killed {
			s.Errorf("a role did not end: killed %t, %v", killed, err)
		}
	}
}

// waitFor waits until done returns true; what it returns besides is shown if it never does.
func (s *scene) waitFor(what string, done func() (bool, string)) {
	s.Helper()
	var last string
	err := wait.PollUntilContextTimeout(s.ctx, poll, patience, true, func(context.Context) (ok bool, err error) {
		ok, last = done()
		return ok, nil
	})
	if err != nil {
		s.Fatalf("waiting until %s: %v\n%s", what, err, last)
	}
}

func (s *scene) get(node string) *corev1.Node {
	s.Helper()
	got, err := s.client.CoreV1().Nodes().Get(s.ctx, node, metav1.GetOptions{})
	s.must(err)
	return got
}

// condition tells whether the node has a condition with this status.
func (s *scene) condition(conditionType, status string) func() (bool, string) {
	return func() (bool, string) {
		seen := []string{}
		for _, c := range s.get(s.node).Status.Conditions {
			if string(c.Type) == conditionType && string(c.Status) == status {
				return true, ""
			}
			seen = append(seen, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Message))
		}
		return false, strings.Join(seen, "\n")
	}
}

func (s *scene) cordoned(node string) bool { return s.get(node).Spec.Unschedulable }

func (s *scene) isInService(node string) {
	s.Helper()
	if s.cordoned(node) {
		s.Errorf("node %s is cordoned", node)
	}
}

// cordonedByUs lists the nodes with our mark.
func (s *scene) cordonedByUs() []string {
	s.Helper()
	return strings.Fields(s.kubectl("get", "nodes", `--output=jsonpath={range .items[?(@.metadata.annotations.nodemend\.dev/cordoned-for)]}{.metadata.name}{"\n"}{end}`))
}
