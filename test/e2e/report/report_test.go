package main

import (
	"bytes"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const events = `
{"Action":"start","Package":"x/machine"}
{"Action":"start","Package":"x/node"}
{"Action":"output","Package":"x/node","Output":"logs are in /tmp/1\n"}
{"Action":"run","Package":"x/machine","Test":"TestANodeReboots"}
{"Action":"output","Package":"x/machine","Test":"TestANodeReboots","Output":"=== RUN   TestANodeReboots\n"}
{"Action":"output","Package":"x/machine","Test":"TestANodeReboots","Output":"    a_test.go:1:   3.1 s until boot 2\n"}
{"Action":"output","Package":"x/machine","Test":"TestANodeReboots","Output":"    a_test.go:2:   0.1 s until it is Ready\n"}
{"Action":"run","Package":"x/node","Test":"TestGroup"}
{"Action":"run","Package":"x/node","Test":"TestGroup/of_two"}
{"Action":"attr","Package":"x/machine","Test":"TestANodeReboots","Key":"proved","Value":"one reset"}
{"Action":"output","Package":"x/node","Test":"TestGroup/of_two","Output":"    b_test.go:3: no root\n"}
{"Action":"skip","Package":"x/node","Test":"TestGroup/of_two","Elapsed":0}
{"Action":"pass","Package":"x/node","Test":"TestGroup","Elapsed":0}
{"Action":"output","Package":"x/machine","Test":"TestANodeReboots","Output":"--- PASS: TestANodeReboots (33.40s)\n"}
{"Action":"pass","Package":"x/machine","Test":"TestANodeReboots","Elapsed":33.4}
{"Action":"output","Package":"x/machine","Output":"PASS\n"}
{"Action":"output","Package":"x/machine","Output":"ok  \tx/machine\t33.5s\n"}
{"Action":"pass","Package":"x/machine","Elapsed":33.5}
`

func TestLinesAreShownBelowTheirTestAndTheReportComesLast(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	g.Expect(run(strings.NewReader(events+`{"Action":"pass","Package":"x/node","Elapsed":1}`), &out)).To(Succeed())
	g.Expect(out.String()).To(Equal(`node
    logs are in /tmp/1
machine: A node reboots
        a_test.go:1:   3.1 s until boot 2
        a_test.go:2:   0.1 s until it is Ready
node: Group: of two
        b_test.go:3: no root
    skip after 0 s
machine: A node reboots
    ok after 33 s

skip    0 s  node: Group: of two
ok     33 s  machine: A node reboots
               - one reset
`))
}

func TestARunFailsUnlessAllPackagesHavePassed(t *testing.T) {
	for name, tc := range map[string]struct{ input, want string }{
		"a package does not end":      {events, "x/node did not end"},
		"a package fails":             {events + `{"Action":"fail","Package":"x/node","Elapsed":1}`, "x/node"},
		"nothing is run":              {"", "no test was run"},
		"go test does not even begin": {"go: no such flag", "no JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(run(strings.NewReader(tc.input), &bytes.Buffer{})).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestANameIsASentence(t *testing.T) {
	for name, want := range map[string]string{
		"TestANodeThatIsDrained":                 "A node that is drained",
		"TestTheAPIServerIsAway/for_ten_minutes": "The API server is away: for ten minutes",
		"TestWhicheverWayTheBMCIsRead/device":    "Whichever way the BMC is read: device",
	} {
		NewWithT(t).Expect(sentence(name)).To(Equal(want))
	}
}
