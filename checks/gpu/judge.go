package gpu

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nodemend/nodemend/checks"
)

// finding is something that is not well.
type finding = checks.Finding

// excluded is whether a GPU of which this is known is not looked at.
func (c *Check) excluded(r remembered) bool {
	return slices.ContainsFunc(c.options.Exclude, func(pattern string) bool {
		return slices.ContainsFunc([]string{r.Address, r.Model, r.Serial, r.UUID}, func(known string) bool {
			match, err := path.Match(pattern, known)
			return err == nil && match && known != ""
		})
	})
}

// excludes is whether a GPU is not looked at, by what is told of it now.
func (c *Check) excludes(g gpu, row map[string]string) bool {
	r := remembered{}
	r.learn(g, row)
	return c.excluded(r)
}

// judge notes what was seen, and returns what it means.
func (c *Check) judge(all inventory, now time.Time) checks.Result {
	v := verdict{check: c, now: now}
	var rows map[string]map[string]string
	if a := c.asked.answer; a != nil {
		rows = a.rows
	}
	out := func(g gpu) bool { return g.leftOut || c.excludes(g, rows[g.address]) }
	met, missing := c.known.meet(all.gpus, func(g gpu) string { return cmp.Or(g.uuid, rows[g.address][fieldUUID]) },
		func(g gpu) bool { return g.driver == driver && !out(g) })
	c.known.GPUs = nil
	c.forgetSlow(all.gpus)
	strangers := 0
	for _, g := range all.gpus {
		r, before := met[g.address]
		r.learn(g, rows[g.address])
		switch {
		case out(g) || c.excluded(r): // by what is told of it, or was known
			v.out++
			continue
		case g.driver == driver:
			v.judge(g, &r)
		case g.driver != "" || !before:
			v.out++
			if g.driver == "" {
				strangers++
			}
			continue
		case g.lost:
			v.add(ReasonFellOff, r, offBus)
		default:
			v.add(ReasonNoDriver, r, "no driver has it any more; if that is to be so, exclude it")
		}
		c.known.GPUs = append(c.known.GPUs, r)
	}
	for _, r := range missing {
		switch {
		case c.excluded(r):
			continue
		case strangers > 0: // another boot may have given it another address
			strangers--
			v.add(ReasonNoDriver, r, "it is not there any more, unless it is one that no driver has; load the driver, or exclude it")
		default:
			v.add(ReasonMissing, r, "it is not there any more; if it was taken out, exclude it")
		}
		c.known.GPUs = append(c.known.GPUs, r)
	}
	c.asked.bad = v.bad
	if len(v.silent) > 0 {
		v.found = append(v.found, finding{Reason: v.silence.Reason, Text: "nvidia-smi " + v.silence.Text + ", asked about " + checks.Listed(v.silent)})
	}
	return checks.Judge(v.found, grave(), checks.Healthy(ReasonHealthy, v.healthy(all.version)))
}

// forgetSlow forgets that GPUs were slow that are not there.
func (c *Check) forgetSlow(gpus []gpu) {
	maps.DeleteFunc(c.slow, func(address string, _ time.Time) bool {
		return !slices.ContainsFunc(gpus, func(g gpu) bool { return g.address == address })
	})
}

// offBus is what is said of a GPU that does not answer.
const offBus = "it answers nothing on its bus (PCI)"

// verdict collects what is wrong with GPUs.
type verdict struct {
	check *Check
	now   time.Time
	found []finding
	// silent are those for which nvidia-smi as a whole has no answer, and silence why.
	silent  []string
	silence finding
	// bad is whether the driver's answer was.
	bad bool
	// well are those that are, and notes what is told of them; out is how many are not looked at.
	well, notes []string
	out         int
}

func (v *verdict) add(reason string, r remembered, text string) {
	v.found = append(v.found, finding{Reason: reason, Text: r.String() + ": " + text})
}

