//go:build e2e

package node_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestARealNode(t *testing.T) {
	before := machine(t)
	t.Run("runs pods", func(t *testing.T) {
		n := start(t, "real")
		t.Cleanup(func() {
			if t.Failed() {
				journal, err := n.Journal(context.WithoutCancel(t.Context()), 200)
				t.Log("the end of the journal:\n", journal, err)
			}
			if err := n.Stop(); err != nil {
				t.Error(err)
			}
			if err := n.Stop(); err != nil {
				t.Error("stopped again: ", err)
			}
		})
		for _, tc := range []struct {
			name string
			test func(*scene)
		}{
			{"a pod in the pod network is reached, and reaches the API server as a pod does everywhere", podNetwork},
			{"a privileged pod in the node's namespaces can restart a unit over the message bus", hostNamespaces},
			{"no pod reaches the machine's SysRq trigger or kernel parameters", outOfReach},
			{"an eviction honours a pod disruption budget", eviction},
			{"a stopped containerd answers nobody, and goes on with its pods", stalled},
			{"a restart of containerd leaves pods as they are", restarted},
			{"the kubelet's servers are reached from outside", kubeletServers},
			{"kubectl shows what a pod says, and runs a program in it", kubectl},
		} {
			t.Run(tc.name, func(t *testing.T) { tc.test(newScene(t, n)) })
		}
	})
	g := NewWithT(t)
	g.Expect(machine(t)).To(Equal(before), "nothing has changed")
	g.Expect(remains(os.Getpid())).To(BeEmpty())
}

// The control plane's binary is kubectl if it is called so, and finds its way as all
// programs in pods do.
func podNetwork(s *scene) {
	s.deploy(`
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: client
        image: BUSYBOX
        command: [sh, -c, "/kubectl auth whoami --output=name --v=6; /kubectl auth whoami; sleep 10000"]
        volumeMounts: [{name: kubectl, mountPath: /kubectl}]
      - name: server
        image: BUSYBOX
        command: [sh, -c, "echo hello >/tmp/index.html; exec httpd -f -p 8080 -h /tmp"]
        readinessProbe: {httpGet: {port: 8080, path: /index.html}, periodSeconds: 1}
      volumes: [{name: kubectl, hostPath: {path: /usr/local/bin/kubelet, type: File}}]
`)
	s.Eventually(s.said).WithArguments("web").Should(ContainSubstring("system:serviceaccount:default:default"))
	pod := s.pods("web")[0]
	s.Expect(pod.Status.PodIP).To(HavePrefix("10.2.0."))
	s.Expect(s.get("http://" + pod.Status.PodIP + ":8080/index.html")).To(Equal("200 OK: hello\n"))
}

func hostNamespaces(s *scene) {
	_, err := s.node.Exec(s.ctx, "systemd-run", "--unit=sleeper", "sleep", "10000")
	s.Expect(err).NotTo(HaveOccurred())
	first, err := s.node.MainPID(s.ctx, "sleeper.service")
	s.Expect(err).NotTo(HaveOccurred())

	s.agent("agent", `
        test "$(cat /proc/1/comm)" = systemd
        test "$(hostname)" = real
        netstat -tln | grep -q 127.0.0.1:10248
        chroot /host busctl --address=unix:path=/run/dbus/system_bus_socket call org.freedesktop.systemd1 \
          /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager RestartUnit ss sleeper.service replace
        echo done
`)
	s.Eventually(s.said).WithArguments("agent").Should(ContainSubstring("done"))
	s.Eventually(s.node.MainPID).WithArguments(s.ctx, "sleeper.service").ShouldNot(Equal(first))
}

func outOfReach(s *scene) {
	s.agent("reach", `
        cat /proc/sys/kernel/core_pattern >/tmp/same
        cat /tmp/same >/proc/sys/kernel/core_pattern || echo the parameter is out of reach
        # The line tells where the file comes from. Only then is it safe to write to it.
        if [ ! -e /proc/sysrq-trigger ]; then echo there is no trigger
        elif grep "/sysrq /proc/sysrq-trigger " /proc/self/mountinfo; then echo h >/proc/sysrq-trigger; echo u >/proc/sysrq-trigger; echo it was written to
        fi
        echo done
`)
	s.Eventually(s.said).WithArguments("reach").Should(ContainSubstring("done"))
	said, err := s.said("reach")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(said).To(ContainSubstring("the parameter is out of reach"))
	if !strings.Contains(said, "there is no trigger") {
		s.Expect(said).To(ContainSubstring("it was written to"))
		s.Eventually(s.node.SysRq).Should(Equal("h\nu\n"))
	}
}

