package apiserver_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience bounds the wait for an event.
const patience = 30 * time.Second

// stream is a watch that a script has begun.
type stream struct {
	code   int
	events chan any
}

// watch begins one: WATCH name path.
func (s *server) watch(t testing.TB, st *step) {
	t.Helper()
	name, path, _ := strings.Cut(st.target, " ")
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	request := *st
	request.method, request.target = http.MethodGet, path+separator+"watch=true"
	response, err := s.transport(userNamed(st.user)).RoundTrip(s.request(t, &request)) //nolint:bodyclose // the stream closes it
	if err != nil {
		t.Fatalf("%s: %v", st, err)
	}
	w := &stream{code: response.StatusCode, events: make(chan any)}
	s.streams[name] = w
	go func() {
		defer close(w.events)
		defer func() { _ = response.Body.Close() }()
		decoder := json.NewDecoder(response.Body)
		for {
			var event any
			if decoder.Decode(&event) != nil {
				return
			}
			select {
			case w.events <- event:
			case <-t.Context().Done():
				return
			}
		}
	}()
}

// await returns the events of a watch: EVENTS name number.
func (s *server) await(t testing.TB, st *step) any {
	t.Helper()
	name, number, _ := strings.Cut(st.target, " ")
	w := s.streams[name]
	count, err := strconv.Atoi(number)
	if w == nil || err != nil {
		t.Fatalf("%s: want the name of a watch and a number", st)
	}
	events := []any{}
	expired := time.After(patience)
	for range count {
		select {
		case event, ok := <-w.events:
			if !ok {
				return map[string]any{"code": w.code, "events": append(events, "the end")}
			}
			events = append(events, s.renaming.canonical("", event))
		case <-expired:
			t.Fatalf("%s: only %d events came: %v", st, len(events), events)
		}
	}
	return map[string]any{"code": w.code, "events": events}
}
