package offline

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// File is a named text with any number of YAML or JSON documents.
type File struct {
	// Name is what problems call the file.
	Name string
	Data []byte
	// Mixed: whatever is of another API group or of none is passed over, and there need not be
	// anything else.
	Mixed bool
}

// Report is what Check found.
type Report struct {
	// Objects is the number of objects that were looked at, valid or not.
	Objects int `json:"objects"`
	// Problems are the errors, file by file in the order given, and by line
	// within a file. Without any, the API server accepts every object.
	Problems []Problem `json:"problems"`
	// Warnings are no errors, but worth a second look. Ordered alike.
	Warnings []Problem `json:"warnings"`
	// Policies and Budgets are those without an error, as the API server has them: with all
	// defaults.
	Policies []v1alpha1.RemedyPolicy      `json:"-"`
	Budgets  []v1alpha1.RemediationBudget `json:"-"`
	// Valid are all objects without an error.
	Valid []Valid `json:"-"`
}

// Valid is an object without an error, as it is in the file.
type Valid struct {
	// At is the place of its name, without a message.
	At     Problem
	Object map[string]any
}

// Check validates all objects of the files together, so that two objects of
// one name are found wherever they are. It reads nothing but its arguments.
func (v *Validator) Check(ctx context.Context, files ...File) Report {
	report := Report{Problems: []Problem{}, Warnings: []Problem{}} // not null in JSON
	seen := map[string]Problem{}
	var placed []placedPolicy
	for _, file := range files {
		c := &fileCheck{validator: v, name: file.Name, mixed: file.Mixed, seen: seen}
		c.run(ctx, file.Data)
		placed = append(placed, c.placed...)
		report.Objects += c.found.Objects
		report.Problems = append(report.Problems, c.found.Problems...)
		report.Warnings = append(report.Warnings, c.found.Warnings...)
		report.Policies = append(report.Policies, c.found.Policies...)
		report.Budgets = append(report.Budgets, c.found.Budgets...)
		report.Valid = append(report.Valid, c.found.Valid...)
	}
	for i := range v.known.Policies {
		if p := &v.known.Policies[i]; seen["RemedyPolicy/"+p.Name] == (Problem{}) {
			placed = append(placed, placedPolicy{RemedyPolicy: p})
		}
	}
	report.Warnings = append(report.Warnings, slices.Concat(overlaps(placed), unasked(placed, report.Valid))...)
	order := func(name string) int { return slices.IndexFunc(files, func(f File) bool { return f.Name == name }) }
	slices.SortStableFunc(report.Warnings, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(order(a.File), order(b.File)), byPlace(a, b))
	})
	return report
}

// fileCheck is the check of one file.
type fileCheck struct {
	validator *Validator
	name      string
	mixed     bool
	found     Report
	placed    []placedPolicy
	// seen has the place of every object so far, by kind and name, over all
	// files.
	seen map[string]Problem
}

func (c *fileCheck) run(ctx context.Context, data []byte) {
	for _, doc := range split(data) {
		d := &documentCheck{fileCheck: c, document: doc}
		d.run(ctx)
	}
	if c.found.Objects == 0 && len(c.found.Problems) == 0 && !c.mixed {
		c.found.Problems = []Problem{{File: c.name, Message: "no policy, budget or maintenance in it; accepted are objects of kind " + acceptedKinds()}}
	}
	slices.SortStableFunc(c.found.Problems, byPlace)
}

// acceptedKinds names the kinds for a message.
func acceptedKinds() string {
	kinds := writtenByPeople()
	last := len(kinds) - 1
	return strings.Join(kinds[:last], ", ") + " and " + kinds[last]
}
