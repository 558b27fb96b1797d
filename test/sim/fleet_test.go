package sim

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/apiserver"
)

var (
	fleetNodes = flag.Int("sim.nodes", 300, "nodes of the fleet")
	fleetTime  = flag.Duration("sim.lives", 48*time.Hour, "virtual time that the fleet lives")
)

func TestAFleetIsHealed(t *testing.T) {
	definitions, err := apiserver.Define(deploy.CRDs)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r := Fleet(t, definitions, *fleetNodes, *fleetTime, 1)
	took := time.Since(began)
	requests := 0
	for _, n := range r.Requests {
		requests += n
	}
	fmt.Printf("%d nodes for %s in %s\n", r.Nodes, r.Time, took.Round(time.Millisecond))
	for _, what := range sortedKeys(r.Incidents) {
		fmt.Printf("  %8d  %s\n", r.Incidents[what], what)
	}
	for _, what := range sortedKeys(r.Outcomes) {
		fmt.Printf("  %8d  ended as %s\n", r.Outcomes[what], what)
	}
	for _, what := range sortedKeys(r.Requests) {
		fmt.Printf("  %8d  %s\n", r.Requests[what], what)
	}
	fmt.Printf("controller: %d requests, %.3f a second; %d MiB with its nodes\n", requests, float64(requests)/r.Time.Seconds(), r.Memory>>20)
	if len(r.Waited) == 0 {
		t.Fatal("no node was acted on")
	}
	fmt.Printf("waited for the first action: median %s, longest %s\n", r.Waited[len(r.Waited)/2], r.Waited[len(r.Waited)-1])
	if longest := r.Waited[len(r.Waited)-1]; longest > time.Hour {
		t.Errorf("a node that can be healed waited for %s", longest)
	}
}
