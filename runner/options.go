package runner

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// DefaultBootIDPath is where Linux tells one boot from the next: a random UUID
// that is made when the kernel starts (random(4)).
const DefaultBootIDPath = "/proc/sys/kernel/random/boot_id"

// Options say what a runner needs to know about the place it runs in.
type Options struct {
	// NodeName is the name of the Node object of the node that the runner runs
	// on. Required.
	NodeName string

	// RunnerID identifies this process: two processes never have the same, not
	// even one after the other. Default: a random UUID.
	RunnerID string

	// BootIDPath is the file that holds the boot ID. Default:
	// DefaultBootIDPath.
	BootIDPath string

	// Clock measures timeouts and expiry. Default: the real one.
	Clock clock.Clock

	// Registerer takes the runner's metrics. Default: the registry that the
	// manager serves.
	Registerer prometheus.Registerer

	// MetricsAddress is the TCP address on which Run serves /metrics, for
	// example "127.0.0.1:9102". Empty: not served.
	MetricsAddress string

	// HealthAddress is the TCP address on which Run serves /healthz and
	// /readyz. Empty: not served.
	HealthAddress string

	// Logger is used by Run. Default: the logger set with
	// controller-runtime's log.SetLogger.
	Logger logr.Logger
}

// withDefaults returns the options with every default filled in.
func (o Options) withDefaults() (Options, error) {
	if o.NodeName == "" {
		return o, errors.New("the runner has no node name: set it to the name of the Node object of the node it runs on, as in `kubectl get nodes`")
	}
	if o.RunnerID == "" {
		o.RunnerID = string(uuid.NewUUID())
	}
	if o.BootIDPath == "" {
		o.BootIDPath = DefaultBootIDPath
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Registerer == nil {
		o.Registerer = ctrlmetrics.Registry
	}
	return o, nil
}

// readBootID reads the ID of the present boot.
func readBootID(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the boot ID, without which a reboot cannot be told from a restart: %w", err)
	}
	id := strings.TrimSpace(string(data))
	if id == "" {
		return "", fmt.Errorf("reading the boot ID: %s is empty, expected is a UUID as in %s", path, DefaultBootIDPath)
	}
	return id, nil
}
