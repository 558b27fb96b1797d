package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nodemend/nodemend/internal/power"
	service "github.com/nodemend/nodemend/internal/power/redfish"
	"github.com/nodemend/nodemend/ipmi"
)

// patience is how long a request may take. A BMC needs long to answer all modules at once.
const patience = 40 * time.Second

// Kind is what the source is called where it is compared with others, see Source.Kind.
const Kind = "redfish"

var _ ipmi.Source = (*Source)(nil)

// Options say where the service is, how to log in, and whose it is.
type Options struct {
	Service service.Options
	// Machine is the one that has to be a system of the service; zero: the service has but one.
	Machine power.UUID
}

// Source reads the system of a machine. There is a session from the first call until Rest.
type Source struct {
	options Options

	session *service.Session // nil: none
	path    string           // of the system
	// refused is why no session could be had, or the machine not be found: it is not tried again
	// before Rest, as services lock users out. relogged is whether a session was lost.
	refused  error
	relogged bool

	// entries is the path of the log's entries, as found before; empty: not known.
	entries *eventLog
	closed  bool
}

// New returns a source. It asks the service nothing before it is read; the error is of options
// and files that can't be used.
func New(o Options) (*Source, error) {
	o.Service.Password.Private = true
	o.Service.Patience = patience
	var err error
	if o.Service, err = o.Service.Validated(); err != nil {
		return nil, err
	}
	if _, err := o.Service.Password.Read(); err != nil {
		return nil, err
	}
	return &Source{options: o}, nil
}

// String names the service.
func (s *Source) String() string {
	return "redfish at " + strings.TrimPrefix(s.options.Service.URL, "https://")
}

// Kind tells this source from those that number sensors and records as IPMI does.
func (s *Source) Kind() string { return Kind }

// Rest ends the session.
func (s *Source) Rest() {
	s.abandon()
	s.refused, s.relogged = nil, false
}

// Close implements io.Closer.
func (s *Source) Close() error {
	s.Rest()
	s.closed = true
	return nil
}

var _ io.Closer = (*Source)(nil)

func (s *Source) abandon() {
	if s.session != nil {
		s.session.Close()
		s.session = nil
	}
}

// open opens a session if there is none.
func (s *Source) open(ctx context.Context) error {
	switch {
	case s.closed:
		return os.ErrClosed
	case s.session != nil:
		return nil
	case s.refused != nil:
		return s.refused
	}
	session, err := service.Open(ctx, s.options.Service)
	if err == nil {
		s.session = session
		s.path, err = session.System(ctx, s.options.Machine)
	}
	if err != nil {
		s.abandon()
		if !errors.Is(err, power.ErrNoAnswer) && ctx.Err() == nil {
			s.refused = err
		}
	}
	return err
}

// isLost reports whether an error is of the service as such, or of the time that is left: the
// next request will not succeed, either.
func isLost(err error) bool {
	return errors.Is(err, power.ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, service.ErrTooMuch) && !errors.Is(err, errLong) || isExpired(err)
}

// isExpired reports whether a session is not known any more, as after a restart of the service.
func isExpired(err error) bool {
	const unauthorized = 401
	code, ok := errors.AsType[service.Status](err)
	return ok && code == unauthorized
}

// get reads a resource into value. A session that the service has lost is opened anew, once.
func (s *Source) get(ctx context.Context, path string, value any) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	data, err := s.session.Get(ctx, path)
	if isExpired(err) && !s.relogged {
		s.relogged = true
		s.abandon()
		if err := s.open(ctx); err != nil {
			return err
		}
		data, err = s.session.Get(ctx, path)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("the answer for %.100s is not as the schema has it: %w", path, err)
	}
	return nil
}

// system is what the system says of itself, and where its parts are.
type system struct {
	Status      status `json:"Status"`
	PowerState  string `json:"PowerState"`
	Memory      link   `json:"Memory"`
	Processors  link   `json:"Processors"`
	Storage     link   `json:"Storage"`
	LogServices link   `json:"LogServices"`
	Links       struct {
		Chassis   []link `json:"Chassis"`
		ManagedBy []link `json:"ManagedBy"`
	} `json:"Links"`
}

