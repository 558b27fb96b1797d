package runner

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/serverclock"
	"github.com/nodemend/nodemend/runner/ledger"
	"github.com/nodemend/nodemend/runner/remedy"
)

func TestAnActionWhoseClaimIsGoneIsNotReportedAsExecuted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		written, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(written)
	}))
	defer server.Close()
	book, err := ledger.Open(t.TempDir())
	must(t, err)
	serverClock := serverclock.New(clock.RealClock{})
	api, err := newAPI(&rest.Config{Host: server.URL}, serverClock)
	must(t, err)
	w, err := NewWorker(WorkerOptions{
		NodeName: "worker-1", BootID: "boot-1", API: api, Ledger: book,
		Clock: clock.RealClock{}, ServerClock: serverClock, Uptime: uptime,
		Recheck: func(context.Context) error { return nil },
		Events:  record.NewFakeRecorder(8), Registry: prometheus.NewRegistry(),
	})
	must(t, err)
	in := goodInput(t)
	order := newOrder(in, decide(in), w.Clock.Now())
	must(t, book.Begin(order))
	must(t, book.End(order.Action, remedy.Outcome{Reason: v1alpha1.ReasonSucceeded, Message: "exit status 0", Result: &v1alpha1.ActionResult{}}, time.Hour))

	must(t, w.report(t.Context(), in.action, book.Find(order.Action)))
	c := in.action.Finished()
	if c == nil || c.Reason != v1alpha1.ReasonInterrupted || !strings.Contains(c.Message, "it ended as Succeeded: exit status 0") || in.action.Status.Result != nil {
		t.Errorf("reported as %+v with %+v", c, in.action.Status.Result)
	}
	if !book.Find(order.Action).Reported {
		t.Error("it is reported again")
	}
}