// agent creates a DaemonSet as nodemend's are, of one container that runs a script.
func (s *scene) agent(name, script string) {
	s.t.Helper()
	d := &appsv1.DaemonSet{}
	s.read(fmt.Sprintf(`
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      hostPID: true
      hostNetwork: true
      terminationGracePeriodSeconds: 0
      tolerations: [{operator: Exists}]
      containers:
      - name: agent
        image: BUSYBOX
        securityContext: {privileged: true}
        command: [sh, -ec]
        args:
        - |
%[2]s
          sleep 10000
        volumeMounts: [{name: host, mountPath: /host}]
      volumes: [{name: host, hostPath: {path: /}}]
`, name, strings.ReplaceAll(script, "\n        ", "\n          ")), d)
	_, err := s.api.AppsV1().DaemonSets("default").Create(s.ctx, d, metav1.CreateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	s.deleteAfterwards(func(ctx context.Context) error {
		return s.api.AppsV1().DaemonSets("default").Delete(ctx, d.Name, metav1.DeleteOptions{})
	})
}

const twoSleepers = `
metadata: {name: sleepers}
spec:
  replicas: 2
  selector: {matchLabels: {app: sleepers}}
  template:
    metadata: {labels: {app: sleepers}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: sleeper, image: BUSYBOX}]
`

func eviction(s *scene) {
	s.deploy(twoSleepers)
	budget := &policyv1.PodDisruptionBudget{}
	s.read(`
metadata: {name: sleepers}
spec: {minAvailable: 2, selector: {matchLabels: {app: sleepers}}}
`, budget)
	budgets := s.api.PolicyV1().PodDisruptionBudgets("default")
	_, err := budgets.Create(s.ctx, budget, metav1.CreateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	s.deleteAfterwards(func(ctx context.Context) error { return budgets.Delete(ctx, budget.Name, metav1.DeleteOptions{}) })
	s.Eventually(func() (int32, error) {
		got, err := budgets.Get(s.ctx, budget.Name, metav1.GetOptions{})
		return got.Status.CurrentHealthy, err
	}).Should(BeEquivalentTo(2))

	pod := s.pods("sleepers")[0]
	evict := func() error {
		return s.api.CoreV1().Pods("default").EvictV1(s.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}})
	}
	s.Expect(apierrors.IsTooManyRequests(evict())).To(BeTrue())
	_, err = budgets.Patch(s.ctx, budget.Name, types.MergePatchType, []byte(`{"spec": {"minAvailable": 1}}`), metav1.PatchOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(evict).Should(Succeed())
	s.Eventually(func() bool {
		_, err := s.api.CoreV1().Pods("default").Get(s.ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}).Should(BeTrue(), "the kubelet has stopped it")
}

func stalled(s *scene) {
	s.deploy(twoSleepers)
	conn, err := grpc.NewClient(s.node.RuntimeEndpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	s.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = conn.Close() }() // the test is over
	version := func() error {
		ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
		defer cancel()
		_, err := cri.NewRuntimeServiceClient(conn).Version(ctx, &cri.VersionRequest{})
		return err
	}
	s.Expect(version()).To(Succeed())
	s.Expect(s.node.Signal(s.ctx, "containerd.service", syscall.SIGSTOP)).To(Succeed())
	s.t.Cleanup(func() { _ = s.node.Signal(context.WithoutCancel(s.ctx), "containerd.service", syscall.SIGCONT) }) // for the next one
	// On a busy machine its threads are not stopped at once.
	s.Eventually(func() codes.Code { return status.Code(version()) }).Should(Equal(codes.DeadlineExceeded))
	s.Expect(s.ready()).To(Equal(corev1.ConditionTrue), "the kubelet itself needs two minutes")
	s.Expect(s.node.Signal(s.ctx, "containerd.service", syscall.SIGCONT)).To(Succeed())
	s.Eventually(version).Should(Succeed())
	s.unharmed("sleepers")
}

func restarted(s *scene) {
	s.deploy(twoSleepers)
	_, err := s.node.Exec(s.ctx, "systemctl", "restart", "containerd.service")
	s.Expect(err).NotTo(HaveOccurred())
	_, err = s.node.Exec(s.ctx, "systemctl", "restart", "kubelet.service")
	s.Expect(err).NotTo(HaveOccurred())
	s.Consistently(s.ready, 5*time.Second).Should(Equal(corev1.ConditionTrue))
	s.unharmed("sleepers")
}

// unharmed expects that the containers of an app were never restarted.
func (s *scene) unharmed(app string) {
	s.t.Helper()
	pods := s.pods(app)
	s.Expect(pods).NotTo(BeEmpty())
	for _, pod := range pods {
		s.Expect(pod.Status.ContainerStatuses).To(HaveEach(And(
			HaveField("RestartCount", BeZero()), HaveField("State.Running", Not(BeNil())))))
	}
}

func kubeletServers(s *scene) {
	s.Expect(s.get("http://127.0.0.1:10248/healthz")).To(Equal("200 OK: ok"))
	s.Expect(s.get("https://127.0.0.1:10250/metrics")).To(HavePrefix("401 Unauthorized"))
}

// get returns the answer of a server inside.
func (s *scene) get(url string) (string, error) {
	transport := &http.Transport{DialContext: s.node.DialContext, TLSClientConfig: unverified()}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.Status + ": " + string(body), err
}

func kubectl(s *scene) {
	s.deploy(`
metadata: {name: talker}
spec:
  replicas: 1
  selector: {matchLabels: {app: talker}}
  template:
    metadata: {labels: {app: talker}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: talker, image: BUSYBOX, command: [sh, -c, "echo hello; sleep 10000"]}]
`)
	s.Eventually(s.kubectl).WithArguments("logs", "deployment/talker").Should(Equal("hello\n"))
	s.Expect(s.kubectl("exec", "deployment/talker", "--", "hostname")).To(HavePrefix("talker-"))
}
