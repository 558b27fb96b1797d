package kubeletapi_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/checks/kubeletapi"
)

const (
	// patient is for requests that must succeed, also on a busy machine.
	patient = 20 * time.Second
	// hasty is for requests that must time out.
	hasty = 200 * time.Millisecond
)

// kubelet is a server that records what it is shown.
type kubelet struct {
	*httptest.Server
	// tokens are the Authorization headers of its requests.
	tokens chan string
	// certificate is whether it was shown a client certificate.
	certificate atomic.Bool
}

func serve(t testing.TB, as *identity, handler http.HandlerFunc) *kubelet {
	t.Helper()
	k := &kubelet{tokens: make(chan string, 100)}
	k.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.tokens <- r.Header.Get("Authorization")
		handler(w, r)
	}))
	k.TLS = &tls.Config{
		Certificates: []tls.Certificate{as.tls()}, ClientAuth: tls.RequestClientCert,
		VerifyConnection: func(state tls.ConnectionState) error {
			k.certificate.Store(len(state.PeerCertificates) > 0)
			return nil
		},
	}
	k.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are expected
	k.StartTLS()
	t.Cleanup(k.Close)
	return k
}

func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

func newClient(t testing.TB, options kubeletapi.Options) *kubeletapi.Client {
	t.Helper()
	if options.Endpoint == "" {
		options.Endpoint = "https://127.0.0.1:1"
	}
	if options.HealthzEndpoint == "" {
		options.HealthzEndpoint = "http://127.0.0.1:1"
	}
	if options.Credentials == nil {
		options.Credentials = &rest.Config{BearerToken: "secret"}
	}
	client, err := kubeletapi.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func get(t testing.TB, client *kubeletapi.Client, path string, timeout time.Duration) (kubeletapi.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return client.Get(ctx, path)
}

func TestOnlyTheKubeletIsShownTheCredentials(t *testing.T) {
	clusterCA := issue(t, "kubernetes", nil, authority)
	otherCA := issue(t, "other", nil, authority)
	self := issue(t, "node-1@1700000000", issue(t, "node-1-ca@1700000000", nil, authority), nil)
	old := issue(t, "node-1", nil, expired)
	intermediate := issue(t, "intermediate", clusterCA, authority)
	missing := filepath.Join(t.TempDir(), "missing.crt")
	caPEM, _ := clusterCA.pem(t)

	for name, tc := range map[string]struct {
		served      *identity
		files       []string
		credentials rest.TLSClientConfig
		trusted     bool
	}{
		"the certificate in the file": {
			served: self, files: []string{missing, self.file(t)}, trusted: true,
		},
		"the certificate in the file, expired": {
			served: old, files: []string{old.file(t)}, trusted: true,
		},
		"signed by the authority in the file": {
			served: issue(t, "node-1", otherCA, nil), files: []string{otherCA.file(t)}, trusted: true,
		},
		"signed by the authority of the API server": {
			served: issue(t, "system:node:node-1", clusterCA, nil), credentials: rest.TLSClientConfig{CAData: caPEM}, trusted: true,
		},
		"signed by the authority of the API server, in a file": {
			served: issue(t, "system:node:node-1", clusterCA, nil), credentials: rest.TLSClientConfig{CAFile: clusterCA.file(t)}, trusted: true,
		},
		"signed by an intermediate authority that is served along": {
			served: issue(t, "node-1", intermediate, nil), credentials: rest.TLSClientConfig{CAData: caPEM}, trusted: true,
		},
		"signed by itself": {
			served: issue(t, "node-1", nil, nil), files: []string{missing, self.file(t)}, credentials: rest.TLSClientConfig{CAData: caPEM},
		},
		"signed by another authority": {
			served: issue(t, "node-1", otherCA, nil), credentials: rest.TLSClientConfig{CAData: caPEM},
		},
		"signed by the authority, but expired": {
			served: issue(t, "node-1", clusterCA, expired), credentials: rest.TLSClientConfig{CAData: caPEM},
		},
		"signed by the authority, but for clients": {
			served: issue(t, "system:node:node-2", clusterCA, forClients), credentials: rest.TLSClientConfig{CAData: caPEM},
		},
		"signed by a certificate in the file that is no authority": {
			served: issue(t, "node-1", self, nil), files: []string{self.file(t)},
		},
		"nothing is trusted": {
			served: self, files: []string{missing},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, tc.served, text("ok"))
			clientIdentity := issue(t, "detector", nil, forClients)
			certPEM, keyPEM := clientIdentity.pem(t)
			credentials := &rest.Config{BearerToken: "secret", TLSClientConfig: tc.credentials}
			credentials.CertData, credentials.KeyData = certPEM, keyPEM
			_, err := get(t, newClient(t, kubeletapi.Options{
				Endpoint: server.URL, CertificateFiles: tc.files, Credentials: credentials,
			}), "/metrics", patient)
			server.Close() // no handshake goes on
			if tc.trusted {
				if err != nil {
					t.Fatal(err)
				}
				if token := <-server.tokens; token != "Bearer secret" || !server.certificate.Load() {
					t.Errorf("got Authorization %q, client certificate %v", token, server.certificate.Load())
				}
				return
			}
			if !errors.Is(err, kubeletapi.ErrNoAccess) || !strings.Contains(err.Error(), "kubelet.certificateFiles") {
				t.Errorf("got error %v, want ErrNoAccess with the next step", err)
			}
			if len(server.tokens) > 0 || server.certificate.Load() {
				t.Error("the credentials were shown")
			}
		})
	}
}

