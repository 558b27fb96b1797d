package kubeletapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
)

// ErrNoAccess means that the kubelet's certificate is not trusted, that it does
// not accept the credentials, or that it can't find out whether to. None of these
// is a fault of the kubelet. The text of an error that wraps it has the next step.
var ErrNoAccess = errors.New("no access to the kubelet")

// failed words the error of a request.
func failed(ctx context.Context, address string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("GET %s: %w", address, context.Canceled)
	case ctx.Err() != nil:
		return fmt.Errorf("GET %s was not answered in time: %w", address, ctx.Err())
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("GET %s: nobody listens there: start the kubelet, or correct the endpoint: %w", address, err)
	default:
		return fmt.Errorf("GET %s: %w", address, err)
	}
}

// permission is the one that the kubelet asks for.
func permission(path string) string {
	switch path {
	case "/metrics":
		return "nodes/metrics"
	case "/healthz":
		return "nodes/healthz (before Kubernetes 1.33 that is nodes/proxy, which allows far more: do without)"
	default:
		return "what the kubelet asks for " + path
	}
}

// refusal returns an error that is ErrNoAccess if response is one.
func refusal(response Response, path string) error {
	switch {
	case response.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w: 401 Unauthorized: let the kubelet accept tokens of service accounts (authentication.webhook.enabled), and see whether it can reach the API server", ErrNoAccess)
	case response.Status == http.StatusForbidden:
		return fmt.Errorf("%w: 403 Forbidden: grant the detector's account get on %s", ErrNoAccess, permission(path))
	case response.Status == http.StatusInternalServerError && bytes.HasPrefix(response.Body, []byte("Authorization error")):
		// (*Server).InstallAuthFilter in pkg/kubelet/server.
		return fmt.Errorf("%w: 500 %s: see whether the kubelet can reach the API server", ErrNoAccess, bytes.TrimSpace(response.Body))
	default:
		return nil
	}
}