func (s *Source) system(ctx context.Context) (y system, err error) {
	if err := s.open(ctx); err != nil {
		return y, err
	}
	err = s.get(ctx, s.path, &y)
	return y, err
}

// manager is the BMC.
type manager struct {
	Name            text `json:"Name"`
	Model           text `json:"Model"`
	FirmwareVersion text `json:"FirmwareVersion"`
	LogServices     link `json:"LogServices"`
}

func (s *Source) manager(ctx context.Context, y system) (m manager, err error) {
	if len(y.Links.ManagedBy) == 0 {
		return m, nil
	}
	err = s.get(ctx, y.Links.ManagedBy[0].Path, &m)
	return m, err
}

// DeviceID returns what the manager of the system is, and its firmware.
func (s *Source) DeviceID(ctx context.Context) (id ipmi.DeviceID, err error) {
	y, err := s.system(ctx)
	if err != nil {
		return id, err
	}
	m, err := s.manager(ctx, y)
	if err != nil {
		return id, err
	}
	id.Name, id.Firmware = string(m.Model), string(m.FirmwareVersion)
	if id.Name == "" {
		id.Name = string(m.Name)
	}
	return id, nil
}

// Chassis returns whether the system is on. The flags of IPMI are those of its parts here.
func (s *Source) Chassis(ctx context.Context) (c ipmi.Chassis, err error) {
	y, err := s.system(ctx)
	if err != nil {
		return c, err
	}
	switch y.PowerState {
	case "On", "PoweringOff", "Paused":
		c.PowerOn = true
	case "Off", "PoweringOn":
	default:
		return c, fmt.Errorf("the system has no PowerState that is known, but %.20q", y.PowerState)
	}
	return c, nil
}

// Sensors returns those of all parts. A part that can't be read has a problem. With
// ipmi.ErrPartial whole lists of parts could not be read, or most parts do not tell their health.
func (s *Source) Sensors(ctx context.Context) ([]ipmi.Sensor, error) {
	y, err := s.system(ctx)
	if err != nil {
		return nil, err
	}
	p := &parts{paths: map[string]bool{}}
	p.sensors = append(p.sensors, y.rollup(s.path)...)
	err = s.readParts(ctx, p, y)
	switch {
	case err != nil:
		p.missed = append(p.missed, err)
	case len(p.missed) == 0 && 2*p.unknown > p.all:
		p.missed = append(p.missed, fmt.Errorf("%d of %d parts do not tell their health", p.unknown, p.all))
	}
	if len(p.missed) > 0 {
		return p.sensors, fmt.Errorf("%w: %w", ipmi.ErrPartial, errors.Join(p.missed...))
	}
	return p.sensors, nil
}

// rollup is what the system says of itself and all of its parts.
func (y system) rollup(path string) []ipmi.Sensor {
	r := resource{Status: y.Status}
	if y.Status.HealthRollup != nil {
		r.Status.Health = y.Status.HealthRollup
	}
	sensors := r.sensors(kindSystem, "System", canonical(path))
	if !sensors[0].Available {
		return nil // nothing is lost: the parts tell
	}
	return sensors
}

func (s *Source) readParts(ctx context.Context, p *parts, y system) error {
	if err := s.list(ctx, p, kindMemory, y.Memory.Path); err != nil {
		return err
	}
	if err := s.list(ctx, p, kindProcessor, y.Processors.Path); err != nil {
		return err
	}
	for i, chassis := range y.Links.Chassis {
		if i == maxChassis {
			p.miss("Chassis", fmt.Errorf("%w: more than %d", errLong, maxChassis))
			break
		}
		if err := s.environment(ctx, p, chassis.Path); err != nil {
			return err
		}
	}
	return s.drives(ctx, p, y.Storage.Path)
}

// errLong is of a list that is longer than what is read of it. What comes after it can be read.
var errLong = fmt.Errorf("%w: it is too long", service.ErrTooMuch)
