package drives

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/counters"
)

const (
	// day is the window within which lost blocks are counted.
	day = 24 * time.Hour
	// few failed requests between two runs prove nothing: a disk refuses some commands, as of
	// programs that ask for its health.
	few = 20
)

// known is what is remembered.
type known struct {
	Drives map[string]*remembered `json:"drives"`
}

// remembered is what is remembered of a drive.
type remembered struct {
	Name  string `json:"name"`
	Place string `json:"place,omitempty"`
	// Media counts its lost blocks; nil before it has told of them.
	Media *counters.Counter `json:"media,omitempty"`
	// Tells is whether it has ever told how it is.
	Tells bool `json:"tells,omitempty"`
	// Fault is what was wrong with it when it told last how it is.
	Fault *finding `json:"fault,omitempty"`
	// Gone is when it was not there any more.
	Gone time.Time `json:"gone,omitzero"`
	// doubt is whether the kernel could not use it at the last run, which is so for a moment
	// when a drive is taken out.
	doubt bool
	// unusable is since when the kernel can't use it, and has not given it up; zero: it can.
	unusable time.Time
}

// well is whether the kernel can use the drive.
func (d drive) well() bool { return d.state == "live" || d.state == "running" }

// judge notes what was seen, and returns what it means.
func (c *Check) judge(all inventory, now time.Time) checks.Result {
	if c.known.Drives == nil {
		c.known.Drives = map[string]*remembered{}
	}
	var found []finding
	var well []string
	there, fresh := map[string]bool{}, map[string]int{}
	for _, d := range all.drives {
		there[d.id] = true
		r, met := c.known.meet(d)
		if !met {
			fresh[d.place]++
		}
		problems, note, told := c.problems(d, r, now)
		r.remember(problems, told)
		for _, p := range problems {
			found = append(found, finding{Reason: p.Reason, Text: d.name + ": " + p.Text})
		}
		if len(problems) == 0 {
			well = append(well, d.name+note)
		}
	}
	found = append(found, c.known.gone(there, fresh, c.options.Exclude, now)...)
	for _, a := range all.arrays {
		problems := a.findings()
		found = append(found, problems...)
		if len(problems) == 0 {
			well = append(well, a.String())
		}
	}
	healthy := checks.Healthy(ReasonHealthy, strings.Join(well, ", ")+": nothing is wrong")
	if len(well) == 0 {
		healthy = checks.CannotTell(ReasonNotSeen, "no drive and no array is there any more; if that is to be so, switch the check off, or remove its state file")
	}
	return checks.Judge(found, grave(), healthy)
}

// meet returns what is remembered of a drive that is there, and whether it was met before.
func (k *known) meet(d drive) (r *remembered, met bool) {
	r, met = k.Drives[d.id]
	if !met {
		r = &remembered{}
		k.Drives[d.id] = r
	}
	r.Name, r.Place, r.Gone = d.name, d.place, time.Time{}
	return r, met
}

