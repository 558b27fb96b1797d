package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodemend/nodemend/ipmi"
)

// isGeneric reports whether a name says nothing of which part it is.
func isGeneric(name string) bool {
	return slices.Contains([]string{"status", "state", "presence", "present", "health"}, strings.ToLower(name))
}

// findNamesakes takes note of the names that sensors of several entities have.
func (j *judgement) findNamesakes() {
	first := make(map[string]ipmi.Entity, len(j.in.Sensors))
	j.namesakes = make(map[string]bool)
	for _, s := range j.in.Sensors {
		if other, ok := first[s.Name]; ok && other != s.Entity {
			j.namesakes[s.Name] = true
		}
		first[s.Name] = s.Entity
	}
}

// partOf returns what people call the part of a sensor whose name does not tell it: "Power
// Supply 2", "Processor 1 Temp"; "" if its name does, or its entity is not known.
func (j *judgement) partOf(s ipmi.Sensor) string {
	name := clean(s.Name)
	generic := isGeneric(name)
	if s.Entity.Instance == 0 || !generic && !j.namesakes[s.Name] {
		return ""
	}
	switch entity := s.Entity.Name(); {
	case entity == "":
		return clip(fmt.Sprintf("%s (entity %s)", name, s.Entity), maxName)
	case generic:
		return entity
	default:
		return clip(entity+" "+name, maxName)
	}
}
