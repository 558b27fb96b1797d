//go:build integration

package remote

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/coreapi"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/loopback"
	programs "github.com/nodemend/nodemend/test/process"
)

func TestMain(m *testing.M) { os.Exit(clustertest.Run(m, cluster.Options{})) }

const (
	// patience bounds every wait: only what hangs needs it.
	patience = 5 * time.Minute
	// grace is how long a program may take to end.
	grace = 10 * time.Second

	aCondition = "NodeDiskAlert"
	aReason    = "DiskIsSlow"
	aToken     = "of-the-test"
)

// monitored is a cluster with two nodes, and a Prometheus, an Alertmanager and a remote detector
// that know of them. Nothing else writes their conditions.
type monitored struct {
	*WithT
	t    *testing.T
	dir  string
	core rest.Interface
	cfg  *rest.Config
	// nodes are the names of the two nodes.
	nodes [2]string
	// addresses are where the programs listen.
	prometheus, alertmanager, webhook string
	running                           map[string]*programs.Process
	end                               func()
	registry                          *prometheus.Registry

	mu    sync.Mutex
	slow  map[string]int
	story map[string][]string
}

func newMonitored(t *testing.T) *monitored {
	t.Helper()
	for _, program := range []string{"prometheus", "prometheus-alertmanager"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s here, install it: apt-get install prometheus prometheus-alertmanager", program)
		}
	}
	m := &monitored{
		WithT: NewWithT(t), t: t, dir: t.TempDir(), cfg: clustertest.Shared(t).Config, running: map[string]*programs.Process{},
		prometheus: loopback.Address(t), alertmanager: loopback.Address(t), webhook: loopback.Address(t),
		slow: map[string]int{}, story: map[string][]string{},
	}
	m.SetDefaultEventuallyTimeout(patience)
	m.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	var err error
	m.core, err = coreapi.New(m.cfg)
	m.Expect(err).NotTo(HaveOccurred())
	for i := range m.nodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "monitored-"}}
		m.Expect(m.core.Post().Resource("nodes").Body(n).Do(t.Context()).Into(n)).To(Succeed())
		m.nodes[i] = n.Name
		t.Cleanup(func() {
			_ = m.core.Delete().Resource("nodes").Name(n.Name).Do(context.WithoutCancel(t.Context())).Error()
		})
	}
	m.set("nowhere", 1)
	exporter := httptest.NewServer(http.HandlerFunc(m.expose))
	t.Cleanup(exporter.Close)

	m.write("rules.yaml", `
groups:
- name: test
  rules:
  - {alert: Watchdog, expr: vector(1)}
  - {alert: DiskSlow, expr: disk_slow == 1, annotations: {summary: 'it is {{ $labels.disk }}'}}
`)
	m.write("prometheus.yaml", fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%s]
alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}
scrape_configs: [{job_name: test, static_configs: [{targets: [%q]}]}]
`, m.path("rules.yaml"), m.alertmanager, exporter.Listener.Addr()))
	m.certificate()
	m.write("token", aToken+"\n")
	m.write("alertmanager.yaml", fmt.Sprintf(`
route: {receiver: test, group_by: [alertname, node], group_wait: 1s, group_interval: 1s, repeat_interval: 2s}
receivers:
- name: test
  webhook_configs:
  - url: https://%s/alerts
    send_resolved: true
    http_config: {authorization: {credentials: %s}, tls_config: {ca_file: %s}}
