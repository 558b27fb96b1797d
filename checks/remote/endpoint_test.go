package remote

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// endpoint is a played API server of a control-plane node.
type endpoint struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

// requests are those that it has got.
func (e *endpoint) requests() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.asked, ";")
}

func newEndpoint(t *testing.T, handler http.HandlerFunc) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.ContentLength > 0 {
			t.Errorf("%s %s with a body of %d", r.Method, r.URL, r.ContentLength)
		}
		e.mu.Lock()
		e.asked = append(e.asked, r.URL.RequestURI()+" "+r.Header.Get("Authorization"))
		e.mu.Unlock()
		handler(w, r)
	}))
	e.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that tests break
	e.StartTLS()
	t.Cleanup(e.Close)
	return e
}

// at returns the node whose API server that is.
func at(t *testing.T, name, address string) (n node, port int) {
	t.Helper()
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	if port, err = strconv.Atoi(number); err != nil {
		t.Fatal(err)
	}
	return node{
		name: name, labels: map[string]string{config.ControlPlaneNodes: ""},
		addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "x"}, {Type: corev1.NodeInternalIP, Address: host}},
	}, port
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// stranger is the certificate of an authority that has signed nothing.
func stranger(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC), IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func status(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

func TestWhatAnEndpointAnswers(t *testing.T) {
	const enough, short = 30 * time.Second, 200 * time.Millisecond
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		set     func(*config.ControlPlaneEndpoint)
		timeout time.Duration
		want    checks.Status
		reason  string
		message string
		asked   string
	}{
		"well": {handler: status(200, "ok"), want: checks.False, reason: ReasonEndpointHealthy, asked: "/livez "},
		"all paths": {handler: status(200, "ok"), set: func(c *config.ControlPlaneEndpoint) { c.Paths = []string{"/livez", "/readyz?exclude=etcd"} },
			want: checks.False, reason: ReasonEndpointHealthy, asked: "/livez ;/readyz?exclude=etcd "},
		"the second path is not well": {handler: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/readyz" {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}, set: func(c *config.ControlPlaneEndpoint) { c.Paths = []string{"/livez", "/readyz"} }, want: checks.True, reason: ReasonEndpointFails, message: "/readyz: HTTP status 500"},
		"another code is accepted": {handler: status(401, ""), set: func(c *config.ControlPlaneEndpoint) { c.OKCodes = []int{200, 401} }, want: checks.False, reason: ReasonEndpointHealthy},
		"a code that is not": {handler: status(500, "[-]etcd failed: reason withheld\nlivez check failed\x1b[2J"), want: checks.True, reason: ReasonEndpointFails,
			message: "HTTP status 500, accepted are [200]: [-]etcd failed: reason withheld livez check failed�[2J"},
		"it wants a token":        {handler: status(401, ""), want: checks.Unknown, reason: ReasonAccessDenied},
		"it wants another token":  {handler: status(403, ""), want: checks.Unknown, reason: ReasonAccessDenied},
		"a redirection is a code": {handler: http.RedirectHandler("/well", http.StatusFound).ServeHTTP, want: checks.True, reason: ReasonEndpointFails, asked: "/livez "},
		"a token is sent": {handler: status(200, ""), set: func(c *config.ControlPlaneEndpoint) { c.TokenFile = writeFile(t, "abc\n") },
			want: checks.False, reason: ReasonEndpointHealthy, asked: "/livez Bearer abc"},
		"a token of two lines": {handler: status(200, ""), set: func(c *config.ControlPlaneEndpoint) { c.TokenFile = writeFile(t, "abc\nX: y") },
			want: checks.Unknown, reason: ReasonEndpointNotAsked, message: "accepted is one line"},
		"no token": {handler: status(200, ""), set: func(c *config.ControlPlaneEndpoint) { c.TokenFile = "/does/not/exist" },
			want: checks.Unknown, reason: ReasonEndpointNotAsked, message: "no such file"},
		"no CA": {handler: status(200, ""), set: func(c *config.ControlPlaneEndpoint) { c.CAFile = "/does/not/exist" },
			want: checks.Unknown, reason: ReasonEndpointNotAsked, message: "no such file"},
		"no address": {handler: status(200, ""), set: func(c *config.ControlPlaneEndpoint) { c.AddressType = corev1.NodeExternalIP },
			want: checks.Unknown, reason: ReasonNoAddress},
		"no name that resolves": {handler: status(200, ""), set: func(c *config.ControlPlaneEndpoint) { c.AddressType = corev1.NodeHostName },
			want: checks.Unknown, reason: ReasonEndpointNotAsked},
		"another name in the certificate": {handler: status(200, ""), set: func(c *config.ControlPlaneEndpoint) { c.ServerName = "kubernetes" },
			want: checks.Unknown, reason: ReasonCertificateNotVerified, message: "See caFile and serverName"},
		"a name of the certificate": {handler: status(200, ""), set: func(c *config.ControlPlaneEndpoint) { c.ServerName = "example.com" }, want: checks.False, reason: ReasonEndpointHealthy},
		"it does not answer": {handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, timeout: short, want: checks.True, reason: ReasonEndpointTimeout,
			message: "no answer within 200ms"},
		"it answers half": {handler: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, timeout: short, want: checks.True, reason: ReasonEndpointTimeout},
		"it hangs up": {handler: func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
			}
		}, want: checks.True, reason: ReasonEndpointFails},
	} {
		t.Run(name, func(t *testing.T) {
			server := newEndpoint(t, tt.handler)
			c := config.DefaultRemote().ControlPlaneEndpoint
			var n node
			n, c.Port = at(t, "cp-1", server.Listener.Addr().String())
			c.Timeout.Duration = enough
			if tt.timeout > 0 {
				c.Timeout.Duration = tt.timeout
			}
			if tt.set != nil {
				tt.set(&c)
			}
			e, err := newEndpoints(c, rest.TLSClientConfig{CAData: pemOf(server.Certificate())}, "")
			if err != nil {
				t.Fatal(err)
			}
			got := result(t, e, n)
			if got.Status != tt.want || got.Reason != tt.reason || !strings.Contains(got.Message, tt.message) {
				t.Errorf("got %s %s: %s\nwant %s %s: %s", got.Status, got.Reason, got.Message, tt.want, tt.reason, tt.message)
			}
			if asked := server.requests(); tt.asked != "" && asked != tt.asked {
				t.Errorf("asked were %q, want %q", asked, tt.asked)
			}
		})
	}
}

