package detector

import (
	"fmt"
	"strings"
	"time"
)

// Runtime is the check that owns the condition ContainerRuntimeUnhealthy.
type Runtime struct {
	Run `yaml:",inline"`
	// Endpoint is the unix socket of the runtime's CRI, as the kubelet's
	// containerRuntimeEndpoint; empty: the first that exists of those that
	// containerd, CRI-O, k3s and RKE2 use.
	Endpoint string `yaml:"endpoint"`
	// NetworkNotReady makes NetworkReady=false a problem.
	NetworkNotReady bool `yaml:"networkNotReady"`
}

// runtimeTimeout is more than the 8 to 15 s that a runtime on a sick disk takes at times: a
// restart does not help such a one.
const runtimeTimeout = 20 * time.Second

func (r *Runtime) setDefaults() {
	*r = Runtime{Run: defaultRun()}
	r.Timeout = Duration{runtimeTimeout}
}

func (r *Runtime) problems(found *problems, at func(field ...string) []string) {
	r.problemsWithin(maxCheckInterval, found, at)
	if path, isUnix := strings.CutPrefix(r.Endpoint, "unix://"); r.Endpoint != "" && (!isUnix || !strings.HasPrefix(path, "/")) {
		found.add(fmt.Sprintf("%q is not a unix socket with an absolute path, such as unix:///run/containerd/containerd.sock", r.Endpoint), at("endpoint")...)
	}
}
