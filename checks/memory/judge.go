package memory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/counters"
)

// day is the window within which corrected errors are counted.
const day = 24 * time.Hour

// finding is something that is not well.
type finding = checks.Finding

// known is what is remembered of the memory.
type known struct {
	// BootID is the kernel's when it was looked at last.
	BootID  string             `json:"bootID"`
	Modules map[string]counted `json:"modules"`
}

// counted is what was counted of a module.
type counted struct {
	// Name and Names are those of the module.
	Name      string           `json:"name,omitempty"`
	Names     []string         `json:"names,omitempty"`
	Corrected counters.Counter `json:"corrected"`
	// Uncorrected are those of this boot since the first look, and Last is what was counted last.
	Uncorrected uint64 `json:"uncorrected,omitempty"`
	Last        uint64 `json:"last,omitempty"`
}

// judge notes what was seen, and returns what it means.
func (k *known) judge(all seen, o Options, now time.Time) checks.Result {
	last, rebooted := k.Modules, k.BootID != "" && k.BootID != o.BootID
	if rebooted {
		for id, h := range last {
			h.Uncorrected, h.Last, h.Corrected.Last = 0, 0, 0
			last[id] = h
		}
	}
	*k = known{BootID: o.BootID, Modules: map[string]counted{}}
	var found []finding
	var history []string
	modules := 0
	for _, c := range all.controllers {
		for n, m := range c.modules {
			h, looked := last[m.id]
			if !looked && !rebooted {
				h = c.firstLook(m)
			}
			h.see(m, now)
			k.Modules[m.id] = h
			text := fmt.Sprintf("%s: %d corrected, %d not", m.name, m.corrected, m.uncorrected)
			if m.excluded(o) {
				history = append(history, text+", excluded")
				continue
			}
			modules += min(n, 1) // the first is the controller itself
			problems := h.problems(m, o)
			found = append(found, problems...)
			if len(problems) == 0 && m.corrected+m.uncorrected > 0 {
				history = append(history, text)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(last)) {
		h := last[id]
		if _, seen := k.Modules[id]; seen || !h.miss(now) {
			continue
		}
		k.Modules[id] = h
		if m := h.module(id); !m.excluded(o) {
			found = append(found, h.problems(m, o)...)
		}
	}
	found = append(found, all.pages.problems(o)...)
	if n := all.pages.offline; n > 0 {
		history = append(history, fmt.Sprintf("pages out of use: %d", n))
	}
	healthy := fmt.Sprintf("%d memory modules have no errors", modules)
	if len(history) > 0 {
		healthy = fmt.Sprintf("none of %d memory modules has too many errors (%s)", modules, checks.Listed(history))
	}
	return checks.Judge(found, grave(), checks.Healthy(ReasonHealthy, healthy))
}

// excluded is whether its errors do not count. They are remembered: when it is excluded no more, they do.
func (m module) excluded(o Options) bool {
	return slices.ContainsFunc(m.names, func(name string) bool { return checks.Matches(o.Exclude, name) })
}

// firstLook is what is known of a module at the first look at it. What was counted within a
// day counts; of anything else nobody knows when it was.
func (c controller) firstLook(m module) (h counted) {
	if c.counting > day {
		h.Last, h.Corrected.Last = m.uncorrected, m.corrected
	}
	return h
}

// see takes what is counted now. A driver that is loaded anew and a person (reset_counters) let
// the count begin from zero.
func (h *counted) see(m module, now time.Time) {
	h.Name, h.Names = m.name, m.names
	if m.corrected < h.Corrected.Last || m.uncorrected < h.Last {
		h.Corrected.Last, h.Last = 0, 0
	}
	h.Corrected.See(m.corrected, now, day)
	h.Uncorrected += m.uncorrected - h.Last
	h.Last = m.uncorrected
}

// miss notes that a look lacks the module, and reports whether it has errors that count, or may with
// more of them. A driver that is loaded anew has some modules before others.
func (h *counted) miss(now time.Time) bool {
	h.Corrected.See(h.Corrected.Last, now, day)
	return h.Uncorrected > 0 || h.Corrected.Added() > 0
}

// module is one that a look lacks.
func (h *counted) module(id string) module {
	return module{id: id, name: cmp.Or(h.Name, id) + ", which nobody counts now", names: append(slices.Clone(h.Names), id)}
}

// problems are what is wrong with a module. What could not be corrected counts until the node
// boots: nobody exchanges a module before that.
func (h *counted) problems(m module, o Options) (all []finding) {
	if n := h.Uncorrected; n > 0 {
		all = append(all, finding{Reason: ReasonUncorrected, Text: fmt.Sprintf("%s: uncorrected errors since the node booted: %d", m.name, n)})
	}
	if n := h.Corrected.Added(); o.MaxCorrected > 0 && n >= uint64(o.MaxCorrected) {
		all = append(all, finding{Reason: ReasonCorrected, Text: fmt.Sprintf("%s: corrected errors in 24 h: %d", m.name, n)})
	}
	return all
}

// problems are what is wrong with the pages.
func (p pages) problems(o Options) (all []finding) {
	if p.failed > 0 {
		all = append(all, finding{Reason: ReasonNotOffline, Text: fmt.Sprintf("pages with an uncorrected error that could not be put out of use: %d", p.failed)})
	}
	if o.MaxOffline > 0 && p.offline >= uint64(o.MaxOffline) {
		all = append(all, finding{Reason: ReasonOffline, Text: fmt.Sprintf("pages out of use for errors: %d", p.offline)})
	}
	return all
}
