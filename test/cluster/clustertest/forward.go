package clustertest

import (
	"net"
	"testing"

	"github.com/nodemend/nodemend/test/relay"
)

// Forward lets connections to address go on to target until the test ends.
func Forward(t testing.TB, address, target string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(relay.Start(t.Context(), listener, relay.To(target)).Stop)
}
