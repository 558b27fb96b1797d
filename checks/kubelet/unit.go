package kubelet

import (
	"context"
	"fmt"
	"strings"

	client "github.com/nodemend/nodemend/internal/systemd"
)

// unit is a systemd unit.
type unit struct {
	name string
	// activeState and subState as in systemctl: active (running).
	activeState, subState string
	// restarts is NRestarts: how often systemd has restarted it by itself since
	// somebody has started it.
	restarts uint32
}

// units finds units; systemd is the real one.
type units interface {
	// first returns the first of names that is loaded.
	first(ctx context.Context, names []string) (unit, error)
}

// kubeletUnits are those of kubeadm and most distributions, k3s and RKE2.
func kubeletUnits() []string {
	return []string{"kubelet.service", "k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service"}
}

// systemd asks over D-Bus, on connections that end with the call: the bus may
// be restarted at any time.
type systemd struct{ dialer client.Dialer }

func (s systemd) first(ctx context.Context, names []string) (unit, error) {
	connection, err := s.dialer.Dial(ctx)
	if err != nil {
		return unit{}, fmt.Errorf("connecting to systemd over D-Bus: %w", err)
	}
	defer connection.Close()
	statuses, err := connection.ListUnitsByNamesContext(ctx, names)
	if err != nil {
		return unit{}, fmt.Errorf("asking systemd for %s: %w", strings.Join(names, ", "), err)
	}
	for _, name := range names {
		for _, status := range statuses {
			if status.Name != name || status.LoadState != "loaded" {
				continue
			}
			restarts, err := connection.GetServicePropertyContext(ctx, name, "NRestarts")
			if err != nil {
				return unit{}, fmt.Errorf("asking systemd for the restarts of %s: %w", name, err)
			}
			count, ok := restarts.Value.Value().(uint32)
			if !ok {
				return unit{}, fmt.Errorf("systemd's NRestarts of %s is no number: %s", name, restarts.Value)
			}
			return unit{name: name, activeState: status.ActiveState, subState: status.SubState, restarts: count}, nil
		}
	}
	return unit{}, fmt.Errorf("systemd has not loaded %s", strings.Join(names, " or "))
}
