package hostunits

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/nodemend/nodemend/internal/serve"
)

// health is what /readyz tells. It is safe for concurrent use.
type health struct {
	lock        sync.Mutex
	installed   bool
	credentials credentials
	err         error
}

// set says how the last look at the host has ended.
func (h *health) set(c credentials, err error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.installed, h.credentials, h.err = true, c, err
}

// ready returns nil if the unit is installed and running and its token is fresh.
func (h *health) ready() error {
	h.lock.Lock()
	defer h.lock.Unlock()
	if !h.installed {
		return errors.New("the unit is not installed yet")
	}
	if h.err != nil {
		return h.err
	}
	return h.credentials.expired(time.Now())
}

// serve serves until ctx ends; at no address it does nothing.
func (h *health) serve(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("opening the address of /healthz and /readyz: %w; choose another one with --health-address", err)
	}
	return serve.HTTP(ctx, listener, h.handler())
}

func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serve.Health(serve.Alive))
	mux.HandleFunc("GET /readyz", serve.Health(h.ready))
	return mux
}