`, m.webhook, aToken, m.path("tls.crt")))
	m.startAlertmanager()
	m.startPrometheus()
	return m
}

func (m *monitored) path(name string) string { return filepath.Join(m.dir, name) }

func (m *monitored) write(name, text string) {
	m.t.Helper()
	m.Expect(os.WriteFile(m.path(name), []byte(text), 0o600)).To(Succeed())
}

// certificate writes one of its own, for the webhook.
func (m *monitored) certificate() {
	m.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	m.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	m.Expect(err).NotTo(HaveOccurred())
	private, err := x509.MarshalPKCS8PrivateKey(key)
	m.Expect(err).NotTo(HaveOccurred())
	m.write("tls.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})))
	m.write("tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

// expose answers a scrape.
func (m *monitored) expose(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	for node, value := range m.slow {
		_, _ = fmt.Fprintf(w, "disk_slow{node=%q,disk=\"sda\"} %d\n", node, value)
	}
}

// set has the disk of a node be slow, or not.
func (m *monitored) set(node string, slow int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slow[node] = slow
}

// start starts a program; its data outlive it.
func (m *monitored) start(name string, args ...string) {
	m.t.Helper()
	log, err := os.OpenFile(m.path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	m.Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p, err := programs.Start(cmd, log)
	m.Expect(err).NotTo(HaveOccurred())
	m.running[name] = p
	m.t.Cleanup(func() {
		if _, err := p.StopGroup(grace); err != nil {
			m.t.Error(err)
		}
		if m.t.Failed() {
			tail, _ := programs.Tail(m.path(name+".log"), 3000)
			m.t.Logf("the log of %s ends with:\n%s", name, tail)
		}
	})
}

// startPrometheus starts one that promises an alert for 20 s, and sends it again after 5 s.
func (m *monitored) startPrometheus() {
	m.t.Helper()
	m.start("prometheus", "--config.file="+m.path("prometheus.yaml"), "--storage.tsdb.path="+m.path("tsdb"), "--web.listen-address="+m.prometheus, "--rules.alert.resend-delay=5s")
}

func (m *monitored) startAlertmanager() {
	m.t.Helper()
	m.start("prometheus-alertmanager", "--config.file="+m.path("alertmanager.yaml"), "--storage.path="+m.path("am"), "--web.listen-address="+m.alertmanager, "--cluster.listen-address=")
}

// detect starts a remote detector, and returns what ends it.
func (m *monitored) detect(set func(*config.Alerts)) {
	m.t.Helper()
	c := config.DefaultRemote()
	a := &c.Alerts
	a.Conditions = []config.AlertCondition{{Type: aCondition, Matchers: []string{`alertname="DiskSlow"`}, Reason: aReason}}
	a.Interval.Duration, a.FailureThreshold, a.SuccessThreshold = time.Second, 2, 2
	c.Heartbeat.Interval.Duration, c.Heartbeat.ProblemInterval.Duration = 2*time.Second, time.Second
	set(a)
	ctx, cancel := context.WithCancel(m.t.Context())
	done := make(chan error, 1)
	m.registry = prometheus.NewRegistry()
	go func() {
		done <- Run(ctx, Options{
			Config: c, Client: m.cfg, Registry: m.registry,
			Lead: func(ctx context.Context, _ string, lead func(context.Context) error) error { return lead(ctx) },
		})
	}()
	m.end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			m.t.Error(err)
		}
	})
	m.t.Cleanup(m.end)
}

// condition is that of a node now. What is new of it is kept in the story.
func (m *monitored) condition(node string) (found corev1.NodeCondition) {
	n := &corev1.Node{}
	if err := m.core.Get().Resource("nodes").Name(node).Do(m.t.Context()).Into(n); err != nil {
		m.t.Error(err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == aCondition {
			found = c
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	said := string(found.Status) + " " + found.Reason
	if told := m.story[node]; len(told) == 0 || told[len(told)-1] != said {
		m.story[node] = append(told, said)
	}
	return found
}

// becomes waits for one of these, which begin with the status; on the way there it is none but
// what it was, and the others that are allowed.
func (m *monitored) becomes(node, want string, allowed ...string) corev1.NodeCondition {
	m.t.Helper()
	m.mu.Lock()
	if told := m.story[node]; len(told) > 0 {
		m.story[node] = told[len(told)-1:]
		allowed = append(allowed, told[len(told)-1])
	}
	m.mu.Unlock()
	var c corev1.NodeCondition
	m.Eventually(func() string {
		c = m.condition(node)
		return string(c.Status) + " " + c.Reason
	}).Should(Equal(want), "the last one of %s is %+v", node, &c)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, said := range m.story[node] {
		if said != want && !slices.Contains(allowed, said) {
			m.t.Errorf("%s was %s on its way to %s", node, said, want)
		}
	}
	return c
}

// silence silences the alerts of a node, and returns what ends that.
func (m *monitored) silence(node string) (end func()) {
	m.t.Helper()
	now := time.Now().UTC()
	body, err := json.Marshal(map[string]any{
		"matchers": []map[string]any{{"name": "node", "value": node, "isRegex": false, "isEqual": true}},
		"startsAt": now.Add(-time.Minute).Format(time.RFC3339), "endsAt": now.Add(time.Hour).Format(time.RFC3339),
		"createdBy": "test", "comment": "test",
	})
	m.Expect(err).NotTo(HaveOccurred())
	var answer struct{ SilenceID string }
	m.Expect(json.Unmarshal(m.call(http.MethodPost, "/api/v2/silences", body), &answer)).To(Succeed())
	return func() { m.call(http.MethodDelete, "/api/v2/silence/"+answer.SilenceID, nil) }
}

func (m *monitored) call(method, path string, body []byte) []byte {
	m.t.Helper()
	request, err := http.NewRequestWithContext(m.t.Context(), method, "http://"+m.alertmanager+path, bytes.NewReader(body))
	m.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	m.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }() // it was read
	text, err := io.ReadAll(response.Body)
	m.Expect(err).NotTo(HaveOccurred())
	m.Expect(response.StatusCode).To(Equal(http.StatusOK), string(text))
	return text
}

func (m *monitored) kill(name string) {
	m.running[name].Kill()
	m.Eventually(m.running[name].HasExited).Should(BeTrue())
}

const (
	isWell   = "False " + ReasonNoAlertFiring
	isFiring = "True " + aReason
	isUnread = "Unknown " + ReasonSourceNotRead
	isLost   = "Unknown " + ReasonWatchdogMissing
	isGone   = "Unknown " + ReasonAlertNotRepeated
	isUnseen = "Unknown " + ReasonAlertEndNotSeen
)

func TestAlertsOfARealAlertmanager(t *testing.T) {
	m := newMonitored(t)
	polled := func(a *config.Alerts) { a.Alertmanager.URL = "http://" + m.alertmanager }
	m.detect(polled)
	a, b := m.nodes[0], m.nodes[1]
	starting := []string{" ", isUnread, isLost}
	m.becomes(a, isWell, starting...)
	m.becomes(b, isWell, starting...)

	m.set(a, 1)
	if c := m.becomes(a, isFiring); c.Message != "DiskSlow: it is sda" {
		t.Errorf("it says %q", c.Message)
	}
	if got := m.gauge("nodemend_detector_alerts_without_node"); got != 1 {
		t.Errorf("%v alerts name no node", got)
	}
	unsilence := m.silence(a)
	m.becomes(a, "Unknown "+ReasonAlertSilenced)
	unsilence()
	m.becomes(a, isFiring)
	m.set(a, 0)
	if c := m.becomes(a, isWell); c.Message != "no alert about this node fires" {
		t.Errorf("its end was not seen: %q", c.Message)
	}

	m.set(a, 1)
	before := m.becomes(a, isFiring)
	m.end()
	m.detect(polled)
	m.Eventually(func() bool {
		return m.condition(a).LastHeartbeatTime.After(before.LastHeartbeatTime.Add(2 * time.Second))
	}).Should(BeTrue())
	if after := m.becomes(a, isFiring); !after.LastTransitionTime.Equal(&before.LastTransitionTime) {
		t.Errorf("the restart has moved the transition from %s to %s", before.LastTransitionTime, after.LastTransitionTime)
	}

	m.kill("prometheus")
	m.becomes(a, isLost, isGone)
	m.becomes(b, isLost)
	m.startPrometheus()
	m.becomes(a, isFiring, isGone)
	m.becomes(b, isWell)

	m.kill("prometheus-alertmanager")
	m.becomes(a, isUnread)
	m.set(a, 0) // resolves, which the next one never hears
	m.startAlertmanager()
	m.becomes(a, isUnseen, isFiring, isLost)
	m.set(a, 1)
	m.becomes(a, isFiring)
	m.set(a, 0)
	m.becomes(a, isWell)
}

// gauge returns the value of one.
func (m *monitored) gauge(name string) float64 {
	m.t.Helper()
	families, err := m.registry.Gather()
	m.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	m.t.Errorf("there is no %s", name)
	return 0
}

func TestAlertsOfARealPrometheus(t *testing.T) {
	m := newMonitored(t)
	m.detect(func(a *config.Alerts) { a.Prometheus.URL = "http://" + m.prometheus })
	a, b := m.nodes[0], m.nodes[1]
	starting := []string{" ", isUnread, "Unknown " + ReasonRuleNotEvaluated}
	m.becomes(a, isWell, starting...)
	m.set(a, 1)
	m.becomes(a, isFiring)
	m.becomes(b, isWell, starting...)
	m.set(a, 0)
	m.becomes(a, isWell)
	m.set(a, 1)
	m.becomes(a, isFiring)
	m.kill("prometheus")
	m.becomes(a, isUnread)
	m.startPrometheus()
	m.becomes(a, isFiring, isUnseen, "Unknown "+ReasonRuleNotEvaluated)

	m.write("rules.yaml", strings.ReplaceAll(`
