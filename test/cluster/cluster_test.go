//go:build integration

package cluster_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/cluster"
)

// helperDirEnv makes this test binary start a cluster in the directory it
// names, and hold it.
const helperDirEnv = "CLUSTER_TEST_HELPER_DIR"

const patience = 5 * time.Minute

func TestPodsOfADeploymentRunOnKwokNodes(t *testing.T) {
	g := NewWithT(t)
	var log strings.Builder
	c := start(t, cluster.Options{
		CRDs:              deploy.CRDs,
		ControllerManager: true,
		Scheduler:         true,
		Kwok:              true,
		Log:               &log,
	})
	client := kubernetes.NewForConfigOrDie(c.Config)

	names, err := c.AddNodes(t.Context(), 3, "worker", map[string]string{"pool": "fake"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(names).To(Equal([]string{"worker-0", "worker-1", "worker-2"}))
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "pool=fake"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(nodes.Items).To(HaveLen(3))
	g.Expect(nodes.Items).To(HaveEach(HaveField("Status.Conditions", ContainElement(
		And(HaveField("Type", corev1.NodeReady), HaveField("Status", corev1.ConditionTrue))))))

	deployment := deploymentOf(3)
	_, err = client.AppsV1().Deployments("default").Create(t.Context(), deployment, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (int32, error) {
		got, err := client.AppsV1().Deployments("default").Get(t.Context(), deployment.Name, metav1.GetOptions{})
		return got.Status.AvailableReplicas, err
	}, patience).Should(BeEquivalentTo(3))

	resources, err := client.Discovery().ServerResourcesForGroupVersion("nodemend.dev/v1alpha1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(resources.APIResources).To(ContainElement(HaveField("Kind", "RemedyPolicy")))
	for _, program := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		g.Expect(log.String()).To(ContainSubstring(program + " is ready after "))
	}

	g.Expect(programsIn(t, c.Dir)).To(HaveLen(5))
	g.Expect(c.Stop()).To(Succeed())
	g.Expect(programsIn(t, c.Dir)).To(BeEmpty())
	g.Expect(c.Dir).NotTo(BeAnExistingFile())
	g.Expect(c.Stop()).To(Succeed())
}

func TestAnAPIServerAloneServesUsersAndKeepsTheCallersDirectory(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	c := start(t, cluster.Options{Dir: dir})

	alice := kubernetes.NewForConfigOrDie(c.UserConfig("alice", "viewers"))
	_, err := alice.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue())
	g.Expect(err).To(MatchError(ContainSubstring(`User "alice"`)))

	_, err = kubernetes.NewForConfigOrDie(c.Config).CoreV1().Pods("default").Create(t.Context(), pod(), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred(), "no service account should be asked for without a controller manager")

	out, err := c.Kubectl(t.Context(), "get", "pods", "-o", "name")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(Equal("pod/web\n"))

	_, err = c.AddNodes(t.Context(), 1, "worker", nil)
	g.Expect(err).To(MatchError(ContainSubstring("Options.Kwok")))

	g.Expect(c.Stop()).To(Succeed())
	g.Expect(filepath.Join(dir, "kube-apiserver.log")).To(BeARegularFile())
}

func TestAFailedStartShowsTheLogAndLeavesNothing(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	_, err := cluster.Start(t.Context(), cluster.Options{
		Dir:       dir,
		ExtraArgs: map[string][]string{"kube-apiserver": {"--no-such-flag"}},
	})
	g.Expect(err).To(MatchError(And(
		ContainSubstring("starting kube-apiserver"),
		ContainSubstring("unknown flag: --no-such-flag"),
	)))
	g.Expect(programsIn(t, dir)).To(BeEmpty())
}

func TestACancelledStartLeavesNothing(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	log := writerFunc(func(line string) { // called when etcd is ready
		g.Expect(line).To(HavePrefix("etcd "))
		cancel()
	})
	_, err := cluster.Start(ctx, cluster.Options{Dir: dir, Log: log})
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(programsIn(t, dir)).To(BeEmpty())
}

func TestAProgramThatDiedIsReportedByStop(t *testing.T) {
	g := NewWithT(t)
	c := start(t, cluster.Options{Kwok: true})
	// A program that has just begun has no arguments yet (execve(2)).
	g.Eventually(func() []string { return programsIn(t, c.Dir) }, patience).Should(ContainElement("kwok"))
	g.Expect(killPrograms(t, c.Dir, "kwok")).To(Succeed())
	_, err := c.AddNodes(t.Context(), 1, "worker", nil)
	g.Expect(err).To(MatchError(ContainSubstring("kwok exited by itself: signal: killed")))
	g.Expect(c.Stop()).To(MatchError(ContainSubstring("kwok exited by itself: signal: killed")))
	g.Expect(programsIn(t, c.Dir)).To(BeEmpty())
}

func TestProgramsDieWithAKilledParent(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperHoldsACluster$")
	parent.Env = append(os.Environ(), helperDirEnv+"="+dir)
	out, err := parent.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(parent.Start()).To(Succeed())
	t.Cleanup(func() { _ = killPrograms(t, dir, "etcd", "kube-apiserver") }) // in case they survive

	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "started" {
		t.Log(lines.Text())
	}
	g.Expect(programsIn(t, dir)).To(HaveLen(2))
	g.Expect(parent.Process.Kill()).To(Succeed())
	g.Expect(parent.Wait()).To(MatchError(ContainSubstring("killed")))
	g.Eventually(func() []string { return programsIn(t, dir) }, patience).Should(BeEmpty())
}

// TestHelperHoldsACluster is the parent in TestProgramsDieWithAKilledParent.
func TestHelperHoldsACluster(t *testing.T) {
	dir := os.Getenv(helperDirEnv)
	if dir == "" {
		t.Skip("runs only as the child of TestProgramsDieWithAKilledParent")
	}
	start(t, cluster.Options{Dir: dir})
	if _, err := os.Stdout.WriteString("started\n"); err != nil {
		t.Fatal(err)
	}
	<-t.Context().Done()
}

func start(t *testing.T, options cluster.Options) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	return c
}

func deploymentOf(replicas int32) *appsv1.Deployment {
	template := pod()
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: template.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: template.Labels},
				Spec:       template.Spec,
			},
		},
	}
}

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web"}}},
	}
}

type writerFunc func(line string)

func (f writerFunc) Write(line []byte) (int, error) {
	f(string(line))
	return len(line), nil
}
