package services

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// stale is what kube-proxy v1.37 says when its iptables do not follow (pkg/proxy/healthcheck).
const stale = `{"lastUpdated":"2026-03-01T11:58:00Z","currentTime":"2026-03-01T12:00:00Z","healthy":false,"status":{"IPv4":{"lastUpdated":"2026-03-01T11:58:00Z","healthy":false}}}`

// says makes a handler that answers with a status by path; 404 for others.
func says(statuses map[string]int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status := statuses[r.URL.Path]
		switch status {
		case 0:
			status = http.StatusNotFound
		case http.StatusFound:
			w.Header().Set("Location", "/healthz")
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, stale)
	}
}

func TestWhatKubeProxySaysOfItself(t *testing.T) {
	for name, tc := range map[string]struct {
		statuses map[string]int
		reason   string // "": it is well
	}{
		"well": {map[string]int{"/livez": 200, "/healthz": 200}, ""},
		"well, on a node that is about to be removed": {map[string]int{"/livez": 200, "/healthz": 503}, ""},
		"its rules do not follow":                     {map[string]int{"/livez": 503, "/healthz": 503}, ReasonKubeProxyStale},
		"Cilium in its place, which has no /livez":    {map[string]int{"/healthz": 200}, ""},
		"Cilium in its place, unwell":                 {map[string]int{"/healthz": 503}, ReasonKubeProxyStale},
		"something else":                              {nil, ReasonNotSeen},
		"something that leads elsewhere":              {map[string]int{"/livez": 302, "/healthz": 200}, ReasonNotSeen},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(says(tc.statuses))
			defer server.Close()
			c := check(t, Options{KubeProxy: server.URL + "/"})
			expect(t, c.kubeProxy(t.Context()), tc.reason, "kube-proxy")
		})
	}
}

func TestAKubeProxyThatDoesNotAnswerIsNotOneThatIsNotThere(t *testing.T) {
	ctx, late := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		late()
		<-r.Context().Done()
	}))
	defer server.Close()
	c := check(t, Options{KubeProxy: server.URL})
	expect(t, c.kubeProxy(ctx), ReasonKubeProxyTimeout, "has not answered in time")
}

func TestThatThereIsNoKubeProxyIsAFaultWhereItHasToBe(t *testing.T) {
	address := "http://" + nobody(t, "tcp")
	expect(t, check(t, Options{KubeProxy: address}).kubeProxy(t.Context()), "", "there is no kube-proxy at "+address)
	expect(t, check(t, Options{KubeProxy: address, KubeProxyRequired: true}).kubeProxy(t.Context()), ReasonKubeProxyGone, "nobody listens at "+address)
}

// A kube-proxy that was restarted in vain must not look like a node without one.
func TestAKubeProxyThatHasGoneIsNotOneThatNeverWas(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	c := check(t, Options{KubeProxy: server.URL})
	expect(t, c.kubeProxy(t.Context()), ReasonKubeProxyStale, "kube-proxy")
	server.Close()
	expect(t, c.kubeProxy(t.Context()), ReasonNotSeen, "any more")
}

// nobody returns an address at which nobody listens.
func nobody(t *testing.T, network string) string {
	t.Helper()
	if network == "udp" {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.LocalAddr().String()
	}
	l, err := net.Listen(network, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// expect compares a part with the reason of its only finding, or with what is well if that is
// empty, and what is said.
func expect(t *testing.T, got part, reason, text string) {
	t.Helper()
	said := got.well
	if reason != "" {
		if len(got.found) != 1 || got.found[0].Reason != reason || got.well != "" {
			t.Errorf("got %+v, want %s", got, reason)
			return
		}
		said = got.found[0].Text
	}
	if reason == "" && got.found != nil || !strings.Contains(said, text) {
		t.Errorf("got %+v, want %q to say %q", got, reason, text)
	}
}