groups:
- name: test
  rules:
  - {alert: DiskSlow, expr: 'BAD'}
`, "BAD", `disk_slow * on() group_right() {__name__=~".+"}`)) // which can't be computed
	m.Expect(m.running["prometheus"].Signal(syscall.SIGHUP)).To(Succeed())
	m.becomes(a, "Unknown "+ReasonRuleNotEvaluated, isUnseen)
	m.becomes(b, "Unknown "+ReasonRuleNotEvaluated)
}

func TestNotificationsOfARealAlertmanager(t *testing.T) {
	m := newMonitored(t)
	hooked := func(token string) func(*config.Alerts) {
		return func(a *config.Alerts) {
			a.Webhook = config.Webhook{Address: m.webhook, CertFile: m.path("tls.crt"), KeyFile: m.path("tls.key"), TokenFile: token}
			a.Webhook.RepeatedWithin.Duration, a.Webhook.ConfirmedAfter.Duration = 15*time.Second, 5*time.Second
		}
	}
	right := m.path("token")
	m.detect(hooked(right))
	a, b := m.nodes[0], m.nodes[1]
	m.becomes(a, isWell, " ", isLost)
	m.set(a, 1)
	m.becomes(a, isFiring)
	m.becomes(b, isWell, " ", isLost)
	m.set(a, 0)
	m.becomes(a, isWell, "Unknown "+ReasonEndNotConfirmed)

	m.set(a, 1)
	before := m.becomes(a, isFiring)
	m.end()
	m.detect(hooked(right))
	m.Eventually(func() bool {
		return m.condition(a).LastHeartbeatTime.After(before.LastHeartbeatTime.Add(2 * time.Second))
	}).Should(BeTrue())
	if after := m.becomes(a, isFiring); !after.LastTransitionTime.Equal(&before.LastTransitionTime) {
		t.Errorf("the restart has moved the transition from %s to %s", before.LastTransitionTime, after.LastTransitionTime)
	}

	m.silence(a)
	m.becomes(a, isGone)
	m.becomes(b, isWell)
	m.kill("prometheus-alertmanager")
	m.becomes(b, isLost)
	m.becomes(a, isLost, isGone)

	m.end()
	m.write("another", "another\n")
	m.detect(hooked(m.path("another")))
	m.startAlertmanager() // whose token is not the right one now
	m.Eventually(func() string { return m.tail("prometheus-alertmanager.log") }).Should(ContainSubstring("unexpected status code 401"))
	if c := m.condition(b); c.Status == corev1.ConditionTrue {
		t.Errorf("b is %+v", c)
	}
}

func (m *monitored) tail(name string) string {
	text, err := programs.Tail(m.path(name), 10_000)
	m.Expect(err).NotTo(HaveOccurred())
	return text
}
