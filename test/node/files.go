package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/test/cluster"
)

const (
	cniDir  = "/usr/lib/cni"
	baseOCI = "/etc/containerd/base.json"
	// containerdSocket is where it is by default, below /run.
	containerdSocket = "containerd/containerd.sock"
	podNetwork       = "10.2.0.0/24"
	// clientCAFile is the certificate of the API server as the kubelet's client.
	clientCAFile = "/etc/kubernetes/client-ca.crt"
)

// nodeTarget is what is started at first. The kubelet follows when there are images.
const nodeTarget = `[Unit]
Requires=basic.target dbus.socket dbus.service containerd.service systemd-journald.service
After=basic.target dbus.socket dbus.service containerd.service systemd-journald.service
AllowIsolate=yes
`

// kubeletUnit is as of Kubernetes' own packages.
const kubeletUnit = `[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=containerd.service
After=containerd.service

[Service]
ExecStart=/usr/local/bin/kubelet --config=/etc/kubernetes/kubelet.yaml --kubeconfig=/etc/kubernetes/kubelet.conf \
	--hostname-override=%s --node-ip=%s --v=2
Restart=always
StartLimitInterval=0
RestartSec=10
`

// journald keeps what units say, and leaves the kernel's log to the machine.
const journald = `[Journal]
Storage=volatile
ReadKMsg=no
RateLimitIntervalSec=0
`

// containerdConfig has the snapshotter that works on every file system, and gives no
// container a better OOM score than it may.
const containerdConfig = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = %q
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = %q
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = %t
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
`

// podNetworkConfig gives pods an address and a way to the node's, and nothing more.
const podNetworkConfig = `{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [{
    "type": "ptp",
    "ipam": {"type": "host-local", "subnet": "` + podNetwork + `", "routes": [{"dst": "0.0.0.0/0"}]}
  }]
}
`

// writeFiles writes what the node has that this machine has not.
func (n *Node) writeFiles(ctx context.Context) error {
	program, err := cluster.Program("kubelet")
	if err != nil {
		return err
	}
	if err := os.Symlink(program, n.path("kubelet-program")); err != nil {
		return err
	}
	oci, err := baseSpec(ctx)
	if err != nil {
		return fmt.Errorf("making the base of all containers: %w", err)
	}
	clientCA, err := os.ReadFile(n.options.Cluster.KubeletClientCA())
	if err != nil {
		return err
	}
	kubelet, err := yaml.Marshal(kubeletConfig(pure(n.groups)))
	if err != nil {
		return err
	}
	files := map[string]string{
		"etc/hostname":                          n.Name + "\n",
		"etc/systemd/system/node.target":        nodeTarget,
		"etc/systemd/system/kubelet.service":    fmt.Sprintf(kubeletUnit, n.Name, nodeIP),
		"etc/systemd/journald.conf.d/node.conf": journald,
		"etc/containerd/config.toml":            fmt.Sprintf(containerdConfig, BusyboxImage, snapshotter, baseOCI, pure(n.groups), cniDir),
		baseOCI:                                 string(oci),
		"etc/cni/net.d/10-pods.conflist":        podNetworkConfig,
		"etc/kubernetes/kubelet.yaml":           string(kubelet),
		clientCAFile:                            string(clientCA),
	}
	for name, content := range files {
		path := filepath.Join(n.path("files"), name)
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(content), 0o644),
		); err != nil {
			return err
		}
	}
	return cluster.WriteKubeconfig(n.path("files/etc/kubernetes/kubelet.conf"), n.user())
}

// user is whom the kubelet acts as.
func (n *Node) user() *rest.Config {
	return n.options.Cluster.UserConfig("system:node:"+n.Name, "system:nodes")
}

// kubeletConfig returns a KubeletConfiguration as of a node that was set up by kubeadm,
// but for what the machine below it forces on it.
func kubeletConfig(systemdCgroups bool) map[string]any {
	driver := "cgroupfs"
	if systemdCgroups {
		driver = "systemd"
	}
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": clientCAFile},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"containerRuntimeEndpoint": "unix:///run/" + containerdSocket,
		"cgroupDriver":             driver,
		"failCgroupV1":             false,
		"failSwapOn":               false,
		"makeIPTablesUtilChains":   false,
		// The disks of a developer's machine are nobody's pressure.
		"evictionHard":                map[string]any{"memory.available": "1Mi"},
		"imageGCHighThresholdPercent": 100, // never
	}
}

// baseSpec returns what containerd starts every container's specification with. It is
// its own default, except that all containers have the node's /proc: a privileged one
// with a /proc of its own would reach this machine's SysRq trigger and parameters. So
// would one that is made past the kubelet, by "ctr run": make none.
func baseSpec(ctx context.Context) ([]byte, error) {
	data, err := exec.CommandContext(ctx, "ctr", "oci", "spec").Output()
	if err != nil {
		return nil, fmt.Errorf("ctr oci spec: %w", err)
	}
	var spec map[string]any
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, fmt.Errorf("ctr oci spec: %w", err)
	}
	mounts, _ := spec["mounts"].([]any)
	for _, m := range mounts {
		if m, ok := m.(map[string]any); ok && m["destination"] == "/proc" {
			m["type"], m["source"], m["options"] = "bind", "/proc", []string{"rbind", "rprivate"}
			return json.Marshal(spec)
		}
	}
	return nil, errors.New("ctr oci spec: it mounts no /proc")
}
