//go:build integration

package kubelet_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/criserver"
	"github.com/nodemend/nodemend/test/kubelet"
)

func TestMain(m *testing.M) { os.Exit(clustertest.Run(m, cluster.Options{})) }

// patience bounds every wait: only what hangs needs it.
const patience = 5 * time.Minute

// start starts a kubelet on a stand-in for a runtime.
func start(t *testing.T, nodeName string, options criserver.Options) (*kubelet.Kubelet, *criserver.Server) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "cri.sock")
	runtime, err := criserver.Start(t.Context(), socket, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Stop)
	return kubelet.Start(t, kubelet.Options{
		Cluster: clustertest.Shared(t), NodeName: nodeName, RuntimeEndpoint: "unix://" + socket,
	}), runtime
}

// ready returns the status of the Node's Ready condition.
func ready(t *testing.T, nodeName string) func() (corev1.ConditionStatus, error) {
	t.Helper()
	client, err := kubernetes.NewForConfig(clustertest.Shared(t).Config)
	if err != nil {
		t.Fatal(err)
	}
	return func() (corev1.ConditionStatus, error) {
		node, err := client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status, nil
			}
		}
		return "", nil
	}
}

// reader makes requests to a kubelet that it knows by its certificate.
type reader struct {
	http  *http.Client
	token string
}

func newReader(t *testing.T, k *kubelet.Kubelet, nodeName, token string) *reader {
	t.Helper()
	pem, err := os.ReadFile(k.CertificateFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: nodeName}}
	t.Cleanup(transport.CloseIdleConnections)
	return &reader{http: &http.Client{Transport: transport}, token: token}
}

func (r *reader) get(ctx context.Context, url string) (code int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	response, err := r.http.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

var lastSeen = regexp.MustCompile(`(?m)^kubelet_pleg_last_seen_seconds (\S+)$`)

// plegAge returns how long ago PLEG was last seen active, by the kubelet's
// /metrics, which must answer within two seconds.
func (r *reader) plegAge(ctx context.Context, k *kubelet.Kubelet) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		code, body, err := r.get(ctx, k.Endpoint+"/metrics")
		if err != nil {
			return 0, err
		}
		match := lastSeen.FindStringSubmatch(body)
		if code != http.StatusOK || match == nil {
			return 0, fmt.Errorf("GET /metrics: status %d, %d bytes without the gauge", code, len(body))
		}
		seconds, err := strconv.ParseFloat(match[1], 64)
		return time.Since(time.Unix(int64(seconds), 0)), err
	}
}

func TestItsNodeBecomesReadyAndItsServersAnswerAlsoAfterARestart(t *testing.T) {
	g := NewWithT(t)
	k, runtime := start(t, "ready", criserver.Options{})
	g.Eventually(ready(t, "ready"), patience).Should(Equal(corev1.ConditionTrue))
	allowed := newReader(t, k, "ready", kubelet.Token(t, clustertest.Shared(t), "metrics-reader", "metrics"))
	others := newReader(t, k, "ready", kubelet.Token(t, clustertest.Shared(t), "stranger"))
	anonymous := newReader(t, k, "ready", "")

	for range 2 {
		g.Eventually(allowed.plegAge(t.Context(), k), patience).Should(BeNumerically("<", 5*time.Second))
		for name, tc := range map[string]struct {
			reader *reader
			url    string
			code   int
		}{
			"the plain health server":             {anonymous, k.HealthzEndpoint + "/healthz", http.StatusOK},
			"metrics without a token":             {anonymous, k.Endpoint + "/metrics", http.StatusUnauthorized},
			"metrics with a token without rights": {others, k.Endpoint + "/metrics", http.StatusForbidden},
			"what metrics gives no right to":      {allowed, k.Endpoint + "/pods", http.StatusForbidden},
		} {
			if code, body, err := tc.reader.get(t.Context(), tc.url); err != nil || code != tc.code {
				t.Errorf("%s: status %d %q, %v; want %d", name, code, body, err, tc.code)
			}
		}
		k.Restart()
	}

	runtime.NotReady("Broken")
	g.Eventually(ready(t, "ready"), patience).Should(Equal(corev1.ConditionFalse))
}

