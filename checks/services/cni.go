package services

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// usualConfigs are where runtimes look for the pod network's configuration, and usualPlugins
// where for its programs: of containerd and CRI-O, of distributions, of k3s.
func usualConfigs() []string {
	return []string{"/etc/cni/net.d", "/var/lib/rancher/k3s/agent/etc/cni/net.d"}
}

func usualPlugins() []string {
	return []string{
		"/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni", "/var/lib/rancher/k3s/data/cni", "/var/lib/rancher/k3s/data/current/bin",
	}
}

// podNetwork is a configuration that can be loaded.
type podNetwork struct {
	file, name string
	// plugins are the names of the programs that it needs.
	plugins []string
}

// cni tells whether a pod network is configured, and its programs are there. Of a folder the
// first file counts, by the order of names: containerd loads no other one if it can't load that.
func (r root) cni(configs, plugins []string) part {
	given := len(configs) > 0
	if !given {
		configs = usualConfigs()
	}
	var invalid, empty []string
	for _, folder := range configs {
		network, err := r.podNetwork(folder)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !given:
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNoConfig):
			empty = append(empty, folder)
		case errors.Is(err, errInvalid):
			invalid = append(invalid, err.Error())
		case err != nil:
			return finding(ReasonNotSeen, "the pod network's configuration: %v", err)
		default:
			return r.programs(network, plugins)
		}
	}
	switch {
	case invalid != nil:
		return finding(ReasonInvalidConfig, "%s", strings.Join(invalid, "; "))
	case empty != nil:
		return finding(ReasonNoConfig, "no pod network is configured in %s", strings.Join(empty, ", "))
	default:
		return part{well: "there is no folder of CNI configurations"}
	}
}

// Errors of a folder of configurations.
var (
	errNoConfig = errors.New("no configuration")
	errInvalid  = errors.New("can't be loaded")
)

// podNetwork returns what the first configuration of a folder says.
func (r root) podNetwork(folder string) (podNetwork, error) {
	entries, err := r.list(folder)
	if err != nil {
		return podNetwork{}, err
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".conf", ".conflist", ".json"}, path.Ext(entry.Name())) {
			names = append(names, entry.Name())
		}
	}
	if names == nil {
		return podNetwork{}, errNoConfig
	}
	file := path.Join(folder, slices.Min(names))
	data, err := r.read(file)
	if err != nil {
		return podNetwork{}, err
	}
	network, err := parse(data, path.Ext(file) == ".conflist")
	if err != nil {
		return podNetwork{}, fmt.Errorf("%s %w: %w", file, errInvalid, err)
	}
	network.file = file
	return network, nil
}

// parse reads a configuration as libcni does (ConfListFromBytes, ConfFromBytes), as far as a
// runtime needs it to load it.
func parse(data []byte, list bool) (podNetwork, error) {
	type plugin struct {
		Type string `json:"type"`
	}
	var config struct {
		plugin
		Name    string   `json:"name"`
		Plugins []plugin `json:"plugins"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return podNetwork{}, err
	}
	if !list {
		config.Plugins = []plugin{config.plugin}
	}
	network := podNetwork{name: config.Name}
	for i, p := range config.Plugins {
		if p.Type == "" || strings.Contains(p.Type, "/") {
			return podNetwork{}, fmt.Errorf("plugin %d has the type %q, which is no name of a program", i+1, p.Type)
		}
		network.plugins = append(network.plugins, p.Type)
	}
	switch {
	case list && config.Name == "":
		return podNetwork{}, errors.New("it has no name")
	case list && config.Plugins == nil:
		return podNetwork{}, errors.New("it has no plugins")
	default:
		return network, nil
	}
}

// programs tells whether those of a network are there. Where none of the usual folders is, they
// are not looked for.
func (r root) programs(network podNetwork, folders []string) part {
	well := part{well: fmt.Sprintf("pod network %s of %s", network.name, network.file)}
	if len(folders) == 0 {
		folders = slices.DeleteFunc(usualPlugins(), func(folder string) bool {
			_, err := r.list(folder)
			return err != nil
		})
		if len(folders) == 0 {
			return well
		}
	}
	var missing []string
	for _, program := range network.plugins {
		found := false
		for _, folder := range folders {
			is, err := r.executable(path.Join(folder, program))
			if err != nil {
				return finding(ReasonNotSeen, "the programs of the pod network: %v", err)
			}
			found = found || is
		}
		if !found {
			missing = append(missing, program)
		}
	}
	if missing != nil {
		return finding(ReasonNoPlugin, "%s needs the programs %s, which are not in %s", network.file, strings.Join(missing, ", "), strings.Join(folders, ", "))
	}
	return well
}
