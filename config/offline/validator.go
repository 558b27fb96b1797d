package offline

import (
	"fmt"
	"io/fs"
	"slices"

	"github.com/nodemend/nodemend/internal/crd"
)

// Validator knows the rules of every kind that people write. It never
// changes; any number of goroutines may use it.
type Validator struct {
	kinds map[string]*kindRules
	// others are the kinds of the same CRDs that people do not write.
	others map[string]bool
	known  Known
}

// writtenByPeople lists the accepted kinds, in the order in which messages
// name them.
func writtenByPeople() []string {
	return []string{"RemedyPolicy", "RemediationBudget", "NodeMaintenance", "NodemendRemediationTemplate"}
}

// kindRules are the rules of one kind.
type kindRules struct{ *crd.Rules }

// Load reads the CustomResourceDefinitions chart/crds/*.yaml of a file system and
// compiles the rules of the kinds that people write. It fails if a definition
// cannot be read or one of these kinds is missing.
func Load(crds fs.FS, known Known) (*Validator, error) {
	v := &Validator{kinds: map[string]*kindRules{}, others: map[string]bool{}, known: known}
	all, err := crd.Load(crds, func(kind string) bool {
		wanted := slices.Contains(writtenByPeople(), kind)
		if !wanted {
			v.others[kind] = true
		}
		return wanted
	})
	if err != nil {
		return nil, err
	}
	for _, rules := range all {
		v.kinds[rules.Kind()] = &kindRules{rules}
	}
	for _, kind := range writtenByPeople() {
		if v.kinds[kind] == nil {
			return nil, fmt.Errorf("loading CRDs: none of the files chart/crds/*.yaml defines kind %s", kind)
		}
	}
	return v, nil
}
