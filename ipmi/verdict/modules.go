package verdict

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/nodemend/nodemend/ipmi"
)

const typeMemory ipmi.SensorType = 0x0c

// anyOf stands before the parts that an event may be about, see ipmi.Part.
const anyOf = "one of "

// slot is a slot of the memory with the serial number of the module in it.
type slot struct {
	// Name is the locator as slotName returns it.
	Name   string `json:"name"`
	Serial string `json:"serial"`
}

var (
	runs = regexp.MustCompile(`[A-Z]+|\d+`)
	// words are what some name a slot with, and others leave out.
	words = regexp.MustCompile(`^(DIMM|SOCKET|SLOT)`)
)

// slotName returns what all names of a slot have in common: "DIMM_A1", "Dimm A1" and "A1" are
// one, "P1-DIMMA1" and "P2-DIMMA1" are not.
func slotName(name string) string {
	var parts []string
	for _, run := range runs.FindAllString(strings.ToUpper(name), -1) {
		if run = words.ReplaceAllString(run, ""); run != "" {
			parts = append(parts, run)
		}
	}
	return strings.Join(parts, ".")
}

// module returns the module in the slot of that name; false if there is none, or several slots
// are named so.
func (j *judgement) module(name string) (module ipmi.Module, found bool) {
	wanted := slotName(name)
	if wanted == "" {
		return module, false
	}
	for _, m := range j.in.Modules {
		switch {
		case slotName(m.Locator) != wanted:
		case found:
			return ipmi.Module{}, false
		default:
			module, found = m, true
		}
	}
	return module, found && module.Bytes > 0
}

// component is that of a subject. Of several modules that it may be about, those are left that
// are there by what the firmware says.
func (j *judgement) component(s subject) string {
	name := component(s)
	list, several := strings.CutPrefix(name, anyOf)
	if s.Type != typeMemory || !several || strings.HasSuffix(list, "...") {
		return name
	}
	candidates := strings.Split(list, ", ")
	there := slices.DeleteFunc(slices.Clone(candidates), func(candidate string) bool {
		_, ok := j.module(candidate)
		return !ok
	})
	switch len(there) {
	case 0:
		return name
	case 1:
		return there[0]
	default:
		return anyOf + strings.Join(there, ", ")
	}
}

// moduleOf returns the module that a subject is about, if that is one for sure.
func (j *judgement) moduleOf(s subject) (ipmi.Module, bool) {
	if s.Type != typeMemory || s.absent {
		return ipmi.Module{}, false
	}
	name := j.component(s)
	if strings.HasPrefix(name, anyOf) {
		return ipmi.Module{}, false
	}
	return j.module(name)
}

// slots returns the slots with a module whose serial number tells it from all others.
func (j *judgement) slots() []slot {
	count := map[string]int{}
	for _, m := range j.in.Modules {
		count[m.Serial]++
	}
	var all []slot
	for _, m := range j.in.Modules {
		name := slotName(m.Locator)
		if _, sure := j.module(m.Locator); sure && isSerial(m.Serial) && count[m.Serial] == 1 && len(all) < maxParts {
			all = append(all, slot{clip(name, maxName), clip(m.Serial, maxName)})
		}
	}
	return all
}

// isSerial reports whether a text can be a serial number: makers of boards leave samples.
func isSerial(text string) bool {
	const shortest = 4
	return len(text) >= shortest && strings.ContainsFunc(text, unicode.IsDigit) &&
		strings.ContainsFunc(text, func(r rune) bool { return r != rune(text[0]) })
}

// readModules releases what was proved of modules that are not there any more: in another boot
// their slot has one with another serial number, and theirs is nowhere. That others have
// kept theirs proves that the firmware does not only write them in another way.
func (j *judgement) readModules() {
	now := j.slots()
	if len(now) == 0 || j.in.BootID == "" {
		return
	}
	before := j.memory.Slots
	if j.memory.SlotsBoot != j.in.BootID && slices.ContainsFunc(now, func(s slot) bool { return slices.Contains(before, s) }) {
		j.releaseUnless(func(p *point) bool { return !j.replaced(p, now) })
	}
	j.memory.Slots, j.memory.SlotsBoot = now, j.in.BootID
}

// replaced reports whether the module that p is about is not in the machine, and another one
// is in its slot.
func (j *judgement) replaced(p *point, now []slot) bool {
	if p.Module == nil || !j.earlierBoot(p) {
		return false
	}
	another := false
	for _, s := range now {
		if s.Serial == p.Module.Serial {
			return false
		}
		another = another || s.Name == p.Module.Name
	}
	return another
}

// noteModules remembers which module it is that a point of this boot is about.
func (j *judgement) noteModules() {
	if len(j.in.Modules) == 0 {
		return // what is known stays
	}
	now := j.slots()
	for _, p := range j.points {
		if p.Type != typeMemory || p.Path != "" || p.Chassis != "" || p.History || p.Boot == "" || p.Boot != j.in.BootID {
			continue
		}
		p.Module = nil
		m, sure := j.moduleOf(p.subject())
		if i := slices.IndexFunc(now, func(s slot) bool { return sure && s.Serial == clip(m.Serial, maxName) }); i >= 0 {
			p.Module = &now[i]
		}
	}
}
