// Package serve is how the roles on a node serve HTTP, in little memory.
package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	headerTimeout   = 5 * time.Second
	requestTimeout  = 10 * time.Second // to read it, and again to answer it
	idleTimeout     = time.Minute
	maxHeader       = 16 << 10
	shutdownTimeout = 2 * time.Second
)

// Metrics returns a handler that serves /metrics.
func Metrics(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	// Not compressed: the buffers for that would be kept.
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{DisableCompression: true}))
	return mux
}

// Health returns a handler that answers 200 and "ok", or 503 and what check says is wrong.
func Health(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok") // the client has gone: nobody to tell
	}
}

// Alive is a check for Health of what a restart would not mend.
func Alive() error { return nil }

// HTTP serves handler on listener until ctx ends, and then for a moment those
// requests that are under way. It returns nil then. It has 32 connections at most: for
// a new one the one is closed that has been without a request for longest, or has waited
// for its answer for longest if all do. Nobody keeps a connection with a request for more
// than seconds.
func HTTP(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ConnState: new(crowd).changed, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: idleTimeout,
	}
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