// result is what is found of a node beside another one that is well.
func result(t *testing.T, e *endpoints, n node) checks.Observation {
	t.Helper()
	client, err := e.client()
	r := checks.CannotTell(ReasonEndpointNotAsked, "")
	if err == nil {
		r = e.ask(t.Context(), client, n)
	} else {
		r.Message = err.Error()
	}
	f := found{}
	f.add(n.name, config.ControlPlaneEndpointUnhealthy, witnessed(map[string]checks.Result{n.name: r, "other": checks.Healthy("", "")}, "")[n.name])
	return f[n.name][0]
}

func TestAnEndpointThatIsNotKnownIsNoProblemAndNotWell(t *testing.T) {
	server := newEndpoint(t, status(200, ""))
	c := config.DefaultRemote().ControlPlaneEndpoint
	var n node
	n, c.Port = at(t, "cp-1", server.Listener.Addr().String())
	e, err := newEndpoints(c, rest.TLSClientConfig{CAData: stranger(t)}, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := result(t, e, n); got.Status != checks.Unknown || got.Reason != ReasonCertificateNotVerified || server.requests() != "" {
		t.Errorf("of an authority that has not signed it: got %+v, and it was asked for %s", got, server.requests())
	}

	plain := httptest.NewServer(status(200, ""))
	defer plain.Close()
	n, e.config.Port = at(t, "cp-1", plain.Listener.Addr().String())
	if got := result(t, e, n); got.Status != checks.Unknown || got.Reason != ReasonCertificateNotVerified {
		t.Errorf("without TLS: got %+v", got)
	}
	address := plain.Listener.Addr().String()
	plain.Close()
	n, e.config.Port = at(t, "cp-1", address)
	if got := result(t, e, n); got.Status != checks.True || got.Reason != ReasonEndpointRefused {
		t.Errorf("where nobody listens: got %+v", got)
	}
	if _, err := newEndpoints(c, rest.TLSClientConfig{}, ""); err == nil || !strings.Contains(err.Error(), "controlPlaneEndpoint.caFile is empty") {
		t.Errorf("without any authority: got %v", err)
	}
}

func TestAProblemNeedsAnotherEndpointThatIsWell(t *testing.T) {
	bad, well, odd := checks.Problem("Bad", "it is bad"), checks.Healthy("Well", ""), checks.CannotTell("Odd", "")
	for name, tt := range map[string]struct {
		found map[string]checks.Result
		own   string
		want  string // of a
	}{
		"another one is well":                      {map[string]checks.Result{"a": bad, "b": well, "c": bad}, "", "True Bad"},
		"all fail":                                 {map[string]checks.Result{"a": bad, "b": bad, "c": bad}, "", "Unknown " + ReasonNoOtherHealthy},
		"it is alone":                              {map[string]checks.Result{"a": bad}, "", "Unknown " + ReasonNoOtherHealthy},
		"nobody can tell of another one":           {map[string]checks.Result{"a": bad, "b": odd}, "", "Unknown " + ReasonNoOtherHealthy},
		"only the detector's own node is well":     {map[string]checks.Result{"a": bad, "b": well, "c": bad}, "b", "Unknown " + ReasonNoOtherHealthy},
		"one beside the detector's own, too":       {map[string]checks.Result{"a": bad, "b": well, "c": well}, "b", "True Bad"},
		"the detector's own node fails":            {map[string]checks.Result{"a": bad, "b": well}, "a", "True Bad"},
		"it is well, and all others fail":          {map[string]checks.Result{"a": well, "b": bad}, "", "False Well"},
		"what can't be told is not made a problem": {map[string]checks.Result{"a": odd, "b": well}, "", "Unknown Odd"},
	} {
		got := witnessed(tt.found, tt.own)["a"]
		if text := string(got.Status) + " " + got.Reason; text != tt.want {
			t.Errorf("%s: got %s, want %s", name, text, tt.want)
		}
	}
}

func TestAllNodesAreAskedAtOnceAndFailuresOfAllAreUnknown(t *testing.T) {
	const count = 5
	all := make(chan struct{}, count)
	c := config.DefaultRemote().ControlPlaneEndpoint
	c.Timeout.Duration = 30 * time.Second
	arrived := make(chan struct{})
	go func() {
		for range count {
			<-all
		}
		close(arrived)
	}()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		all <- struct{}{}
		<-arrived // one after the other would never end
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	var nodes []node
	for i := range count {
		var n node
		n, c.Port = at(t, "cp-"+strconv.Itoa(i), server.Listener.Addr().String())
		nodes = append(nodes, n)
	}
	e, err := newEndpoints(c, rest.TLSClientConfig{CAData: pemOf(server.Certificate())}, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range e.look(t.Context(), nodes) {
		if o[0].Status != checks.Unknown || o[0].Reason != ReasonNoOtherHealthy || !strings.Contains(o[0].Message, "HTTP status 500") {
			t.Errorf("%s: got %+v", name, o[0])
		}
	}
}
