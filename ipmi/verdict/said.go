package verdict

import (
	"regexp"
	"strings"
)

// Said is what a message tells of one component.
type Said struct {
	// Component, What and Source are those of a Failure; Source is empty if it is no record.
	Component string `json:"component"`
	What      string `json:"what"`
	Source    string `json:"source,omitempty"`
	// Aside is whether it does not take the server out: a warning, or what is acknowledged or
	// only in the log.
	Aside bool `json:"aside,omitempty"`
}

var (
	// "FAN1: 0 RPM, at or below lower critical (SEL 0x07, 2026-11-21T05:48Z)"
	saidFailure = regexp.MustCompile(`^(.{1,80}?): (.+?)(?: \((SEL 0x[0-9a-f]+)(?:, [0-9TZ:-]+)?\))?$`)
	// "0 RPM, at or below …": the present reading of a sensor, in its unit.
	saidReading = regexp.MustCompile(`^-?[0-9.e+]+[^,]*, (at or (?:above|below) )`)
	// what is no failure, as message and doubts write it
	saidBeside = regexp.MustCompile(`^(the |none of |most sensors |what was remembered |no hardware failure: |and \d+ more$|warning: \d+ of \d+ sensors have a problem)`)
	// what stands before a failure, and whether it counts all the same
	saidKnown = regexp.MustCompile(`^(known before: |in the log from before that: )`)
	saidAside = regexp.MustCompile(`^(warning: |in the log from before the first look: |acknowledged by [^:]*: )`)
)

// WithoutReading returns the What of a failure without a reading beyond a limit, which is another
// one each time.
func WithoutReading(what string) string { return saidReading.ReplaceAllString(what, "$1") }

// ReadMessage returns what a message of a verdict tells of components, in its order. Of a
// reading beyond a limit What has the limit alone, so that it is the same on all servers. What did not
// fit into the message is not told.
func ReadMessage(message string) []Said {
	var all []Said
	for item := range strings.SplitSeq(message, "; ") {
		if saidBeside.MatchString(item) {
			continue
		}
		text := saidKnown.ReplaceAllString(item, "")
		bare := saidAside.ReplaceAllString(text, "")
		parts := saidFailure.FindStringSubmatch(bare)
		if parts == nil {
			continue
		}
		all = append(all, Said{
			Component: parts[1], What: WithoutReading(parts[2]), Source: parts[3], Aside: bare != text,
		})
	}
	return all
}