func TestVerificationCanBeSwitchedOff(t *testing.T) {
	server := serve(t, issue(t, "whoever", nil, nil), text("ok"))
	response, err := get(t, newClient(t, kubeletapi.Options{Endpoint: server.URL, InsecureSkipTLSVerify: true}), "/metrics", patient)
	if err != nil || response.Status != http.StatusOK || string(response.Body) != "ok" {
		t.Errorf("got %v, %v", response, err)
	}
}

func TestAFileThatCanNotBeUsedIsNamed(t *testing.T) {
	directory := t.TempDir()
	empty := filepath.Join(directory, "empty.crt")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	server := serve(t, issue(t, "node-1", nil, nil), text("ok"))
	_, err := get(t, newClient(t, kubeletapi.Options{Endpoint: server.URL, CertificateFiles: []string{directory, empty, filepath.Join(directory, "missing.crt")}}), "/metrics", patient)
	if err == nil || strings.Contains(err.Error(), "no such file") || !strings.Contains(err.Error(), directory+": is a directory") || !strings.Contains(err.Error(), empty+": holds no certificate") {
		t.Errorf("got %v", err)
	}
}

func TestCertificateFilesAreReadAgain(t *testing.T) {
	first, second := issue(t, "node-1", nil, nil), issue(t, "node-1", nil, nil)
	file := first.file(t)
	old := serve(t, first, text("ok"))
	client := newClient(t, kubeletapi.Options{Endpoint: old.URL, CertificateFiles: []string{file}})
	if _, err := get(t, client, "/metrics", patient); err != nil {
		t.Fatal(err)
	}
	address := old.Listener.Addr().String()
	old.Close()
	restart(t, address, second, text("ok"))
	if _, err := get(t, client, "/metrics", patient); !errors.Is(err, kubeletapi.ErrNoAccess) {
		t.Fatalf("got %v before the file was written", err)
	}
	second.write(t, file)
	if _, err := get(t, client, "/metrics", patient); err != nil {
		t.Fatal(err)
	}
}

