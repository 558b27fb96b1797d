package relay_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

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

func TestBetweenUnixSocketsOpenFilesAreHandedOn(t *testing.T) {
	g := NewWithT(t)
	unixListener := func() *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "socket"), Net: "unix"})
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	front, back := unixListener(), unixListener()
	r := relay.Start(t.Context(), front, relay.ToSocket(back.Addr().String()))
	t.Cleanup(r.Stop)
	client, err := net.DialUnix("unix", nil, front.Addr().(*net.UnixAddr))
	g.Expect(err).NotTo(HaveOccurred())
	server, err := back.AcceptUnix()
	g.Expect(err).NotTo(HaveOccurred())

	file, err := os.Open(os.DevNull)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	_, _, err = client.WriteMsgUnix([]byte("file"), unix.UnixRights(int(file.Fd())), nil)
	g.Expect(err).NotTo(HaveOccurred())
	buf, files := make([]byte, 16), make([]byte, 64)
	n, filesN, _, _, err := server.ReadMsgUnix(buf, files)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(buf[:n])).To(Equal("file"))
	messages, err := unix.ParseSocketControlMessage(files[:filesN])
	g.Expect(err).NotTo(HaveOccurred())
	got, err := unix.ParseUnixRights(&messages[0])
	g.Expect(err).NotTo(HaveOccurred())
	var stat unix.Stat_t
	g.Expect(unix.Fstat(got[0], &stat)).To(Succeed())
	g.Expect(unix.Close(got[0])).To(Succeed())
	g.Expect(stat.Rdev).To(Equal(unix.Mkdev(1, 3)))
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
