package systemd

import (
	"context"
	"sync"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

const (
	systemdName         = "org.freedesktop.systemd1"
	managerInterface    = "org.freedesktop.systemd1.Manager"
	unitInterface       = "org.freedesktop.systemd1.Unit"
	propertiesInterface = "org.freedesktop.DBus.Properties"
	busName             = "org.freedesktop.DBus"
)

// maxEarly is how many results of others' jobs are kept while systemd is asked for one. If
// there are more, nobody is told how that one has ended.
const maxEarly = 1024

// signals hears what systemd tells by itself. Over the message bus anybody may send
// signals to anybody, as many as they like: those are dropped. What it keeps has bounds.
type signals struct {
	bus bool

	mu sync.Mutex
	// owner is the connection of systemd to the message bus; "" if it is not known.
	owner string
	// unit is watched, and ended gets a value when its processes have ended.
	unit  godbus.ObjectPath
	ended chan struct{}
	// jobs are those whose results are awaited. asking is how many are being asked for,
	// and early are results that came before the job was known to be one of these.
	jobs   map[uint32]chan<- string
	asking int
	early  map[uint32]string
	closed bool
}

// Watch has systemd tell when the processes of a unit have ended: then the channel gets a
// value, unless there is one in it. Look at the unit then, and from time to time: what is
// told may get lost. The end of the connection closes the channel. Ask once for a
// connection.
func (c *Conn) Watch(ctx context.Context, unit string) (<-chan struct{}, error) {
	path := godbus.ObjectPath("/org/freedesktop/systemd1/unit/" + dbus.PathBusEscape(unit))
	ended := c.heard.watch(path)
	if !c.bus { // there systemd tells everything
		return ended, nil
	}
	if err := c.match(ctx, systemdName, propertiesInterface, "PropertiesChanged", godbus.WithMatchObjectPath(path)); err != nil {
		return nil, err
	}
	return ended, c.call(ctx, "Subscribe")
}

// hear asks the message bus for the ends of jobs, and who systemd is.
func (c *Conn) hear(ctx context.Context) error {
	if err := c.match(ctx, busName, busName, "NameOwnerChanged", godbus.WithMatchArg(0, systemdName)); err != nil {
		return err
	}
	if err := c.match(ctx, systemdName, managerInterface, "JobRemoved"); err != nil {
		return err
	}
	var owner string
	if err := c.calls.BusObject().CallWithContext(ctx, busName+".GetNameOwner", 0, systemdName).Store(&owner); err != nil {
		return err
	}
	c.heard.believe(owner)
	return nil
}

func (c *Conn) match(ctx context.Context, sender, iface, member string, more ...godbus.MatchOption) error {
	return c.calls.AddMatchSignalContext(ctx, append(more, godbus.WithMatchSender(sender), godbus.WithMatchInterface(iface), godbus.WithMatchMember(member))...)
}

// believe says who systemd is, unless the message bus has told of a change meanwhile.
func (s *signals) believe(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner == "" {
		s.owner = owner
	}
}

func (s *signals) watch(unit godbus.ObjectPath) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unit, s.ended = unit, make(chan struct{}, 1)
	if s.closed {
		close(s.ended)
	}
	return s.ended
}

// job queues a job, whose result is sent to a channel that has room for it, unless that
// is nil.
func (s *signals) job(result chan<- string, queue func() (int, error)) (int, error) {
	s.mu.Lock()
	s.asking++
	s.mu.Unlock()
	id, err := queue()
	s.mu.Lock()
	defer s.mu.Unlock()
	if early, ended := s.early[uint32(id)]; err == nil && result != nil && ended {
		result <- early
	} else if err == nil && result != nil {
		if s.jobs == nil {
			s.jobs = map[uint32]chan<- string{}
		}
		s.jobs[uint32(id)] = result
	}
	s.asking--
	if s.asking == 0 {
		s.early = nil
	}
	return id, err
}

// DeliverSignal implements godbus.SignalHandler.
func (s *signals) DeliverSignal(iface, member string, signal *godbus.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.bus && signal.Sender == busName:
		s.follow(member, signal)
	case s.bus && (s.owner == "" || signal.Sender != s.owner):
	case iface == managerInterface && member == "JobRemoved":
		s.removed(signal)
	case iface == propertiesInterface && member == "PropertiesChanged":
		s.changed(signal)
	}
}

// follow learns from the message bus who systemd is: it comes back as another when it is
// executed anew.
func (s *signals) follow(member string, signal *godbus.Signal) {
	var name, before, after string
	if member == "NameOwnerChanged" && godbus.Store(signal.Body, &name, &before, &after) == nil && name == systemdName {
		s.owner = after
	}
}

func (s *signals) removed(signal *godbus.Signal) {
	var id uint32
	var job godbus.ObjectPath
	var unit, result string
	if godbus.Store(signal.Body, &id, &job, &unit, &result) != nil {
		return
	}
	if waiting, ok := s.jobs[id]; ok {
		delete(s.jobs, id)
		waiting <- result
		return
	}
	if s.asking == 0 || len(s.early) == maxEarly {
		return
	}
	if s.early == nil {
		s.early = map[uint32]string{}
	}
	s.early[id] = result
}

func (s *signals) changed(signal *godbus.Signal) {
	if s.closed || s.ended == nil || signal.Path != s.unit || len(signal.Body) < 2 || signal.Body[0] != unitInterface {
		return
	}
	properties, _ := signal.Body[1].(map[string]godbus.Variant)
	if sub, _ := properties["SubState"].Value().(string); sub == "exited" || sub == "failed" {
		select {
		case s.ended <- struct{}{}:
		default: // it is known
		}
	}
}

// Terminate implements godbus.Terminator.
func (s *signals) Terminate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil && !s.closed {
		close(s.ended)
	}
	s.closed = true
}
