//go:build e2e

package node_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/ipmisim"
	"github.com/nodemend/nodemend/test/node"
)

// quietConfig has all checks run as they do by default. The machine of a test need not have a time
// service.
const quietConfig = `checks:
  tasks: {enabled: true}
  services: {enabled: true, kubeProxyRequired: true, nameservers: [127.0.0.2]}
  clock: {maxError: 0s}
  network: {include: [uplink]}
  hardware: {source: lan, lan: {host: 127.0.0.3, user: ` + ipmisim.User + `, passwordFile: /etc/nodemend/bmc, trustAddress: true}}
`

// quietStats are system stats as node-problem-detector ships them, in short.
const quietStats = `{
  "invokeInterval": "60s",
  "cpu": {"metricsConfigs": {"cpu/load_1m": {"displayName": "cpu/load_1m"}, "cpu/usage_time": {"displayName": "cpu/usage_time"}}},
  "disk": {"includeAllAttachedBlk": true, "includeRootBlk": true, "lsblkTimeout": "5s", "metricsConfigs": {"disk/io_time": {"displayName": "disk/io_time"}}},
  "host": {"metricsConfigs": {"host/uptime": {"displayName": "host/uptime"}}},
  "memory": {"metricsConfigs": {"memory/bytes_used": {"displayName": "memory/bytes_used"}}}
}`

const quietFlags = " --kubeconfig=/etc/nodemend/kubeconfig --node-name=" + quietNode + " --config=/etc/nodemend/detector.yaml" +
	" --config.system-log-monitor=builtin:kernel,builtin:gpu --config.system-stats-monitor=/etc/nodemend/stats.json" +
	" --config.custom-plugin-monitor=/etc/nodemend/fault.json"

// quietPods come and go.
const quietPods = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: comes-and-goes, namespace: default}
spec:
  replicas: 5
  selector: {matchLabels: {app: comes-and-goes}}
  template:
    metadata: {labels: {app: comes-and-goes}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: server
        image: ` + node.BusyboxImage + `
        command: [sh, -c, "echo hello >/tmp/index.html; exec httpd -f -p 8080 -h /tmp"]
        livenessProbe: {httpGet: {port: 8080, path: /index.html}, periodSeconds: 2, timeoutSeconds: 5}
`

// auditPolicy has the API server tell of the detector's requests.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: ["system:serviceaccount:` + namespace + `:nodemend-detector"]}
- {level: None}
`

// beginQuiet starts a control plane, a node with pods, and the shipped unit of the detector on it.
func beginQuiet(t *testing.T) *quiet {
	t.Helper()
	q := &quiet{processes: map[string]time.Duration{}, dir: *quietOut}
	q.Node = &story.Node{Story: &story.Story{T: t, Ctx: longer(t), Poll: poll}, NodeName: quietNode}
	if q.dir == "" {
		q.dir = t.TempDir()
	}
	log, err := os.OpenFile(filepath.Join(q.dir, "said.tsv"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	q.Must(err)
	t.Cleanup(func() { _ = log.Close() }) // at worst it is not kept
	bmc := ipmisim.Start(t)

	ctx, cancel := context.WithTimeout(q.Ctx, startTime)
	defer cancel()
	q.Must(os.WriteFile(filepath.Join(q.dir, "audit.yaml"), []byte(auditPolicy), 0o600))
	c, err := cluster.Start(ctx, cluster.Options{ControllerManager: true, Scheduler: true, Log: t.Output(), ExtraArgs: map[string][]string{
		"kube-apiserver": {"--audit-policy-file=" + filepath.Join(q.dir, "audit.yaml"), "--audit-log-path=" + filepath.Join(q.dir, "audit.log")},
	}})
	q.Must(err)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error("stopping the control plane: ", err)
		}
	})
	q.kube, err = kubernetes.NewForConfig(c.Config)
	q.Must(err)
	q.API, err = client.New(c.Config, client.Options{})
	q.Must(err)

	q.node, err = node.Start(ctx, node.Options{Cluster: c, Name: quietNode, Log: t.Output()})
	if errors.Is(err, node.ErrUnavailable) {
		t.Skip(err)
	}
	q.Must(err)
	t.Cleanup(func() {
		if t.Failed() {
			journal, err := q.node.Journal(q.Ctx, 1000, "nodemend-detector.service")
			t.Log(journal, err)
		}
		if err := q.node.Stop(); err != nil {
			t.Error("stopping the node: ", err)
		}
	})
	host, port := bmc.LAN()
	q.forward("127.0.0.3:623", q.ask(net.JoinHostPort(host, fmt.Sprint(port))))
	q.forward("127.0.0.2:53", noSuchName)
	q.furnish(c, bmc)

	q.listener = story.Listen(q.Ctx, q.kube, quietNode, log)
	t.Cleanup(func() { _ = q.listener.Stop() }) // the test has asked, if it came so far
	q.inside("systemctl daemon-reload && systemctl start nodemend-detector.service")
	return q
}

// usual gives a plugin the times that those of node-problem-detector have.
var usual = strings.NewReplacer(`"invoke_interval": "2s"`, `"invoke_interval": "30s"`, `"timeout": "1m"`, `"timeout": "5s"`)

