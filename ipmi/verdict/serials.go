package verdict

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// changeKind begins anew with the log and the components if they are those of another kind of
// source. What has failed stays, until it is acknowledged if the new source does not know it.
func (j *judgement) changeKind() {
	m := &j.memory
	if m.Kind == j.in.Kind {
		return
	}
	m.Cursor, m.Total, m.LogBoot, m.Tail, m.Reread = ipmi.Cursor{}, 0, "", nil, nil
	m.Began, m.Unfinished, m.Shrunk = time.Time{}, false, time.Time{}
	m.Parts, m.Serials, m.BMC = nil, nil, nil
	m.Kind = j.in.Kind
}

// serials returns the parts that have a resource with a serial number that no other has.
func (j *judgement) serials() []slot {
	serials, paths := map[string]string{}, map[string]map[string]bool{}
	for k, s := range j.sensors {
		if k.Path == "" || !s.Available || s.Identity == nil || !isSerial(s.Identity.Serial) {
			continue
		}
		serial := clip(s.Identity.Serial, maxName)
		serials[k.Path] = serial
		if paths[serial] == nil {
			paths[serial] = map[string]bool{}
		}
		paths[serial][k.Path] = true
	}
	var all []slot
	for path, serial := range serials {
		if len(paths[serial]) == 1 {
			all = append(all, slot{path, serial})
		}
	}
	slices.SortFunc(all, func(a, b slot) int { return cmp.Compare(a.Name, b.Name) })
	return all[:min(len(all), maxParts)]
}

// serialAt returns the serial number of the part of a path; empty if that is not known.
func serialAt(all []slot, path string) string {
	for _, s := range all {
		if s.Name == path {
			return s.Serial
		}
	}
	return ""
}

// readSerials releases what was proved of parts that are not there any more: their resource has
// another serial number and is well, and theirs is nowhere. That other parts have kept theirs
// proves that the BMC does not only write them in another way; if none has, what is remembered is
// of the same parts.
func (j *judgement) readSerials() {
	now, before := j.serials(), j.memory.Serials
	if len(now) == 0 {
		return
	}
	if slices.ContainsFunc(now, func(s slot) bool { return slices.Contains(before, s) }) {
		j.releaseUnless(func(p *point) bool { return !j.exchanged(p, now) })
	} else {
		for _, p := range j.points {
			if serial := serialAt(now, p.Path); p.Path != "" && p.Module != nil && serial != "" {
				p.Module = &slot{p.Path, serial}
			}
		}
	}
	merged := slices.Clone(now)
	for _, s := range before {
		if serialAt(now, s.Name) == "" && len(merged) < maxParts {
			merged = append(merged, s) // it could not be read this time
		}
	}
	slices.SortFunc(merged, func(a, b slot) int { return cmp.Compare(a.Name, b.Name) })
	j.memory.Serials = merged
}

// exchanged reports whether the part that p is about is not in the machine, and another one, which
// is well, is in its place.
func (j *judgement) exchanged(p *point, now []slot) bool {
	if p.Path == "" || p.Module == nil {
		return false
	}
	serial := serialAt(now, p.Path)
	if serial == "" || slices.ContainsFunc(now, func(s slot) bool { return s.Serial == p.Module.Serial }) {
		return false
	}
	s, ok := j.sensors[p.sensor()]
	return ok && s.Available && s.States&(1<<p.State) == 0
}

// noteSerials remembers which part it is that a point is about.
func (j *judgement) noteSerials() {
	now := j.serials()
	for _, p := range j.points {
		if p.Path == "" || p.History || p.Module != nil && !p.Shown {
			continue
		}
		if serial := serialAt(now, p.Path); serial != "" {
			p.Module = &slot{p.Path, serial}
		}
	}
}
