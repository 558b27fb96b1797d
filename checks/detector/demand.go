package detector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/internal/demand"
)

// newDemandHandler serves demand.Path.
func newDemandHandler(run func()) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+demand.Path, func(w http.ResponseWriter, _ *http.Request) {
		run()
		w.WriteHeader(http.StatusAccepted)
	})
	return mux
}

// listenUnix opens the socket at path for root alone. One that a former process
// has left is replaced; one that somebody listens on is not.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the socket: %w", err)
	}
	if conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("opening the socket %s: another detector listens there; only one may run on a node", path)
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("looking for a socket: %w", err)
	case info.Mode().Type() != os.ModeSocket:
		return nil, fmt.Errorf("opening the socket %s: there is something else of this name", path)
	default:
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("replacing the socket: %w", err)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("opening the socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("protecting the socket: %w", err)
	}
	return listener, nil
}

// openSocket returns the listener of the socket; nil, with a word in the log, if
// there is to be none or it can't be had: the detector is of use without it.
func openSocket(ctx context.Context, path string) net.Listener {
	if path == "" {
		return nil
	}
	listener, err := listenUnix(ctx, path)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Checks can't be asked to run at once")
		return nil
	}
	return listener
}