// furnish puts on the node what the detector needs, and what it looks at.
func (q *quiet) furnish(c *cluster.Cluster, bmc *ipmisim.Simulator) {
	q.Helper()
	unit, err := os.ReadFile(root + "/internal/hostunits/units/detector.service")
	q.Must(err)
	program, err := os.ReadFile(root + "/bin/nodemend-agent")
	if err != nil {
		q.Fatal(err, ": run make build")
	}
	password, err := os.ReadFile(bmc.PasswordFile())
	q.Must(err)
	kubeconfig := filepath.Join(q.dir, "kubeconfig")
	q.Must(cluster.WriteKubeconfig(kubeconfig, q.account(c)))
	credentials, err := os.ReadFile(kubeconfig)
	q.Must(err)
	q.inside("mkdir -p /etc/nodemend /var/lib/nodemend /run/kube-proxy && echo ok >/run/kube-proxy/livez && cp /bin/busybox /etc/nodemend/busybox")
	for name, content := range map[string]string{
		"/usr/local/bin/nodemend-agent": string(program),
		"/etc/nodemend/kubeconfig":      string(credentials),
		"/etc/nodemend/bmc":             string(password),
		"/etc/nodemend/detector.yaml":   quietConfig,
		"/etc/nodemend/stats.json":      quietStats,
		"/etc/nodemend/fault.json":      usual.Replace(faultMonitor),
		"/etc/systemd/system/nodemend-detector.service": strings.Replace(string(unit), "@ExecStart@",
			"/usr/local/bin/nodemend-agent detector"+quietFlags, 1),
	} {
		q.Must(os.WriteFile(fmt.Sprintf("/proc/%d/root%s", q.node.PID(), name), []byte(content), 0o700))
	}
	q.inside(`ip link add uplink type veth peer name switch
ip link set uplink up
ip link set switch up
systemd-run --quiet --unit=kube-proxy busybox httpd -f -p 127.0.0.1:10256 -h /run/kube-proxy`)
	pods := filepath.Join(q.dir, "pods.yaml")
	q.Must(os.WriteFile(pods, []byte(quietPods), 0o600))
	_, err = c.Kubectl(q.Ctx, "apply", "-f", pods)
	q.Must(err)
}

// account has the shipped rights of the detector.
func (q *quiet) account(c *cluster.Cluster) *rest.Config {
	q.Helper()
	shipped, err := os.ReadFile(root + "/deploy/install.yaml")
	q.Must(err)
	manifests := "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + namespace + "}\n"
	for _, manifest := range strings.Split(string(shipped), "\n---\n") {
		if strings.Contains(manifest, "/rbac-detector.yaml\n") {
			manifests += "---\n" + manifest + "\n"
		}
	}
	rights := filepath.Join(q.dir, "rights.yaml")
	q.Must(os.WriteFile(rights, []byte(manifests), 0o600))
	_, err = c.Kubectl(q.Ctx, "apply", "-f", rights)
	q.Must(err)
	lasts := int64((*quietFor + time.Hour).Seconds())
	token, err := q.kube.CoreV1().ServiceAccounts(namespace).CreateToken(q.Ctx, "nodemend-detector",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lasts}}, metav1.CreateOptions{})
	q.Must(err)
	config := rest.AnonymousClientConfig(c.Config)
	config.BearerToken = token.Status.Token
	return config
}

// inside runs a script of the shell on the node.
func (q *quiet) inside(script string) string {
	q.Helper()
	out, err := q.node.Exec(q.Ctx, "sh", "-ec", script)
	q.Must(err)
	return strings.TrimSpace(out)
}

// forward answers packets to an address inside, until the test ends.
func (q *quiet) forward(address string, answer func(query []byte) []byte) {
	q.Helper()
	conn, err := q.node.ListenPacket(q.Ctx, "udp", address)
	q.Must(err)
	var running sync.WaitGroup
	running.Go(func() {
		packet := make([]byte, 1<<16)
		for {
			length, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			if reply := answer(packet[:length]); reply != nil {
				_, _ = conn.WriteTo(reply, from) // who asks asks again
			}
		}
	})
	q.Cleanup(func() {
		_ = conn.Close()
		running.Wait()
	})
}

// ask returns what asks at an address, always from the same port: a BMC knows its sessions by that.
func (q *quiet) ask(address string) func(query []byte) []byte {
	q.Helper()
	conn, err := net.Dial("udp", address)
	q.Must(err)
	q.Cleanup(func() { _ = conn.Close() })
	reply := make([]byte, 1<<16)
	return func(query []byte) []byte {
		if _, err := conn.Write(query); err != nil {
			return nil
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return nil
		}
		length, err := conn.Read(reply)
		if err != nil {
			return nil
		}
		return reply[:length]
	}
}

// noSuchName is the answer of a nameserver that knows no name.
func noSuchName(query []byte) []byte {
	if len(query) < 12 {
		return nil
	}
	reply := append([]byte{}, query...)
	reply[2] |= 0x80
	reply[3] = reply[3]&0xf0 | 3
	return reply
}
