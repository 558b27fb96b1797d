package services

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
)

// kubeProxy asks kube-proxy whether it is well. Its /livez, unlike /healthz, says nothing of
// whether the node is about to be removed (KEP-3836). Cilium in the place of kube-proxy has
// /healthz alone.
func (c *Check) kubeProxy(ctx context.Context) part {
	at := c.options.KubeProxy
	status, connected, err := get(ctx, at+"/livez")
	if err == nil && status == http.StatusNotFound {
		status, connected, err = get(ctx, at+"/healthz")
	}
	c.proxySeen = c.proxySeen || err == nil
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) && c.options.KubeProxyRequired:
		return finding(ReasonKubeProxyGone, "nobody listens at %s: kube-proxy does not run", at)
	case errors.Is(err, syscall.ECONNREFUSED) && c.proxySeen:
		return finding(ReasonNotSeen, "nobody listens at %s any more, where kube-proxy did: if it must, set kubeProxyRequired", at)
	case errors.Is(err, syscall.ECONNREFUSED):
		return part{well: "there is no kube-proxy at " + at}
	case err != nil && connected && ctx.Err() != nil:
		return finding(ReasonKubeProxyTimeout, "kube-proxy at %s has not answered in time", at)
	case err != nil:
		return finding(ReasonNotSeen, "asking kube-proxy: %v", err)
	case status == http.StatusServiceUnavailable:
		return finding(ReasonKubeProxyStale, "kube-proxy at %s says that it has not applied a change of Services or endpoints for a minute or more", at)
	case status != http.StatusOK:
		return finding(ReasonNotSeen, "what answers at %s with status %d is no kube-proxy", at, status)
	default:
		return part{well: "kube-proxy is healthy"}
	}
}

// get returns the status of an answer, and whether anybody has taken the connection.
func get(ctx context.Context, address string) (status int, connected bool, err error) {
	var taken atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { taken.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, false, err
	}
	// It uses no proxy and, as a round tripper, follows no redirect.
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return 0, taken.Load(), err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 4096))
	return response.StatusCode, true, errors.Join(err, response.Body.Close())
}
