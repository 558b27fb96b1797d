package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	service "github.com/nodemend/nodemend/internal/power/redfish"
	"github.com/nodemend/nodemend/ipmi"
)

// Bounds of what is read.
const (
	maxMembers = 256 // of a collection
	maxPages   = 32  // of one
	maxChassis = 32  // those of a server with eight GPUs and their trays are a dozen
	maxPath    = 256 // bytes
)

// parts are those of one reading.
type parts struct {
	sensors []ipmi.Sensor
	// paths are those that are taken.
	paths map[string]bool
	// unknown are the parts that should tell their health, and do not; all are of the same
	// kinds.
	unknown, all int
	// missed is why not all could be read.
	missed []error
}

// miss notes that a resource with several parts could not be read.
func (p *parts) miss(what string, err error) {
	p.missed = append(p.missed, fmt.Errorf("%s: %w", what, err))
}

// resource notes whether one that leads to parts could be read. One that the service does not have
// costs itself only; if it had it before, that is seen as of a part. All else is missed.
func (p *parts) resource(path string, err error) {
	const entityPresent uint16 = 1 << 0
	path = canonical(path)
	name := strings.TrimPrefix(path, "/redfish/v1/")
	if err != nil && !isLacking(err) || !isPath(path) {
		if err != nil {
			p.miss(name, err)
		}
		return
	}
	if p.paths[path] {
		return
	}
	p.paths[path] = true
	sensor := ipmi.Sensor{Name: name, Type: kindResource.SensorType, EventType: ipmi.SensorSpecific, Path: path, Available: err == nil}
	if err == nil {
		sensor.States = entityPresent
	} else {
		sensor.Problem = fmt.Sprintf("%s: %s", name, trimmed(err))
	}
	p.sensors = append(p.sensors, sensor)
}

// isLacking reports whether the service says that it does not have what it leads to.
func isLacking(err error) bool {
	const notFound, notImplemented = 404, 501
	code, ok := errors.AsType[service.Status](err)
	return ok && (code == notFound || code == notImplemented)
}

// raw is the answer of a service for one part; err is why there is none.
type raw struct {
	path string
	data []byte
	err  error
}

// add adds the parts of a list. Names that several have get the number of the part. One that
// can't be read costs itself only.
func (p *parts) add(k kind, list []raw) {
	type decoded struct {
		resource
		path    string
		problem string
	}
	var all []decoded
	names := map[text]int{}
	for _, raw := range list {
		d := decoded{path: canonical(raw.path)}
		switch err := raw.err; {
		case err != nil:
			d.problem = trimmed(err)
		case !isPath(d.path):
			d.problem = fmt.Sprintf("its path is %.40q", d.path)
		default:
			if err := json.Unmarshal(raw.data, &d.resource); err != nil {
				d.resource, d.problem = resource{}, "its answer is not as the schema has it: "+err.Error()
			}
		}
		if p.paths[d.path] || d.path == "" {
			continue
		}
		p.paths[d.path] = true
		for _, name := range d.names(k) {
			names[name]++
		}
		all = append(all, d)
	}
	for _, d := range all {
		name := d.title(k, d.path, names)
		if d.problem != "" {
			p.sensors = append(p.sensors, unread(k, name, d.path, d.problem)...)
			continue
		}
		sensors := d.sensors(k, name, d.path)
		p.all++
		if sensors[0].Problem != "" {
			p.unknown++
		}
		p.sensors = append(p.sensors, sensors...)
	}
}

// title returns the first name that no other part of the list has, or else one with what tells
// it apart.
func (r resource) title(k kind, path string, names map[text]int) string {
	all := r.names(k)
	for _, name := range all {
		if names[name] == 1 {
			return string(name)
		}
	}
	number := string(r.number())
	if number == "" {
		number = path[strings.LastIndex(path, "/")+1:]
	}
	if len(all) > 0 && k != kindSupply {
		return strings.TrimSpace(string(all[0]) + " " + number)
	}
	return strings.TrimSpace(k.name + " " + number)
}

