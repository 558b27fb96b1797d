package vm

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"
)

func TestQEMUAnswersAndTells(t *testing.T) {
	ours, theirs := net.Pipe()
	q := newQMP(ours)
	var events []string
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.read(func(e Event) { events = append(events, e.Name+" "+e.Data.Reason+e.At().UTC().Format(" 04:05.000000")) })
	}()
	go func() {
		_, _ = theirs.Write([]byte(`{"QMP": {"version": {}}}` + "\r\n"))
		requests := json.NewDecoder(theirs)
		for _, answer := range []string{
			`{"event": "RESET", "data": {"guest": true, "reason": "guest-reset"}, "timestamp": {"seconds": 61, "microseconds": 5}} {"return": {"answer": 1}}`,
			`{"error": {"class": "GenericError", "desc": "no such card"}} {"event": "STOP"}`,
		} {
			var request map[string]any
			if requests.Decode(&request) == nil {
				_, _ = theirs.Write([]byte(answer))
			}
		}
		_ = theirs.Close()
	}()
	if got, err := q.run(t.Context(), "first", nil); err != nil || string(got) != `{"answer": 1}` {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := q.run(t.Context(), "second", map[string]any{"up": true}); err == nil || !strings.Contains(err.Error(), "no such card") {
		t.Errorf("got %s, %v, want an error", got, err)
	}
	<-ended
	if want := []string{"RESET guest-reset 01:01.000005", "STOP  00:00.000000"}; !slices.Equal(events, want) {
		t.Errorf("QEMU tells of %q, want %q", events, want)
	}
	if _, err := q.run(t.Context(), "third", nil); err == nil {
		t.Error("QEMU answers although it has ended")
	}
}

func TestQEMUMayBeSilent(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	q := newQMP(ours)
	go q.read(func(Event) {})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		var request map[string]any
		_ = json.NewDecoder(theirs).Decode(&request)
		cancel()
	}()
	if _, err := q.run(ctx, "first", nil); err == nil {
		t.Error("a command without an answer succeeds")
	}
}
