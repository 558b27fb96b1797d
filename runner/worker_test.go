package runner

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/serverclock"
	"github.com/nodemend/nodemend/runner/ledger"
	"github.com/nodemend/nodemend/runner/remedy"
)

// keeper is a remedy that shows for how long it may keep something open.
type keeper struct {
	kept     context.Context // of Prepare
	executed bool
	during   error // of kept, while it was executed
}

func (k *keeper) Prepare(ctx context.Context, _ remedy.Order) (remedy.Prepared, *remedy.Outcome) {
	k.kept = ctx
	return remedy.Prepared{Execution: v1alpha1.ExecutionDirect}, nil
}

func (k *keeper) Execute(context.Context, remedy.Order) *remedy.Outcome {
	k.executed, k.during = true, k.kept.Err()
	return &remedy.Outcome{Reason: v1alpha1.ReasonSucceeded}
}

func (*keeper) Adopt(context.Context, remedy.Order) *remedy.Outcome { return nil }

func (*keeper) Clean(context.Context, remedy.Order) error { return nil }

func TestWhatPrepareKeepsOpenIsClosedWhateverBecomesOfTheOrder(t *testing.T) {
	for name, test := range map[string]struct {
		veto      string
		status    int // of the API server's answer to the claim
		noLedger  bool
		executed  bool
		wantError bool
	}{
		"executed":           {status: http.StatusOK, executed: true},
		"vetoed":             {status: http.StatusOK, veto: "denied"},
		"somebody was first": {status: http.StatusConflict, wantError: true},
		"not entered":        {status: http.StatusOK, noLedger: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				written, err := io.ReadAll(req.Body)
				if err != nil {
					t.Error(err)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(test.status)
				_, _ = w.Write(written)
			}))
			defer server.Close()
			dir := t.TempDir()
			book, err := ledger.Open(dir)
			must(t, err)
			if test.noLedger {
				actions := filepath.Join(dir, "actions")
				must(t, os.RemoveAll(actions))
				must(t, os.WriteFile(actions, nil, 0o600)) // in the way of the directory
			}
			serverClock := serverclock.New(clock.RealClock{})
			api, err := newAPI(&rest.Config{Host: server.URL}, serverClock)
			must(t, err)
			kind := &keeper{}
			w, err := NewWorker(WorkerOptions{
				NodeName: "worker-1", BootID: "boot-1", API: api, Ledger: book,
				Clock: clock.RealClock{}, ServerClock: serverClock, Uptime: uptime,
				Remedies: map[string]remedy.Remedy{v1alpha1.RemedyCommand: kind},
				Vetoed:   func(context.Context, remedy.Order) string { return test.veto },
				Recheck:  func(context.Context) error { return nil },
				Events:   record.NewFakeRecorder(8), Registry: prometheus.NewRegistry(),
			})
			must(t, err)
			in := goodInput(t)
			in.since = w.Clock.Now()
			if err := w.prepare(t.Context(), in, decide(in)); (err != nil) != test.wantError {
				t.Errorf("got the error %v", err)
			}
			if kind.executed != test.executed || kind.during != nil {
				t.Errorf("executed %t, want %t; what was kept has ended before: %v", kind.executed, test.executed, kind.during)
			}
			if kind.kept.Err() == nil {
				t.Error("what was kept is still open")
			}
		})
	}
}