// judge judges a GPU that the driver has.
func (v *verdict) judge(g gpu, r *remembered) {
	a, waited, limit := v.check.asked.answer, v.check.asked.waited, v.check.options.MaxWait
	switch {
	case g.lost:
		v.add(ReasonFellOff, *r, offBus)
	case !v.check.options.Health:
		v.well = append(v.well, r.String())
	case waited >= limit+checks.Late: // it is killed at its limit
		v.none(r, true, fmt.Sprintf("has not answered for %s and can't be killed, as when a GPU hangs", waited.Round(time.Second)))
	case a == nil:
		v.none(r, false, fmt.Sprintf("has not answered for %s yet", waited.Round(time.Second)))
	case a.late:
		v.none(r, true, fmt.Sprintf("has not answered within %s, as when a GPU hangs", limit))
	case a.absent && !r.Told:
		v.well = append(v.well, r.String())
	case a.absent:
		v.none(r, false, "is not there any more")
	case a.err != nil:
		v.none(r, false, "can't be run: "+a.err.Error())
	default:
		v.answered(g, r, *a)
	}
}

// none adds a GPU to those for which nvidia-smi as a whole has no answer. If it hangs, that is a
// fault only where it has answered before.
func (v *verdict) none(r *remembered, hangs bool, what string) {
	v.bad = true
	v.silent = append(v.silent, r.String())
	reason := ReasonNotSeen
	if hangs && r.Told {
		reason = ReasonNotAnswering
	}
	if v.silence.Reason != ReasonNotAnswering {
		v.silence = finding{Reason: reason, Text: what}
	}
}

// answered judges a GPU by what the driver says.
func (v *verdict) answered(g gpu, r *remembered, a answer) {
	row, told := a.rows[g.address]
	why, refused := a.refusals[g.address]
	switch {
	case told:
		r.Told = true
		v.row(g, *r, row)
		return
	case refused:
		reason, known := state(why)
		switch {
		case known:
		case r.Told:
			reason = ReasonNotAnswering
		default:
			reason = ReasonNotSeen
		}
		v.add(reason, *r, "its driver says: "+why)
	case a.none:
		v.none(r, true, "has found no devices")
	case len(a.rows)+len(a.refusals) == 0:
		v.none(r, false, "says: "+cmp.Or(a.rest, "nothing"))
	default:
		v.add(ReasonNotSeen, *r, strings.TrimSpace("nvidia-smi does not tell of it. "+a.rest))
	}
	v.bad = true
}

// row judges a GPU by what the driver tells of it.
func (v *verdict) row(g gpu, r remembered, row map[string]string) {
	wrong, note := problems(row)
	wrong = append(wrong, v.check.slowness(g, row, v.now)...)
	for _, w := range wrong {
		v.add(w.Reason, r, w.Text)
	}
	if len(wrong) > 0 {
		v.bad = true
		return
	}
	v.well = append(v.well, r.String())
	if note != "" {
		v.notes = append(v.notes, g.address+": "+note)
	}
}

// slowness is that a GPU has slowed itself down for long.
func (c *Check) slowness(g gpu, row map[string]string, now time.Time) []finding {
	why := slowed(row)
	since, slow := c.slow[g.address]
	switch {
	case why == "":
		delete(c.slow, g.address)
	case !slow:
		c.slow[g.address] = now
	case c.options.MaxSlowdown > 0 && now.Sub(since) >= c.options.MaxSlowdown:
		return []finding{{Reason: ReasonSlowed, Text: fmt.Sprintf("it has slowed itself down for %s: %s", now.Sub(since).Round(time.Minute), why)}}
	}
	return nil
}

// healthy tells of GPUs that are well.
func (v *verdict) healthy(version string) string {
	told := []string{"the driver has no GPU of NVIDIA"}
	if len(v.well) > 0 {
		told[0] = checks.Listed(v.well) + ": nothing is wrong"
	}
	told = append(told, v.notes...)
	if v.out > 0 {
		told = append(told, fmt.Sprintf("%d not looked at", v.out))
	}
	if a := v.check.asked.answer; a != nil && len(v.well) > 0 {
		if a.absent {
			told = append(told, "nvidia-smi was not found: only the kernel tells of them")
		} else if len(a.untold) > 0 {
			told = append(told, strings.TrimSpace("driver "+version)+" does not tell "+strings.Join(a.untold, ", "))
		}
	}
	return strings.Join(told, "; ")
}
