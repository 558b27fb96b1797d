package kubelet

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// writeConfig writes a KubeletConfiguration: the server as on a node set up by
// kubeadm, but nothing that changes the machine.
func writeConfig(path, dir string, port, healthzPort int, options Options) error {
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",

		"address":            "127.0.0.1",
		"port":               port,
		"healthzBindAddress": "127.0.0.1",
		"healthzPort":        healthzPort,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
		},
		"authorization": map[string]any{"mode": "Webhook"},

		"containerRuntimeEndpoint": options.RuntimeEndpoint,
		"podLogsDir":               filepath.Join(dir, "pods"),
		"volumePluginDir":          filepath.Join(dir, "volume-plugins"),

		// No cgroups, on whatever version of them the machine has.
		"cgroupDriver":           "cgroupfs",
		"failCgroupV1":           false,
		"cgroupsPerQOS":          false,
		"enforceNodeAllocatable": []string{},

		"makeIPTablesUtilChains": false,
		"failSwapOn":             false,
		// The disks of a developer's machine are nobody's pressure.
		"evictionHard": map[string]any{"memory.available": "1Mi"},
	}
	maps.Copy(config, options.Config)
	data, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("encoding the kubelet's configuration: %w", err)
	}
	return os.WriteFile(path, data, 0o600)
}
