package hostunits

import (
	"errors"
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

func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serve.Health(serve.Alive))
	mux.HandleFunc("GET /readyz", serve.Health(h.ready))
	return mux
}
