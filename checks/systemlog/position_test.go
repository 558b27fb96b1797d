package systemlog

import (
	"testing"
	"time"
)

func TestLinesThatAreReadAgainAreNotNew(t *testing.T) {
	second := func(s int) time.Time { return time.Unix(int64(s), 0) }
	p := position{start: second(5)}
	if from := p.open(second(10)); !from.Equal(second(5)) {
		t.Errorf("first read from %v, want the start", from)
	}
	expect := func(want bool, stamps ...int) {
		t.Helper()
		for _, s := range stamps {
			if p.isNew(second(s)) != want {
				t.Errorf("line stamped %d: got new %t", s, !want)
			}
		}
	}
	expect(true, 6, 8, 7, 9, 9)

	if from := p.open(second(12)); !from.Equal(second(9)) {
		t.Errorf("read again from %v, want the latest line", from)
	}
	expect(false, 6, 8, 7, 9, 9)
	expect(true, 9, 11, 10)

	p.open(second(13))
	expect(false, 10, 11)
	p.caughtUp()
	expect(true, 4, 11) // out of order, but after the news that all was read

	p.open(second(3)) // the clock was set back
	expect(true, 3, 4)
}
