package bmc

import "maps"

// Hook sees every command before the BMC does. What it returns is the answer, unless
// that is nil. It may call the BMC's methods.
type Hook func(command Command, data []byte) (answer []byte)

// SetHook sets the hook; nil is none.
func (b *BMC) SetHook(hook Hook) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hook = hook
}

// Fail answers the next so many commands of that kind with a completion code, and
// replaces the hook.
func (b *BMC) Fail(command Command, code uint8, times int) {
	b.SetHook(func(got Command, _ []byte) []byte {
		if got != command || times == 0 {
			return nil
		}
		times--
		return []byte{code}
	})
}

// CancelReservations ends those for the SDR repository and the SEL, as any change
// of them, or another reader, may do.
func (b *BMC) CancelReservations() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sdrs.reservation, b.sel.reservation = 0, 0
}

// TakeCounts returns how many commands of each kind the BMC got since the last call.
func (b *BMC) TakeCounts() map[Command]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := maps.Clone(b.counts)
	clear(b.counts)
	return counts
}

// Sum returns how many commands are counted.
func Sum(counts map[Command]int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}
