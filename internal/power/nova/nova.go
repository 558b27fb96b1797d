// Package nova switches the power of a machine that is a server of OpenStack, by Nova.
//
// Nova calls a server by a UUID, which hypervisors such as KVM hand to its firmware, so that it is the
// node's systemUUID. Where that does not hold, such as on bare metal by Ironic, nobody here knows which
// server is the node's: that is an error, and nothing is switched.
package nova

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/nodemend/nodemend/internal/openstack"
	"github.com/nodemend/nodemend/internal/power"
)

var _ power.Switch = (*Switch)(nil)

// stopping is the task of a server that is to be stopped.
const stopping = "powering-off"

// Options say which server is meant.
type Options struct {
	Cloud openstack.Cloud
	// Name is that of the server, whatever the case of its letters. Neither the node nor its
	// systemUUID says it, so a node that lies about its machine does not get another one switched.
	Name string
	// ProviderID is spec.providerID of the node; "": it has none, or is not known any more. One that
	// names another server than the machine's is an error.
	ProviderID string
}

// Switch is a server. It is safe for concurrent use.
type Switch struct{ options Options }

// New returns the switch. It asks nobody yet.
func New(o Options) *Switch { return &Switch{options: o} }

// String returns the cloud and the name of the server.
func (s *Switch) String() string { return s.options.Cloud.String() + "/" + s.options.Name }

// Read returns what Nova says of the server.
func (s *Switch) Read(ctx context.Context, machine power.UUID) (r power.Reading, err error) {
	server, _, _, err := s.find(ctx, machine)
	if err != nil {
		return r, err
	}
	if r.GUID, err = power.ParseGUID(server.ID); err != nil {
		return r, fmt.Errorf("%s: %w: %w", s, power.ErrNoIdentity, err)
	}
	r.Power = stateOf(server)
	return r, nil
}

// Off has Nova stop the server. It asks the operating system to shut down, for a minute unless the
// cloud has another shutdown_timeout, and then cuts the power. Nova has nothing that does so at once
// and leaves it off.
func (s *Switch) Off(ctx context.Context, machine power.UUID, still power.Still) error {
	return s.turn(ctx, machine, still, power.Off, stopping, "os-stop", servers.Stop)
}

// On has Nova start the server.
func (s *Switch) On(ctx context.Context, machine power.UUID, still power.Still) error {
	return s.turn(ctx, machine, still, power.On, "powering-on", "os-start", func(ctx context.Context, compute *gophercloud.ServiceClient, id string) servers.StopResult {
		return servers.StopResult(servers.Start(ctx, compute, id))
	})
}

// Shutdown is nothing that Nova does: its os-stop asks the operating system, and cuts the power a
// minute later, whatever that says.
func (s *Switch) Shutdown(context.Context, power.UUID, power.Still) error {
	return fmt.Errorf("%s: %w: Nova can't ask an operating system to shut down without cutting the power soon after", s, power.ErrUnsupported)
}

// Identify is nothing that a server can.
func (s *Switch) Identify(context.Context, power.UUID, bool) (time.Duration, error) {
	return 0, fmt.Errorf("%s: %w: a server of OpenStack has no light", s, power.ErrUnsupported)
}

// turn sends an action, unless it has had its effect, or is under way: Nova refuses it then.
func (s *Switch) turn(ctx context.Context, machine power.UUID, still power.Still, to power.State, underWay, action string,
	send func(context.Context, *gophercloud.ServiceClient, string) servers.StopResult,
) error {
	server, session, compute, err := s.find(ctx, machine)
	if err != nil {
		return err
	}
	if stateOf(server) == to && server.TaskState == "" || server.TaskState == underWay {
		return nil
	}
	if err := still.Holds(ctx); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	if err := session.Explain(action, send(ctx, compute, server.ID).ExtractErr()); err != nil {
		return fmt.Errorf("%s: server %s is %s: %w", s, server.ID, said(server), err)
	}
	return nil
}

// find returns the server, if it is the node's.
func (s *Switch) find(ctx context.Context, machine power.UUID) (*servers.Server, *openstack.Session, *gophercloud.ServiceClient, error) {
	if of := s.options.ProviderID; of != "" {
		switch id, is := openstack.ServerID(of); {
		case !is:
			return nil, nil, nil, fmt.Errorf("%s: %w: spec.providerID of the node is %.80q, which names no server of OpenStack", s, power.ErrNoIdentity, of)
		case id != machine.String():
			return nil, nil, nil, fmt.Errorf("%s: %w: spec.providerID of the node names server %s, and its systemUUID is %s. On bare metal they differ: take ipmi or redfish there",
				s, power.ErrOtherMachine, id, machine)
		}
	}
	session, err := s.options.Cloud.Open(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	server, compute, err := session.Server(ctx, machine.String())
	switch {
	case errors.Is(err, openstack.ErrNotFound):
		return nil, nil, nil, fmt.Errorf("%w: %w. Was it deleted, or is the node's systemUUID not the ID of its server?", power.ErrNoIdentity, err)
	case err != nil:
		return nil, nil, nil, err
	case !strings.EqualFold(server.Name, s.options.Name):
		return nil, nil, nil, fmt.Errorf("%s: %w: server %s, which has the node's systemUUID, has the name %.80q", s, power.ErrOtherMachine, server.ID, server.Name)
	}
	return server, session, compute, nil
}

// stateOf says Off only of a server that Nova has stopped, whose hypervisor says the same, and with
// which Nova does nothing else. A suspended one goes on in its old boot, and a shelved, rescued or
// deleted one is in somebody's hands. One that is to be stopped is not On, however long that takes: Nova
// does it when its host is back.
func stateOf(server *servers.Server) power.State {
	switch {
	case server.Status == "SHUTOFF" && server.VmState == "stopped" && server.PowerState == servers.SHUTDOWN && server.TaskState == "":
		return power.Off
	case server.Status == "ACTIVE" && server.VmState == "active" && server.PowerState == servers.RUNNING && server.TaskState != stopping:
		return power.On
	default:
		return power.Changing
	}
}

// said is what Nova says of a server, for people.
func said(server *servers.Server) string {
	text := fmt.Sprintf("%.40s (vm_state %.40s, power_state %s", server.Status, server.VmState, server.PowerState)
	if server.TaskState != "" {
		text += fmt.Sprintf(", task_state %.40s", server.TaskState)
	}
	return text + ")"
}
