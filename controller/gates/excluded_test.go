package gates

import "testing"

func TestExcluded(t *testing.T) {
	labelled := func(value string) Input {
		return input(func(in *Input) { in.Node.Labels["nodemend.dev/exclude"] = value })
	}
	reasoned := labelled("true")
	reasoned.Node.Annotations = map[string]string{"nodemend.dev/exclude-reason": "rack move, says jane"}
	runGate(t, Excluded, []gateTest{
		{name: "not labelled", in: input()},
		{name: "labelled", in: labelled("true"), reason: "Excluded", messages: []string{"node w17 is labelled nodemend.dev/exclude=true; to undo: kubectl nodemend include w17"}},
		{name: "labelled for a reason", in: reasoned, reason: "Excluded",
			messages: []string{`node w17 is labelled nodemend.dev/exclude=true ("rack move, says jane"); to undo: kubectl nodemend include w17`}},
		{name: "labelled otherwise", in: labelled("false")},
	})
}
