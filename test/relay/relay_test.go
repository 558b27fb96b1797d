package relay_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/test/relay"
)

func TestARelayHandsOnBothWaysAndEndsWithEitherSide(t *testing.T) {
	g := NewWithT(t)
	r, client, server := pair(t, nil)
	_, err := client.Write([]byte("question"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read(server, len("question"))).To(Equal("question"))
	_, err = server.Write([]byte("answer"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read(client, len("answer"))).To(Equal("answer"))

	g.Expect(server.Close()).To(Succeed())
	_, err = client.Read(make([]byte, 1))
	g.Expect(err).To(MatchError(io.EOF))
	r.Stop()
}

func TestAStoppedRelayEndsItsConnections(t *testing.T) {
	g := NewWithT(t)
	r, client, _ := pair(t, nil)
	r.Stop()
	_, err := client.Read(make([]byte, 1))
	g.Expect(err).To(MatchError(io.EOF))
	_, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", client.RemoteAddr().String())
	g.Expect(err).To(HaveOccurred())
}

func TestAClientWithoutAServerIsClosed(t *testing.T) {
	g := NewWithT(t)
	_, client, _ := pair(t, errors.New("there is none"))
	_, err := client.Read(make([]byte, 1))
	g.Expect(err).To(MatchError(io.EOF))
}

// pair returns the two ends of a connection through a relay whose dialling may fail.
func pair(t *testing.T, failure error) (r *relay.Relay, client, server net.Conn) {
	t.Helper()
	front, back := listen(t), listen(t)
	dial := relay.To(back.Addr().String())
	if failure != nil {
		dial = func(context.Context, net.Conn) (net.Conn, error) { return nil, failure }
	}
	r = relay.Start(t.Context(), front, dial)
	t.Cleanup(r.Stop)
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if failure != nil {
		return r, client, nil
	}
	if server, err = back.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return r, client, server
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

func read(conn net.Conn, length int) (string, error) {
	data := make([]byte, length)
	_, err := io.ReadFull(conn, data)
	return string(data), err
}
