package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
)

// retryInterval is the time between two tries to open an address.
const retryInterval = 5 * time.Second

// At is HTTP at a TCP address; at "" it does nothing. An address that can't be opened,
// most often since another program has it, is tried again until it can: anybody on the
// node could keep a role from working otherwise. Only one that can never be opened is
// an error. flag names the address to people.
func At(ctx context.Context, flag, address string, handler http.Handler) error {
	return at(ctx, flag, address, handler, func(l net.Listener) net.Listener { return l })
}

// AtTLS is At by HTTPS.
func AtTLS(ctx context.Context, flag, address string, config *tls.Config, handler http.Handler) error {
	return at(ctx, flag, address, handler, func(l net.Listener) net.Listener { return tls.NewListener(l, config) })
}

func at(ctx context.Context, flag, address string, handler http.Handler, wrap func(net.Listener) net.Listener) error {
	if address == "" {
		return nil
	}
	if err := valid(ctx, address); err != nil {
		return fmt.Errorf("serving HTTP at %s=%s: %w; give HOST:PORT or :PORT", flag, address, err)
	}
	listener := open(ctx, flag, address)
	if listener == nil {
		return nil
	}
	return HTTP(ctx, wrap(listener), handler)
}

func valid(ctx context.Context, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(ctx, "tcp", port)
	}
	return err
}

// open returns nil if ctx ends before.
func open(ctx context.Context, flag, address string) net.Listener {
	log := logr.FromContextOrDiscard(ctx).WithValues("flag", flag, "address", address)
	for failed := false; ; failed = true {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		switch {
		case err == nil && failed:
			log.Info("The address is served now")
			fallthrough
		case err == nil:
			return listener
		case ctx.Err() != nil:
			return nil
		case !failed:
			log.Error(err, "The address can't be opened, so nobody is answered there; trying again, the rest goes on", "interval", retryInterval.String())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryInterval):
		}
	}
}
