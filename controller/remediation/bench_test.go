package remediation

import (
	"testing"
	"time"
)

// What one decision costs: a remediation with a history, under verification.
func BenchmarkDecide(b *testing.B) {
	s := incident(at(1, 1), history("Succeeded", time.Minute), at(1, 2), history("Failed", 5*time.Second))
	b.ReportAllocs()
	for b.Loop() {
		decide(s)
	}
}