// problems are what is wrong with a drive, or else what is told of one that is well. It has told if
// it is known how it is now.
func (c *Check) problems(d drive, r *remembered, now time.Time) (all []finding, note string, told bool) {
	add := func(reason, format string, args ...any) {
		all = append(all, finding{Reason: reason, Text: fmt.Sprintf(format, args...)})
	}
	last, seen := c.traffic[d.id]
	c.traffic[d.id] = d.io
	if failed, done := d.io.failed-last.failed, d.io.done-last.done; seen && d.io.failed >= last.failed && d.io.done >= last.done &&
		c.options.MaxErrors > 0 && failed >= few && failed*100 >= done*uint64(c.options.MaxErrors) {
		add(ReasonErrors, "%d of %d requests have failed", failed, done)
	}
	switch {
	case d.well():
	case d.state == "dead" || d.state == "offline":
		add(ReasonFailed, "the kernel has given it up (%s)", d.state)
		return all, "", false
	default:
		state := cmp.Or(d.state, "it does not tell why")
		if r.unusable.IsZero() {
			r.unusable = now
		}
		if since := now.Sub(r.unusable); since >= c.options.MaxWait {
			add(ReasonHung, "the kernel can't use it for %s (%s)", since.Round(time.Second), state)
		} else {
			add(ReasonNotReady, "the kernel can't use it at present (%s)", state)
		}
		return all, "", false
	}
	r.unusable = time.Time{}
	a := c.asked[d.id]
	if a == nil { // it is not to be asked
		return all, "", !c.options.Health
	}
	switch {
	case a.waited >= c.options.MaxWait && d.io.well() == a.done: // a busy disk may let this question wait for long
		add(ReasonHung, "has not told for %s how it is", a.waited.Round(time.Second))
	case a.waited > 0:
		add(ReasonSlow, "has not told for %s yet how it is", a.waited.Round(time.Second))
	}
	h := a.answer
	if h == nil {
		return all, "", false
	}
	if (h.asleep || h.none) && r.Fault != nil { // it says nothing new
		return append(all, *r.Fault), "", false
	}
	if h.err != nil {
		add(ReasonNotSeen, "%s", describe(h.err))
		return all, "", false
	}
	if h.none && r.Tells { // the kernel says of commands that time out that they are not known
		add(ReasonNotSeen, "does not tell any more how it is; if that was switched off, exclude it")
		return all, "", false
	}
	r.Tells = r.Tells || !h.asleep && !h.none
	all = append(all, h.findings...)
	if h.asleep || h.none {
		return all, " (" + h.note() + ")", false
	}
	if n := r.count(h, now); c.options.MaxMediaErrors > 0 && n >= uint64(c.options.MaxMediaErrors) {
		add(ReasonMedia, "%d media errors in 24 h", n)
	}
	if c.options.MaxUsed > 0 && h.used >= c.options.MaxUsed {
		add(ReasonWorn, "%d %% of its life is used", h.used)
	}
	if note = h.note(); note != "" {
		note = " (" + note + ")"
	}
	return all, note, a.waited == 0
}

// count returns how many of the lost blocks of a drive's life it has lost within a day. Those
// from before the first look are history.
func (r *remembered) count(h *health, now time.Time) uint64 {
	switch {
	case r.Media == nil && !h.counted:
		return 0
	case r.Media == nil:
		r.Media = &counters.Counter{Last: h.media}
	case h.counted:
		r.Media.See(h.media, now, day)
	}
	return r.Media.Added()
}

// remember remembers the gravest of what is wrong with a drive, in case it is gone next. It is
// forgotten only when the drive has told that it is well. What only the kernel says has to be so twice.
func (r *remembered) remember(problems []finding, told bool) {
	find := func(reasons ...string) *finding {
		for _, reason := range reasons {
			if at := slices.IndexFunc(problems, func(f finding) bool { return f.Reason == reason }); at >= 0 {
				return &problems[at]
			}
		}
		return nil
	}
	doubtful := find(ReasonFailed, ReasonErrors, ReasonNotReady)
	if told {
		r.Fault = nil
	}
	if grave := find(ReasonReadOnly, ReasonFailing, ReasonHung, ReasonMedia); grave != nil {
		r.Fault = grave
	} else if r.doubt && r.Fault == nil {
		r.Fault = doubtful
	}
	r.doubt = doubtful != nil
}

// gone are the drives that were not well, and are gone, unless a fresh one, which was never met before,
// is in their place. Of others that are gone nobody knows whether they were taken out.
func (k *known) gone(there map[string]bool, fresh map[string]int, exclude []string, now time.Time) (all []finding) {
	for _, id := range slices.Sorted(maps.Keys(k.Drives)) {
		r := k.Drives[id]
		switch {
		case there[id]:
		case r.Fault == nil || checks.Matches(exclude, r.Name) || checks.Matches(exclude, id):
			delete(k.Drives, id)
		case r.Place != "" && fresh[r.Place] > 0: // each is in the place of one
			fresh[r.Place]--
			delete(k.Drives, id)
		default:
			if r.Gone.IsZero() {
				r.Gone = now
			}
			all = append(all, finding{Reason: ReasonMissing, Text: fmt.Sprintf("%s (%s) is gone, of which was known: %s", r.Name, strings.TrimSpace(id), r.Fault.Text)})
		}
	}
	return all
}
