package apiserver_test

import "regexp"

// difference is one between the simulation and the real API server that stays.
type difference struct {
	// request is a part of the request's line, line of the answer's.
	request, line *regexp.Regexp
	why           string
}

// knownDifferences are all there are.
var knownDifferences = []difference{
	{
		regexp.MustCompile(`poddisruptionbudgets/web`), regexp.MustCompile(`metadata\.managedFields`),
		"an eviction writes the budget's status under no manager's name, since the typed client, which knows none, evicts by the same code",
	},
	{
		regexp.MustCompile(`POST nodes$`), regexp.MustCompile(`converting \(v1\.Pod\) to \((core|v1)\.Node\)`),
		"what is v1 outside is v1 inside, too",
	},
}

func known(st *step, line string) bool {
	for _, d := range knownDifferences {
		if d.request.MatchString(st.String()) && d.line.MatchString(line) {
			return true
		}
	}
	return false
}
