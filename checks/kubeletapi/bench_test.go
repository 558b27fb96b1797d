package kubeletapi_test

import (
	"bytes"
	"testing"

	"github.com/nodemend/nodemend/checks/kubeletapi"
)

// BenchmarkGet gets an answer of the size of a kubelet's metrics, 300 KiB. The
// server's share is in it, too.
func BenchmarkGet(b *testing.B) {
	as := issue(b, "node-1", nil, nil)
	body := string(bytes.Repeat([]byte("0123456789abcdef"), 300<<10/16))
	server := restart(b, "127.0.0.1:0", as, text(body))
	options := kubeletapi.Options{Endpoint: server.URL, CertificateFiles: []string{as.file(b)}}
	b.Run("on a connection that is used again", func(b *testing.B) {
		client := newClient(b, options)
		for b.Loop() {
			if _, err := client.Get(b.Context(), "/metrics"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("on a new connection", func(b *testing.B) {
		client := newClient(b, options)
		for b.Loop() {
			client.Close()
			if _, err := client.Get(b.Context(), "/metrics"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
