// Package demand is how a program on a node asks the node's detector to run all
// its checks at once, instead of waiting for their turn.
package demand

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Path is where a POST to the detector's unix socket makes it run all checks at
// once. The answer, 202 Accepted, comes before they have run.
const Path = "/v1/run-checks"

// DefaultSocket is where a detector listens if its configuration does not say
// otherwise.
const DefaultSocket = "/run/nodemend/detector.sock"

// timeout is how long an answer is waited for.
const timeout = 5 * time.Second

// Send asks the detector that listens at socket to run all checks at once.
func Send(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://detector"+Path, nil)
	if err != nil {
		return fmt.Errorf("asking the detector to run its checks: %w", err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("asking the detector to run its checks: %w", err)
	}
	_ = response.Body.Close() // it is empty
	if response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("asking the detector to run its checks: it answers %s", response.Status)
	}
	return nil
}