// restart serves again at an address that was served before.
func restart(t testing.TB, address string, as *identity, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{as.tls()}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func TestNoRequestFailsAfterARestartOfTheKubelet(t *testing.T) {
	as := issue(t, "node-1", nil, nil)
	server := serve(t, as, text("ok"))
	client := newClient(t, kubeletapi.Options{Endpoint: server.URL, CertificateFiles: []string{as.file(t)}})
	running, address := server.Server, server.Listener.Addr().String()
	for range 20 {
		if _, err := get(t, client, "/metrics", patient); err != nil {
			t.Fatal(err)
		}
		running.CloseClientConnections()
		running.Close()
		running = restart(t, address, as, text("ok"))
	}
}

func TestAConnectionIsUsedAgainUnlessItShallShowSomething(t *testing.T) {
	metrics := func(ctx context.Context, c *kubeletapi.Client) error {
		_, err := c.Get(ctx, "/metrics")
		return err
	}
	for name, tc := range map[string]struct {
		status int
		ask    func(context.Context, *kubeletapi.Client) error
		plain  bool
		want   int32
	}{
		"metrics": {status: http.StatusOK, ask: metrics, want: 1},
		"metrics, with a client certificate that may have expired": {status: http.StatusUnauthorized, ask: metrics, want: 3},
		"the plain healthz": {status: http.StatusOK, plain: true, want: 3, ask: func(ctx context.Context, c *kubeletapi.Client) error {
			_, err := c.Healthz(ctx)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var connections atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(tc.status) }))
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					connections.Add(1)
				}
			}
			options := kubeletapi.Options{InsecureSkipTLSVerify: true}
			if tc.plain {
				server.Start()
				options.HealthzEndpoint = server.URL
			} else {
				server.StartTLS()
				options.Endpoint = server.URL
			}
			t.Cleanup(server.Close)
			client := newClient(t, options)
			for range 3 {
				if err := tc.ask(t.Context(), client); (err == nil) != (tc.status == http.StatusOK) {
					t.Fatal(err)
				}
			}
			if n := connections.Load(); n != tc.want {
				t.Errorf("made %d connections for 3 requests, want %d", n, tc.want)
			}
		})
	}
}

func TestATokenFileIsUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := serve(t, issue(t, "node-1", nil, nil), text("ok"))
	client := newClient(t, kubeletapi.Options{
		Endpoint: server.URL, InsecureSkipTLSVerify: true, Credentials: &rest.Config{BearerTokenFile: file},
	})
	if _, err := get(t, client, "/metrics", patient); err != nil {
		t.Fatal(err)
	}
	if token := <-server.tokens; token != "Bearer from-file" {
		t.Errorf("got Authorization %q", token)
	}
}

func TestWrappersForTheAPIServerAreLeftOut(t *testing.T) {
	credentials := &rest.Config{BearerToken: "secret"}
	credentials.Wrap(func(http.RoundTripper) http.RoundTripper {
		t.Error("the wrapper was used")
		return nil
	})
	newClient(t, kubeletapi.Options{Credentials: credentials})
	if credentials.WrapTransport == nil || credentials.Insecure {
		t.Error("the caller's configuration was changed")
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		path    string
		timeout time.Duration
		is      error
		mention string
	}{
		"401": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Unauthorized", http.StatusUnauthorized) },
			"/metrics", patient, kubeletapi.ErrNoAccess, "authentication.webhook.enabled",
		},
		"403 for metrics": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Forbidden", http.StatusForbidden) },
			"/metrics", patient, kubeletapi.ErrNoAccess, "get on nodes/metrics",
		},
		"403 for healthz": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Forbidden", http.StatusForbidden) },
			"/healthz", patient, kubeletapi.ErrNoAccess, "get on nodes/healthz",
		},
		"the API server can't be asked": {
			func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "Authorization error (user=detector, verb=get, resource=nodes, subresource=metrics)", http.StatusInternalServerError)
			},
			"/metrics", patient, kubeletapi.ErrNoAccess, "reach the API server",
		},
		"no answer": {
			func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"/metrics", hasty, context.DeadlineExceeded, "not answered in time",
		},
		"half an answer": {
			func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write([]byte("half"))
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			},
			"/metrics", hasty, context.DeadlineExceeded, "not answered in time",
		},
		"too long an answer": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, kubeletapi.MaxBody+1)) },
			"/metrics", patient, nil, "larger than 16 MiB",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, issue(t, "node-1", nil, nil), tc.handler)
			client := newClient(t, kubeletapi.Options{Endpoint: server.URL, InsecureSkipTLSVerify: true})
			_, err := get(t, client, tc.path, tc.timeout)
			if err == nil || !strings.Contains(err.Error(), tc.mention) || !strings.Contains(err.Error(), server.URL+tc.path) {
				t.Fatalf("got error %v, want mention of %q", err, tc.mention)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error %v is not %v", err, tc.is)
			}
		})
	}
}

