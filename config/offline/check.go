package offline

import (
	"context"
	"strings"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// File is a named text with any number of YAML or JSON documents.
type File struct {
	// Name is what problems call the file.
	Name string
	Data []byte
}

// Report is what Check found.
type Report struct {
	// Objects is the number of objects that were looked at, valid or not.
	Objects int `json:"objects"`
	// Problems are the errors, file by file in the order given, and by line
	// within a file. Without any, the API server accepts every object.
	Problems []Problem `json:"problems,omitempty"`
	// Warnings are no errors, but worth a second look. Ordered alike.
	Warnings []Problem `json:"warnings,omitempty"`
	// Policies are those without an error, as the API server has them: with all defaults.
	Policies []v1alpha1.RemedyPolicy `json:"-"`
}

// Check validates all objects of the files together, so that two objects of
// one name are found wherever they are. It reads nothing but its arguments.
func (v *Validator) Check(ctx context.Context, files ...File) Report {
	var report Report
	seen := map[string]Problem{}
	for _, file := range files {
		c := &fileCheck{validator: v, name: file.Name, seen: seen}
		c.run(ctx, file.Data)
		report.Objects += c.found.Objects
		report.Problems = append(report.Problems, c.found.Problems...)
		report.Warnings = append(report.Warnings, c.found.Warnings...)
		report.Policies = append(report.Policies, c.found.Policies...)
	}
	return report
}

// fileCheck is the check of one file.
type fileCheck struct {
	validator *Validator
	name      string
	found     Report
	// seen has the place of every object so far, by kind and name, over all
	// files.
	seen map[string]Problem
}

func (c *fileCheck) run(ctx context.Context, data []byte) {
	for _, doc := range split(data) {
		d := &documentCheck{fileCheck: c, document: doc}
		d.run(ctx)
	}
	if c.found.Objects == 0 && len(c.found.Problems) == 0 {
		c.found.Problems = []Problem{{File: c.name, Message: "no policy, budget or maintenance in it; accepted are objects of kind " + acceptedKinds()}}
	}
	sortByPlace(c.found.Problems)
	sortByPlace(c.found.Warnings)
}

// acceptedKinds names the kinds for a message.
func acceptedKinds() string {
	kinds := writtenByPeople()
	last := len(kinds) - 1
	return strings.Join(kinds[:last], ", ") + " and " + kinds[last]
}
