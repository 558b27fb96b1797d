package detector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/nodemend/nodemend/checks/exporter"
)

const (
	headerTimeout   = 5 * time.Second
	idleTimeout     = time.Minute
	maxHeader       = 16 << 10
	shutdownTimeout = 2 * time.Second
)

// healthy is a part of the detector that can tell whether it makes progress.
type healthy interface{ Healthy() error }

// newHealthHandler serves /healthz: 200 and "ok", or 503 and one line for each
// part that has stopped making progress, so that a restart may help; what the
// checks have found does not matter there. It serves /conditions, too: the
// conditions as the detector reports them, whether or not the API server has them.
func newHealthHandler(conditions *exporter.Exporter, parts []healthy) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		var errs []error
		for _, part := range parts {
			errs = append(errs, part.Healthy())
		}
		if err := errors.Join(errs...); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok") // the client has gone: nobody to tell
	})
	mux.HandleFunc("GET /conditions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(conditions.Conditions()) // as above
	})
	return mux
}

// newMetricsHandler serves /metrics.
func newMetricsHandler(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	// Not compressed: the buffers for that would be kept.
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{DisableCompression: true}))
	return mux
}

// serve serves handler until ctx ends. It returns nil then.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader}
	stopped := make(chan struct{})
	serving, cancel := context.WithCancel(ctx)
	go func() {
		defer close(stopped)
		<-serving.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close() // a request outlasted the time-out: cut it off
		}
	}()
	err := server.Serve(listener)
	cancel()
	<-stopped
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was asked to end
	}
	return fmt.Errorf("serving HTTP on %s: %w", listener.Addr(), err)
}
