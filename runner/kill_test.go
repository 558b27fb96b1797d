//go:build integration

package runner_test

import (
	"flag"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/command"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

var (
	kills    = flag.Int("kills", 30, "how many runners TestARunnerThatIsKilledAtRandomExecutesAtMostOnce kills")
	killSeed = flag.Uint64("kill-seed", 0, "what decides when; 0: the clock")
)

// The test of the points says that each step is safe. This one kills wherever it may be: in
// a system call, while it starts, while it adopts what one before has left.
func TestARunnerThatIsKilledAtRandomExecutesAtMostOnce(t *testing.T) {
	t.Parallel()
	installCrashUnit(t)
	if *killSeed == 0 {
		*killSeed = uint64(time.Now().UnixNano())
	}
	ways := []struct {
		name string
		mode command.Mode
		unit bool // restartUnit instead of a command
	}{
		{name: "transient unit", mode: command.TransientUnit},
		{name: "direct", mode: command.Direct},
		{name: "restartUnit", mode: command.Auto, unit: true},
	}
	for i, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			each := *kills / len(ways)
			f := newFixtureOn(t, clustertest.Shared(t), crashPatience+time.Duration(each)*crashPatience/20)
			r, executions := crashing(f, way.mode, way.unit)
			random := rand.New(rand.NewPCG(*killSeed, uint64(i)))
			t.Logf("-kill-seed=%d", *killSeed)

			// How long an action takes that nothing disturbs, from the start of its runner.
			began := time.Now()
			p := r.start(f)
			f.finished(f.newAction(0))
			p.Kill()
			usual := time.Since(began)

			action, outcomes := f.newAction(0), map[string]int{}
			for killed := 1; killed <= each; killed++ {
				p := r.start(f)
				select {
				case <-p.Exited:
					f.Fatalf("the runner has exited; its log: %s", f.read(filepath.Join(r.Dir, "runner.log")))
				case <-time.After(time.Duration(random.Float64() * 2 * float64(usual))):
				}
				p.Kill()
				f.must(f.client.Get(f.ctx, client.ObjectKeyFromObject(action), action))
				if end := action.Finished(); end != nil {
					outcomes[end.Reason]++
					action = f.newAction(0)
				}
				if killed%20 == 0 {
					t.Logf("%d of %d killed; actions ended: %v", killed, each, outcomes)
				}
			}
			p = r.start(f)
			f.finished(action)
			p.Kill()
			if outcomes[v1alpha1.ReasonSucceeded] == 0 && each > 20 {
				t.Errorf("no action has succeeded between the kills: %v", outcomes)
			}
			f.checkExecutions(executions, way.unit)
		})
	}
}