// trimmed returns an error without what all errors of the service begin with.
func trimmed(err error) string {
	if code, ok := errors.AsType[service.Status](err); ok {
		return code.Error()
	}
	return err.Error()
}

// canonical returns a path as sensors have it: some services end it with a slash.
func canonical(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return strings.TrimRight(path, "/")
}

// isPath reports whether a path may be one of the service.
func isPath(path string) bool {
	return strings.HasPrefix(path, "/redfish/") && len(path) <= maxPath && !strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' })
}

// collection is what DSP0266 calls one.
type collection struct {
	Members []json.RawMessage `json:"Members"`
	Next    string            `json:"Members@odata.nextLink"`
}

// each calls f with all members of a collection, in its order, until it returns an error. The
// error of a member is that member's own; one of the service ends it.
func (s *Source) each(ctx context.Context, path string, most int, f func(raw) error) error {
	count := 0
	for page := 0; path != ""; page++ {
		if page == maxPages {
			return fmt.Errorf("%w: more than %d pages", errLong, maxPages)
		}
		c, err := s.page(ctx, path, page == 0)
		if err != nil {
			return err
		}
		for _, member := range c.Members {
			count++
			if count > most {
				return fmt.Errorf("%w: more than %d members", errLong, most)
			}
			r, err := s.member(ctx, member)
			if err != nil {
				return err
			}
			if err := f(r); err != nil {
				return err
			}
		}
		path = c.Next
	}
	return nil
}

// page returns a page of a collection, with its members if the service can: some say so and
// can't.
func (s *Source) page(ctx context.Context, path string, first bool) (c collection, err error) {
	if err := s.open(ctx); err != nil {
		return c, err
	}
	if expand := s.session.Expand(); first && expand != "" && !strings.Contains(path, "?") {
		err := s.get(ctx, path+expand, &c)
		if err == nil || isLost(err) {
			return c, err
		}
	}
	c = collection{}
	err = s.get(ctx, path, &c)
	return c, err
}

// member returns a member of a collection, which may be but a link to it.
func (s *Source) member(ctx context.Context, data json.RawMessage) (raw, error) {
	var properties map[string]json.RawMessage
	var to link
	if err := errors.Join(json.Unmarshal(data, &properties), json.Unmarshal(data, &to)); err != nil {
		return raw{}, fmt.Errorf("a member that is no resource: %w", err)
	}
	if len(properties) > 1 {
		return raw{path: to.Path, data: data}, nil
	}
	return s.fetch(ctx, to.Path)
}

// fetch returns a resource. The error is that of the service, if it answers no more.
func (s *Source) fetch(ctx context.Context, path string) (raw, error) {
	var data json.RawMessage
	err := s.get(ctx, path, &data)
	if isLost(err) {
		return raw{}, err
	}
	return raw{path, data, err}, nil
}

// list adds the members of a collection to p. What ends the reading is returned.
func (s *Source) list(ctx context.Context, p *parts, k kind, path string) error {
	if path == "" {
		return nil
	}
	var all []raw
	err := s.each(ctx, path, maxMembers, func(r raw) error { all = append(all, r); return nil })
	p.add(k, all)
	if err != nil && isLost(err) {
		return err
	}
	p.resource(path, err)
	return nil
}

