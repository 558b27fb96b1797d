package clustertest

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"

	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/loopback"
)

// Front is an API server before that of a cluster: it hands on requests, and breaks as API servers
// and the way to them do. It takes one token, which can be renewed.
type Front struct {
	// Kubeconfig is the path of a file by which a program reaches it. The token is in a file of its own.
	Kubeconfig string

	t            testing.TB
	address      string
	behind       http.Handler
	certificates []tls.Certificate // in turn, one for each start
	tokenFile    string
	starts       int

	lock     sync.Mutex
	server   *http.Server
	conns    []*frontConn
	token    string
	before   string // the token before it
	used     bool   // the token was
	ending   bool
	refusals map[string][]int // by what is asked
	taken    map[string]int   // likewise
}

// NewFront starts one. It stops with the test.
func NewFront(t testing.TB, c *cluster.Cluster) *Front {
	t.Helper()
	dir := t.TempDir()
	f := &Front{
		t: t, Kubeconfig: filepath.Join(dir, "kubeconfig"), tokenFile: filepath.Join(dir, "token"), address: loopback.Address(t),
		refusals: map[string][]int{}, taken: map[string]int{},
	}
	caFile := filepath.Join(dir, "ca.crt")
	var ca []byte
	for range 2 {
		cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
		f.must(err)
		pair, err := tls.X509KeyPair(cert, key)
		f.must(err)
		f.certificates, ca = append(f.certificates, pair), append(ca, cert...)
	}
	f.must(os.WriteFile(caFile, ca, 0o600))
	target, err := url.Parse(c.Config.Host)
	f.must(err)
	transport, err := rest.TransportFor(c.Config)
	f.must(err)
	f.behind = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization") // that of the cluster is set by the transport
		},
	}
	f.Start()
	t.Cleanup(f.Stop)
	f.RenewToken()
	const name = "front"
	f.must(clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{name: {Server: "https://" + f.address, CertificateAuthority: caFile}},
		AuthInfos:      map[string]*api.AuthInfo{name: {TokenFile: f.tokenFile}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, f.Kubeconfig))
	return f
}

func (f *Front) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// Start starts it again, at its address, with another certificate.
func (f *Front) Start() {
	f.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(f.t.Context(), "tcp", f.address)
	f.must(err)
	f.lock.Lock()
	defer f.lock.Unlock()
	certificate := f.certificates[f.starts%len(f.certificates)]
	f.starts++
	server := &http.Server{Handler: f, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}} //nolint:gosec // a test's
	f.server = server
	go func() { _ = server.ServeTLS(frontListener{listener, f}, "", "") }() // it ends by Stop
}

// Stop closes its port and all connections.
func (f *Front) Stop() {
	f.lock.Lock()
	defer f.lock.Unlock()
	_ = f.server.Close() // nothing more can be done
	f.conns = nil
}

// Reset resets all connections. It takes new ones.
func (f *Front) Reset() {
	f.each(func(c *frontConn) {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // else it is an orderly end
		}
		_ = c.Close()
	})
}

// Mute lets all connections stand, and says nothing on them any more. It takes new ones.
func (f *Front) Mute() { f.each(func(c *frontConn) { c.mute() }) }

// GoAway ends the connection of the next request in order, as an API server does that sheds load or
// stops: what is under way there goes on, and new requests take another one.
func (f *Front) GoAway() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.ending = true
}

// Refuse answers the next requests of a method, or WATCH, by these codes, one each. A watch is told
// 410 in an event, as when what it begins at is too old.
func (f *Front) Refuse(what string, codes ...int) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.refusals[what] = codes
}

// RenewToken writes another token. The one before is taken, too, as for some time after a kubelet
// has renewed it.
func (f *Front) RenewToken() {
	f.t.Helper()
	f.lock.Lock()
	defer f.lock.Unlock()
	f.before, f.token, f.used = f.token, f.token+"x", false
	f.must(os.WriteFile(f.tokenFile, []byte(f.token), 0o600))
}

// Renewed reports whether a request had the token that was written last.
func (f *Front) Renewed() bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.used
}

// Taken returns how many requests of a method, or WATCH, it has handed on.
func (f *Front) Taken(what string) int {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.taken[what]
}

func (f *Front) each(do func(*frontConn)) {
	f.lock.Lock()
	conns := f.conns
	f.conns = nil
	f.lock.Unlock()
	for _, c := range conns {
		do(c)
	}
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := r.Method
	if r.URL.Query().Get("watch") != "" {
		what = "WATCH"
	}
	switch code := f.judge(what, r); {
	case code == http.StatusGone && what == "WATCH":
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"type":"ERROR","object":%s}`, status(code)) // who does not read it asks again
	case code != 0:
		w.Header().Set("Content-Type", "application/json")
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(code)
		_, _ = w.Write(status(code))
	default:
		if f.ends() {
			w.Header().Set("Connection", "close") // of HTTP/2: GOAWAY
		}
		f.behind.ServeHTTP(w, r)
	}
}

// ends reports whether the connection is to be ended that has the request.
func (f *Front) ends() bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	ending := f.ending
	f.ending = false
	return ending
}

// judge returns the code of an error to answer with; 0: none.
func (f *Front) judge(what string, r *http.Request) int {
	f.lock.Lock()
	defer f.lock.Unlock()
	switch r.Header.Get("Authorization") {
	case "Bearer " + f.token:
		f.used = true
	case "Bearer " + f.before:
	default:
		return http.StatusUnauthorized
	}
	if left := f.refusals[what]; len(left) > 0 {
		f.refusals[what] = left[1:]
		return left[0]
	}
	f.taken[what]++
	return 0
}

func status(code int) []byte {
	reasons := map[int]metav1.StatusReason{
		http.StatusUnauthorized: metav1.StatusReasonUnauthorized, http.StatusConflict: metav1.StatusReasonConflict, http.StatusGone: metav1.StatusReasonExpired,
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusInternalServerError: metav1.StatusReasonInternalError,
	}
	text, _ := json.Marshal(metav1.Status{ // it has nothing that can't be written
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reasons[code], Message: "refused: " + strconv.Itoa(code), //nolint:gosec // of HTTP
	})
	return text
}

// frontListener keeps the connections of a front.
type frontListener struct {
	net.Listener
	front *Front
}

func (l frontListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &frontConn{Conn: conn, muted: make(chan struct{})}
	l.front.lock.Lock()
	defer l.front.lock.Unlock()
	l.front.conns = append(l.front.conns, c)
	return c, nil
}

// frontConn is a connection that can fall silent.
type frontConn struct {
	net.Conn
	once  sync.Once
	muted chan struct{}
}

func (c *frontConn) mute() { c.once.Do(func() { close(c.muted) }) }

func (c *frontConn) Write(p []byte) (int, error) {
	select {
	case <-c.muted:
		return len(p), nil
	default:
		return c.Conn.Write(p)
	}
}
