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
	// mark is what the board's drawing calls a slot, behind what is printed beside it: "DIMM000
	// J11", as Huawei's firmware has it.
	mark = regexp.MustCompile(`(\d.*) J\d+$`)
	runs = regexp.MustCompile(`[A-Z]+|\d+`)
	// words are what some name a slot with, and others leave out.
	words = regexp.MustCompile(`^(DIMM|SOCKET|SLOT)`)
)

// slotName returns what all names of a slot have in common: "DIMM_A1", "Dimm A1" and "A1" are
// one, and so are "DIMM000" and "DIMM000 J11"; "P1-DIMMA1" and "P2-DIMMA1" are not.
func slotName(name string) string {
	var parts []string
	name = mark.ReplaceAllString(strings.TrimSpace(strings.ToUpper(name)), "$1")
	for _, run := range runs.FindAllString(name, -1) {
		if run = words.ReplaceAllString(run, ""); run != "" {
			parts = append(parts, run)
		}
	}
	return strings.Join(parts, ".")
}

// module returns the slot of that name, with the module in it; false if there is none, or
// several slots are named so.
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
	return module, found
}

// candidate is a slot of the memory that a subject may be about.
type candidate struct {
	name string
	// module has no size if the firmware finds none there; its serial number is that of the
	// last one then.
	module ipmi.Module
}

// candidates returns the slots that a subject may be about and that the firmware knows, but for
// those that are surely empty. A firmware does not show a module that it has put out of use: a
// slot that has had one is no empty one, nor any before a failure that was there at the first look.
func (j *judgement) candidates(s subject) (all []candidate) {
	if s.Type != typeMemory || s.Chassis != "" || s.absent {
		return nil
	}
	add := func(name string, m ipmi.Module) {
		serial, wasFilled := j.memory.filled(name)
		switch {
		case m.Bytes > 0:
		case s.live && !wasFilled:
			return
		default:
			m.Serial = serial
		}
		all = append(all, candidate{name, m})
	}
	if slots := j.sharedSlots(s.name); slots != nil {
		for _, m := range j.in.Modules {
			if _, one := j.module(m.Locator); one && slots.MatchString(m.Locator) {
				add(m.Locator, m)
			}
		}
		return all
	}
	name := component(s)
	list, several := strings.CutPrefix(name, anyOf)
	if !several {
		list = name
	}
	if several && strings.HasSuffix(list, "...") {
		return nil
	}
	for name := range strings.SplitSeq(list, ", ") {
		if m, ok := j.module(name); ok {
			add(name, m)
		}
	}
	return all
}

// component is that of a subject. Of several modules that it may be about, those are left that
// may be there by what the firmware says.
func (j *judgement) component(s subject) string {
	name := component(s)
	if !strings.HasPrefix(name, anyOf) && j.sharedSlots(s.name) == nil {
		return name
	}
	var names []string
	for _, c := range j.candidates(s) {
		names = append(names, clean(c.name))
	}
	switch len(names) {
	case 0:
		return name
	case 1:
		return names[0]
	}
	list := anyOf + strings.Join(names, ", ")
	if s.Located != "" && !strings.HasPrefix(name, anyOf) {
		list += " (" + s.Located + ")"
	}
	if len(list) > maxName {
		return name
	}
	return list
}

// moduleOf returns the module that a subject is about, if that is one for sure.
func (j *judgement) moduleOf(s subject) (ipmi.Module, bool) {
	if all := j.candidates(s); len(all) == 1 && all[0].module.Bytes > 0 {
		return all[0].module, true
	}
	return ipmi.Module{}, false
}

// modulesOf returns the module that a subject is about, or else those that it may be about.
func (j *judgement) modulesOf(s subject) (*ipmi.Module, []ipmi.Module) {
	if m, ok := j.moduleOf(s); ok {
		return &m, nil
	}
	var candidates []ipmi.Module
	for _, c := range j.candidates(s) {
		candidates = append(candidates, c.module)
	}
	return nil, candidates
}

// filled returns the serial number of the last module in a slot; false if none was seen there.
func (m *memory) filled(name string) (serial string, ok bool) {
	wanted := clip(slotName(name), maxName)
	if i := slices.IndexFunc(m.Filled, func(s slot) bool { return s.Name == wanted }); i >= 0 {
		return m.Filled[i].Serial, true
	}
	return "", false
}

// noteFilled remembers which slots have a module.
func (j *judgement) noteFilled() {
	for _, m := range j.in.Modules {
		name := clip(slotName(m.Locator), maxName)
		if _, one := j.module(m.Locator); !one || m.Bytes == 0 {
			continue
		}
		now := slot{name, clip(m.Serial, maxName)}
		if i := slices.IndexFunc(j.memory.Filled, func(s slot) bool { return s.Name == name }); i >= 0 {
			j.memory.Filled[i] = now
		} else if len(j.memory.Filled) < maxParts {
			j.memory.Filled = append(j.memory.Filled, now)
		}
	}
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
		if _, one := j.module(m.Locator); one && m.Bytes > 0 && isSerial(m.Serial) && count[m.Serial] == 1 && len(all) < maxParts {
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
	j.noteFilled()
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
