package child

import (
	"errors"
	"strings"
	"testing"
)

func TestTheFirstBytesAreKept(t *testing.T) {
	for name, tc := range map[string]struct {
		head     Head
		write    []string
		kept     string
		exceeded bool
		err      error // of the last
	}{
		"nothing":               {Head{Limit: 3}, nil, "", false, nil},
		"as much as is allowed": {Head{Limit: 3}, []string{"a", "bc"}, "abc", false, nil},
		"more":                  {Head{Limit: 3}, []string{"a", "bcd", "e"}, "abc", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			for _, text := range tc.write {
				var n int
				if n, err = tc.head.Write([]byte(text)); err == nil && n != len(text) {
					t.Errorf("wrote %d of %q", n, text)
				}
			}
			if !errors.Is(err, tc.err) || tc.head.String() != tc.kept || tc.head.Exceeded() != tc.exceeded {
				t.Errorf("got %q, %t, %v", tc.head.String(), tc.head.Exceeded(), err)
			}
		})
	}
}

func TestEndlessOutputTakesLittleMemory(t *testing.T) {
	h := Head{Limit: 4 << 10}
	chunk := []byte(strings.Repeat("x", 32<<10))
	for range 10_000 {
		if n, err := h.Write(chunk); n != len(chunk) || err != nil {
			t.Fatalf("Write returned %d, %v", n, err)
		}
	}
	if cap(h.kept) > 2*h.Limit {
		t.Errorf("320 MB of output hold %d bytes of memory, want about %d", cap(h.kept), h.Limit)
	}
}
