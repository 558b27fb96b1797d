//go:build integration

package detector_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/checks/containerruntime"
	kubeletcheck "github.com/nodemend/nodemend/checks/kubelet"
	"github.com/nodemend/nodemend/checks/pleg"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/containerd"
	"github.com/nodemend/nodemend/test/criserver"
	"github.com/nodemend/nodemend/test/kubelet"
)

// account makes a service account with the rights that the detector's help names,
// and no others, and returns how it reaches the API server.
func account(t *testing.T, name string) *rest.Config {
	t.Helper()
	shared := clustertest.Shared(t)
	token := kubelet.Token(t, shared, name, "metrics", "healthz")
	client, err := kubernetes.NewForConfig(shared.Config)
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: name + "-detector"}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}},
	}
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(shared.Config)
	cfg.BearerToken = token
	return cfg
}

// statuses returns the status of each of the detector's conditions of a node.
func statuses(t *testing.T, nodeName string) func() (map[string]corev1.ConditionStatus, error) {
	t.Helper()
	client, err := corev1client.NewForConfig(clustertest.Shared(t).Config)
	if err != nil {
		t.Fatal(err)
	}
	return func() (map[string]corev1.ConditionStatus, error) {
		node, err := client.Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		found := map[string]corev1.ConditionStatus{}
		for _, c := range node.Status.Conditions {
			switch c.Type {
			case containerruntime.ConditionType, pleg.ConditionType, kubeletcheck.ConditionType:
				found[string(c.Type)] = c.Status
			}
		}
		return found, nil
	}
}

func all(runtime, plegStatus, kubeletStatus corev1.ConditionStatus) map[string]corev1.ConditionStatus {
	return map[string]corev1.ConditionStatus{
		containerruntime.ConditionType: runtime, pleg.ConditionType: plegStatus, kubeletcheck.ConditionType: kubeletStatus,
	}
}

// quick returns settings of a detector for a kubelet, with short intervals.
func quick(k *kubelet.Kubelet, endpoint string) config.Config {
	c := config.Default()
	c.Heartbeat.ProblemInterval.Duration = time.Second
	c.StateFile, c.Socket = "", ""
	c.Kubelet = config.Kubelet{Endpoint: k.Endpoint, HealthzEndpoint: k.HealthzEndpoint, CertificateFiles: []string{k.CertificateFile}}
	c.Checks.Only = []string{"runtime", "pleg", "kubelet"}
	for _, run := range []*config.Run{&c.Checks.Runtime.Run, &c.Checks.PLEG.Run, &c.Checks.Kubelet.Run} {
		run.Interval.Duration, run.StartupGrace.Duration = 2*time.Second, 0
	}
	for _, timeout := range []*config.Duration{&c.Checks.Runtime.Timeout, &c.Checks.PLEG.Timeout, &c.Checks.Kubelet.Timeout} {
		timeout.Duration = 2 * time.Second
	}
	c.Checks.Runtime.Endpoint = endpoint
	c.Checks.PLEG.MaxLastSeen.Duration = 15 * time.Second
	return c
}

func TestAStallOfWhatARelistAsksForIsAProblemOfPLEG(t *testing.T) {
	client := account(t, "stalling")
	for name, tc := range map[string]struct {
		options criserver.Options
		during  map[string]corev1.ConditionStatus
	}{
		// The kubelet's metrics hang, too, and so does the runtime check's call.
		"list": {
			criserver.Options{HangMethods: []string{"/runtime.v1.RuntimeService/ListPodSandbox"}},
			all(corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse),
		},
		// Nothing but the age of the last relist shows it.
		"status": {
			criserver.Options{Sandboxes: 1, HangMethods: []string{"/runtime.v1.RuntimeService/PodSandboxStatus"}},
			all(corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionFalse),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			socket := filepath.Join(t.TempDir(), "cri.sock")
			runtime, err := criserver.Start(t.Context(), socket, tc.options)
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(runtime.Stop)
			s := &scene{name: "pleg-" + name}
			k := kubelet.Start(t, kubelet.Options{Cluster: clustertest.Shared(t), NodeName: s.name, RuntimeEndpoint: "unix://" + socket})
			s.settings = quick(k, "unix://"+socket)
			s.detect(t, client)
			seen := statuses(t, s.name)
			g.Eventually(seen, patience).Should(Equal(all(corev1.ConditionFalse, corev1.ConditionFalse, corev1.ConditionFalse)))

			runtime.Hang()
			began := time.Now()
			g.Eventually(seen, patience).Should(Equal(tc.during))
			t.Logf("seen %s after the stall", time.Since(began).Round(time.Millisecond))
			runtime.Resume()
			g.Eventually(seen, patience).Should(Equal(all(corev1.ConditionFalse, corev1.ConditionFalse, corev1.ConditionFalse)))
		})
	}
}

func TestAStoppedContainerdIsAProblemOfRuntimeAndPLEG(t *testing.T) {
	g := NewWithT(t)
	runtime := containerd.Start(t)
	s := &scene{name: "containerd"}
	k := kubelet.Start(t, kubelet.Options{Cluster: clustertest.Shared(t), NodeName: s.name, RuntimeEndpoint: runtime.Endpoint})
	s.settings = quick(k, runtime.Endpoint)
	s.detect(t, account(t, "containerd"))
	seen := statuses(t, s.name)
	g.Eventually(seen, patience).Should(Equal(all(corev1.ConditionFalse, corev1.ConditionFalse, corev1.ConditionFalse)))

	g.Expect(runtime.Process.Signal(syscall.SIGSTOP)).To(Succeed())
	began := time.Now()
	g.Eventually(seen, patience).Should(Equal(all(corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse)))
	t.Logf("seen %s after SIGSTOP", time.Since(began).Round(time.Millisecond))
	g.Expect(runtime.Process.Signal(syscall.SIGCONT)).To(Succeed())
	g.Eventually(seen, patience).Should(Equal(all(corev1.ConditionFalse, corev1.ConditionFalse, corev1.ConditionFalse)))
}

func TestAKubeletThatIsStoppedIsAProblemOfTheKubeletAlone(t *testing.T) {
	g := NewWithT(t)
	socket := filepath.Join(t.TempDir(), "cri.sock")
	runtime, err := criserver.Start(t.Context(), socket, criserver.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(runtime.Stop)
	s := &scene{name: "kubelet-stopped"}
	k := kubelet.Start(t, kubelet.Options{Cluster: clustertest.Shared(t), NodeName: s.name, RuntimeEndpoint: "unix://" + socket})
	s.settings = quick(k, "unix://"+socket)
	s.detect(t, account(t, "stopped"))
	seen := statuses(t, s.name)
	g.Eventually(seen, patience).Should(Equal(all(corev1.ConditionFalse, corev1.ConditionFalse, corev1.ConditionFalse)))

	k.Stop()
	g.Eventually(seen, patience).Should(Equal(all(corev1.ConditionFalse, corev1.ConditionUnknown, corev1.ConditionTrue)))
	k.Restart()
	g.Eventually(seen, patience).Should(Equal(all(corev1.ConditionFalse, corev1.ConditionFalse, corev1.ConditionFalse)))
}
