package proof

import (
	"math/rand/v2"
	"testing"

	"github.com/nodemend/nodemend/internal/power"
)

var machine = power.UUID{0x4c, 0x4c, 0x45, 0x44, 0, 0x32, 0x38, 0x10, 0x80, 0x52, 0xb4, 0xc0, 0x4f, 0x4a, 0x57, 0x31}

// In 5,000 worlds, whatever BMCs, nodes, people and runners do: no proof without two
// readings of off, and no proof of a boot that goes on.
func TestNoWorldHasAWrongProof(t *testing.T) {
	outcomes := map[Outcome]int{}
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // the same each time
		choices := make([]byte, random.IntN(300))
		calm := random.IntN(4) // how often things go as they should
		for i := range choices {
			if random.IntN(4) >= calm {
				choices[i] = byte(random.IntN(256))
			}
		}
		outcomes[search(t, choices)]++
	}
	t.Log(outcomes)
	for _, outcome := range []Outcome{
		PowerCycled, PowerWasOff, NodeAnswers, NewBoot, PowerStillOn, PowerStillOff, NotTheMachine, NoAnswer, NotConfirmed, WentOffLate,
	} {
		if outcomes[outcome] == 0 {
			t.Errorf("none has ended %s", outcome)
		}
	}
}

func TestIfNothingGoesWrongThePowerIsCycled(t *testing.T) {
	if got := search(t, nil); got != PowerCycled {
		t.Errorf("it has ended %s", got)
	}
}

func FuzzWorld(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, choices []byte) {
		if len(choices) < 2000 {
			search(t, choices)
		}
	})
}