func TestOtherStatusesAreAnswers(t *testing.T) {
	server := serve(t, issue(t, "node-1", nil, nil), func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "[-]syncloop failed: reason withheld", http.StatusInternalServerError)
	})
	response, err := get(t, newClient(t, kubeletapi.Options{Endpoint: server.URL, InsecureSkipTLSVerify: true}), "/healthz", patient)
	if err != nil || response.Status != http.StatusInternalServerError || !strings.Contains(string(response.Body), "syncloop") {
		t.Errorf("got %v, %v", response, err)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	server := serve(t, issue(t, "node-1", nil, nil), func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusFound)
	})
	response, err := get(t, newClient(t, kubeletapi.Options{Endpoint: server.URL, InsecureSkipTLSVerify: true}), "/metrics", patient)
	if err != nil || response.Status != http.StatusFound {
		t.Errorf("got %v, %v", response, err)
	}
}

func TestAProcessThatDoesNotAcceptTimesOut(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	address := listener.Addr().String()
	client := newClient(t, kubeletapi.Options{Endpoint: "https://" + address, HealthzEndpoint: "http://" + address})
	if _, err := get(t, client, "/metrics", hasty); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Get: got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hasty)
	defer cancel()
	if _, err := client.Healthz(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Healthz: got %v", err)
	}
}

func TestARefusedConnectionIsTold(t *testing.T) {
	client := newClient(t, kubeletapi.Options{})
	if _, err := get(t, client, "/metrics", patient); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Get: got %v", err)
	}
	if _, err := client.Healthz(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "start the kubelet") {
		t.Errorf("Healthz: got %v", err)
	}
}

func TestHealthzIsAskedWithoutCredentials(t *testing.T) {
	paths := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths <- r.URL.Path + r.Header.Get("Authorization")
		_, _ = w.Write([]byte("ok"))
	}))
	t.Cleanup(server.Close)
	response, err := newClient(t, kubeletapi.Options{HealthzEndpoint: server.URL + "/"}).Healthz(t.Context())
	if err != nil || response.Status != http.StatusOK || string(response.Body) != "ok" {
		t.Fatalf("got %v, %v", response, err)
	}
	if got := <-paths; got != "/healthz" {
		t.Errorf("asked for %q", got)
	}
}

func TestOptionsThatCanNotWorkAreRefused(t *testing.T) {
	valid := kubeletapi.Options{Endpoint: "https://127.0.0.1:10250", HealthzEndpoint: "http://127.0.0.1:10248", Credentials: &rest.Config{}}
	if _, err := kubeletapi.New(valid); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*kubeletapi.Options){
		"plain HTTP":       func(o *kubeletapi.Options) { o.Endpoint = "http://127.0.0.1:10255" },
		"a path":           func(o *kubeletapi.Options) { o.Endpoint = "https://127.0.0.1:10250/metrics" },
		"no health server": func(o *kubeletapi.Options) { o.HealthzEndpoint = "" },
		"no credentials":   func(o *kubeletapi.Options) { o.Credentials = nil },
		"half a key pair": func(o *kubeletapi.Options) {
			o.Credentials = &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("x"), KeyData: []byte("y")}}
		},
		"two ways to be it": func(o *kubeletapi.Options) { o.Credentials = &rest.Config{BearerToken: "a", Username: "b"} },
	} {
		options := valid
		change(&options)
		if _, err := kubeletapi.New(options); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
