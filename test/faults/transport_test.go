package faults_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/test/faults"
)

const actions = "/apis/nodemend.dev/v1alpha1/nodeactions"

// server counts the requests that reach it.
func server(t *testing.T) (url string, reached func() int) {
	t.Helper()
	count := 0
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { count++ }))
	t.Cleanup(s.Close)
	return s.URL, func() int { return count }
}

func send(t *testing.T, tr *faults.Transport, method, url string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.Wrap(http.DefaultTransport).RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

func TestTheChosenWriteFailsOnItsSideOfTheCommit(t *testing.T) {
	for mode, wantReached := range map[faults.Mode]int{faults.Before: 2, faults.After: 3} {
		t.Run(string(mode), func(t *testing.T) {
			url, reached := server(t)
			called := 0
			tr := &faults.Transport{At: 2, Mode: mode, OnFault: func() { called++ }}
			for i, wantErr := range []bool{false, true, false} {
				if err := send(t, tr, http.MethodPut, url+actions); errors.Is(err, faults.ErrInjected) != wantErr {
					t.Errorf("write %d: got error %v, want one: %t", i+1, err, wantErr)
				}
			}
			if got := reached(); got != wantReached {
				t.Errorf("%d writes reached the server, want %d", got, wantReached)
			}
			if called != 1 || tr.Writes() != 3 || tr.Faults() != 1 {
				t.Errorf("OnFault called %d times, %d writes, %d faults; want 1, 3, 1", called, tr.Writes(), tr.Faults())
			}
		})
	}
}

func TestReadsAndOtherGroupsAreNotCounted(t *testing.T) {
	url, _ := server(t)
	tr := &faults.Transport{At: 1, Mode: faults.Before}
	for _, req := range []struct{ method, path string }{
		{http.MethodGet, actions},
		{http.MethodPatch, "/api/v1/nodes/a/status"},
	} {
		if err := send(t, tr, req.method, url+req.path); err != nil {
			t.Errorf("%s %s: %v", req.method, req.path, err)
		}
	}
	if tr.Writes() != 0 {
		t.Errorf("counted %d writes, want 0", tr.Writes())
	}
}

func TestTimesFailsSoManyWritesInARow(t *testing.T) {
	url, reached := server(t)
	tr := &faults.Transport{At: 1, Mode: faults.Before, Times: 3}
	failed := 0
	for range 5 {
		if send(t, tr, http.MethodPost, url+actions) != nil {
			failed++
		}
	}
	if failed != 3 || reached() != 2 {
		t.Errorf("%d failed and %d reached the server, want 3 and 2", failed, reached())
	}
}

func TestADeadProcessCanNotEvenRead(t *testing.T) {
	url, reached := server(t)
	tr := &faults.Transport{At: 1, Mode: faults.After, Dead: true}
	for _, method := range []string{http.MethodPut, http.MethodGet, http.MethodPut} {
		if err := send(t, tr, method, url+actions); !errors.Is(err, faults.ErrInjected) {
			t.Errorf("%s of a dead process: got %v, want an injected fault", method, err)
		}
	}
	if reached() != 1 {
		t.Errorf("%d requests reached the server, want only the last write", reached())
	}
}