func TestAStalledRelistStopsTheGaugeOrTheMetrics(t *testing.T) {
	token := kubelet.Token(t, clustertest.Shared(t), "gauge-reader", "metrics")
	for name, tc := range map[string]struct {
		options criserver.Options
		stalled func(age time.Duration, err error) bool
	}{
		// The kubelet asks for the status of the sandbox on every relist, as it
		// gets none. Nothing else that its metrics need is slow.
		"status": {
			criserver.Options{Sandboxes: 1, HangMethods: []string{"/runtime.v1.RuntimeService/PodSandboxStatus"}},
			func(age time.Duration, err error) bool { return err == nil && age > 6*time.Second },
		},
		// Some of its metrics are made from the same list.
		"list": {
			criserver.Options{HangMethods: []string{"/runtime.v1.RuntimeService/ListPodSandbox"}},
			func(_ time.Duration, err error) bool { return errors.Is(err, context.DeadlineExceeded) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			nodeName := "stalled-" + name
			k, runtime := start(t, nodeName, tc.options)
			reader := newReader(t, k, nodeName, token)
			age := reader.plegAge(t.Context(), k)
			g.Eventually(age, patience).Should(BeNumerically("<", 5*time.Second))
			g.Eventually(ready(t, nodeName), patience).Should(Equal(corev1.ConditionTrue))

			runtime.Hang()
			g.Eventually(func() bool { return tc.stalled(age()) }, patience).Should(BeTrue())
			g.Expect(ready(t, nodeName)()).To(Equal(corev1.ConditionTrue), "the kubelet itself needs three minutes")
			code, body, err := reader.get(t.Context(), k.HealthzEndpoint+"/healthz")
			g.Expect([]any{code, body, err}).To(Equal([]any{http.StatusOK, "ok", nil}))

			runtime.Resume()
			g.Eventually(age, patience).Should(BeNumerically("<", 5*time.Second))
		})
	}
}

func TestItChangesNothingOnTheMachine(t *testing.T) {
	g := NewWithT(t)
	machine := func() (state []string) {
		for _, pattern := range []string{
			"/var/lib/kubelet", "/var/log/containers", "/var/log/pods", "/usr/libexec/kubernetes",
			"/sys/fs/cgroup/kubepods*", "/sys/fs/cgroup/*/kubepods*",
		} {
			paths, err := filepath.Glob(pattern)
			g.Expect(err).NotTo(HaveOccurred())
			state = append(state, paths...)
		}
		mounts, err := os.ReadFile("/proc/self/mounts")
		g.Expect(err).NotTo(HaveOccurred())
		state = append(state, regexp.MustCompile(`(?m)^.*( /var/|/proc/sys|nodemend-kubelet).*$`).FindAllString(string(mounts), -1)...)
		for _, parameter := range []string{"kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom"} {
			value, err := os.ReadFile("/proc/sys/" + parameter)
			g.Expect(err).NotTo(HaveOccurred())
			state = append(state, parameter+" is "+string(value))
		}
		return state
	}
	before, dir := machine(), ""
	t.Run("while it runs", func(t *testing.T) {
		g := NewWithT(t)
		k, _ := start(t, "tidy", criserver.Options{})
		dir = filepath.Dir(k.LogFile)
		g.Eventually(ready(t, "tidy"), patience).Should(Equal(corev1.ConditionTrue))
		g.Expect(machine()).To(Equal(before), "so nothing is left even if the test is killed")
	})
	g.Expect(machine()).To(Equal(before))
	g.Expect(dir).NotTo(BeAnExistingFile())
}
