package customplugin

import (
	"fmt"

	"sigs.k8s.io/json"

	"github.com/nodemend/nodemend/checks"
)

// warnings are what a person who wrote data, of which file is the valid
// meaning, may have meant otherwise.
func warnings(name string, data []byte, file *Schema) (found []string) {
	add := func(format string, args ...any) { found = append(found, name+": "+fmt.Sprintf(format, args...)) }

	// NPD matches field names without regard to case, and so does Parse; this
	// decoder does not.
	unknown, _ := json.UnmarshalStrict(data, &Schema{})
	for _, err := range unknown {
		add("%s: check its spelling, or remove it", err)
	}
	if file.Source == "" {
		add("source is missing: reports will not say where they are from")
	}
	if len(file.Rules) == 0 {
		add("rules is empty: nothing is run")
	}
	judged := map[string]bool{}
	for i, r := range file.Rules {
		if r.Reason == "" {
			add("rules[%d].reason is missing: reports of it will not have one", i)
		}
		if r.Type == checks.Permanent {
			judged[r.Condition] = true
		}
	}
	for i, c := range file.Conditions {
		if !judged[c.Type] {
			add("conditions[%d]: no permanent rule is for %s: it is never reported", i, c.Type)
		}
	}
	return found
}