// drives adds the drives of all storage: they are links of each.
func (s *Source) drives(ctx context.Context, p *parts, path string) error {
	if path == "" {
		return nil
	}
	var all []raw
	err := s.each(ctx, path, maxMembers, func(r raw) error {
		var storage struct {
			Drives []link `json:"Drives"`
		}
		err := r.err
		if err == nil {
			err = json.Unmarshal(r.data, &storage)
		}
		p.resource(r.path, err)
		for _, drive := range storage.Drives {
			if len(all) == maxMembers {
				return fmt.Errorf("%w: more than %d drives", errLong, maxMembers)
			}
			r, err := s.fetch(ctx, drive.Path)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		return nil
	})
	p.add(kindDrive, all)
	if err != nil && isLost(err) {
		return err
	}
	p.resource(path, err)
	return nil
}

// chassis is a resource that leads to supplies and fans: in older services Power and Thermal
// hold them, in newer ones they are resources of their own.
type chassis struct {
	Power           link `json:"Power"`
	Thermal         link `json:"Thermal"`
	PowerSubsystem  link `json:"PowerSubsystem"`
	ThermalSubsytem link `json:"ThermalSubsystem"`
}

// environment adds supplies, fans, temperatures and voltages of a chassis.
func (s *Source) environment(ctx context.Context, p *parts, path string) error {
	r, err := s.fetch(ctx, path)
	if err != nil {
		return err
	}
	var c chassis
	if err := r.err; err == nil {
		r.err = json.Unmarshal(r.data, &c)
	}
	p.resource(path, r.err)
	if err := s.members(ctx, p, c.Thermal.Path, []list{{"Fans", kindFan}, {"Temperatures", kindTemperature}}); err != nil {
		return err
	}
	if c.Thermal.Path == "" {
		if err := s.subsystem(ctx, p, kindFan, c.ThermalSubsytem.Path); err != nil {
			return err
		}
	}
	before := len(p.sensors)
	if err := s.subsystem(ctx, p, kindSupply, c.PowerSubsystem.Path); err != nil || len(p.sensors) > before {
		return err
	}
	return s.members(ctx, p, c.Power.Path, []list{{"PowerSupplies", kindSupply}, {"Voltages", kindVoltage}})
}

// subsystem adds the members of a subsystem's collection.
func (s *Source) subsystem(ctx context.Context, p *parts, k kind, path string) error {
	if path == "" {
		return nil
	}
	r, err := s.fetch(ctx, path)
	if err != nil {
		return err
	}
	var subsystem struct {
		PowerSupplies link `json:"PowerSupplies"`
		Fans          link `json:"Fans"`
	}
	if r.err == nil {
		r.err = json.Unmarshal(r.data, &subsystem)
	}
	p.resource(path, r.err)
	if k == kindFan {
		return s.list(ctx, p, k, subsystem.Fans.Path)
	}
	return s.list(ctx, p, k, subsystem.PowerSupplies.Path)
}

// list is one that a resource holds, by its name.
type list struct {
	name string
	kind kind
}

// members adds the parts that a resource holds in these lists.
func (s *Source) members(ctx context.Context, p *parts, path string, of []list) error {
	if path == "" {
		return nil
	}
	r, err := s.fetch(ctx, path)
	if err != nil {
		return err
	}
	var properties map[string]json.RawMessage
	if r.err == nil {
		r.err = json.Unmarshal(r.data, &properties)
	}
	p.resource(path, r.err)
	for _, l := range of {
		data, has := properties[l.name]
		if !has {
			continue
		}
		at := canonical(path) + "#" + l.name
		var members []json.RawMessage
		if err := json.Unmarshal(data, &members); err != nil {
			p.miss(at, err)
			continue
		}
		if len(members) > maxMembers {
			p.miss(at, fmt.Errorf("%w: more than %d members", errLong, maxMembers))
			members = members[:maxMembers]
		}
		p.add(l.kind, held(at, members))
	}
	return nil
}

// held returns the members of a list that a resource holds. They are told apart by the first of
// name, member ID and place that is one for each: the places of others change with every part
// that is pulled.
func held(path string, members []json.RawMessage) []raw {
	type ids struct {
		Name     text `json:"Name"`
		FanName  text `json:"FanName"`
		MemberID text `json:"MemberId"`
	}
	all, count := make([]ids, len(members)), map[text]int{}
	for i, data := range members {
		_ = json.Unmarshal(data, &all[i]) // which is told when the part is decoded
		for _, id := range []text{cmp.Or(all[i].Name, all[i].FanName), all[i].MemberID} {
			count[id]++
		}
	}
	list := make([]raw, 0, len(members))
	for i, data := range members {
		id := text(strconv.Itoa(i))
		for _, candidate := range []text{cmp.Or(all[i].Name, all[i].FanName), all[i].MemberID} {
			if candidate != "" && count[candidate] == 1 {
				id = candidate
				break
			}
		}
		list = append(list, raw{path: path + "/" + strings.ReplaceAll(string(id), " ", "_"), data: data})
	}
	return list
}
