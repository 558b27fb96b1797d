package gates

import "testing"

func TestExcluded(t *testing.T) {
	labelled := func(value string) Input {
		return input(func(in *Input) { in.Node.Labels["nodemend.dev/exclude"] = value })
	}
	runGate(t, Excluded, []gateTest{
		{name: "not labelled", in: input()},
		{name: "labelled", in: labelled("true"), reason: "Excluded", messages: []string{"node w17 is labelled nodemend.dev/exclude=true"}},
		{name: "labelled otherwise", in: labelled("false")},
	})
}
