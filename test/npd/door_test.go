//go:build integration

package npd

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

// door is the way of one program to the API server.
type door struct {
	// kubeconfig leads to it.
	kubeconfig string
	// requests counts what has gone through it.
	requests atomic.Int64
}

// newDoor opens a door at an address, behind which the API server's clock is so far ahead. It
// writes its kubeconfig to a folder, and ends with the test.
func newDoor(t testing.TB, dir, address string, ahead time.Duration) *door {
	t.Helper()
	shared := clustertest.Shared(t)
	target, err := url.Parse(shared.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(shared.Config)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{kubeconfig: filepath.Join(dir, "door.kubeconfig")}
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			d.requests.Add(1)
			r.SetURL(target)
		},
		ModifyResponse: func(r *http.Response) error {
			date, err := http.ParseTime(r.Header.Get("Date"))
			if err == nil { // what has none tells no time
				r.Header.Set("Date", date.Add(ahead).Format(http.TimeFormat))
			}
			return nil
		},
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(proxy)
	_ = server.Listener.Close() // another one takes its place
	server.Listener = listener
	server.StartTLS()
	t.Cleanup(func() { // the program has ended before
		server.CloseClientConnections()
		server.Close()
	})
	config, err := clientcmd.LoadFromFile(shared.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.TLSServerName, cluster.CertificateAuthority = "https://"+listener.Addr().String(), "example.com", ""
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	if err := clientcmd.WriteToFile(*config, d.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return d
}

// door has the scene's program go through one.
func (s *scene) door(ahead time.Duration) *door {
	s.t.Helper()
	d := newDoor(s.t, s.dir, s.address, ahead)
	s.kubeconfig = d.kubeconfig
	return d
}
