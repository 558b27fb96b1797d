package systemd

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	godbus "github.com/godbus/dbus/v5"
)

// fake is a unix socket that speaks the D-Bus protocol as far as systemd's clients
// need it.
type fake struct {
	socket string
	// greeted is how often the method Hello was called, and asked what else was, by the
	// names of interfaces. hungUp gets a value for each connection that the client has
	// closed.
	greeted atomic.Int32
	asked   sync.Map
	hungUp  chan struct{}
	// mute is whether calls get no answer, and busy whether only systemd's do not.
	mute, busy atomic.Bool
}

// listen returns a socket whose connections are handled by serve, one goroutine each.
// All have ended when the test has.
func listen(t *testing.T, serve func(net.Conn)) (socket string, hungUp chan struct{}) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "bus")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	hungUp = make(chan struct{}, 16)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = conn.Close() }()
				serve(conn)
				_, _ = io.Copy(io.Discard, conn) // until the client hangs up
				hungUp <- struct{}{}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait() // the test has closed its connections
	})
	return socket, hungUp
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{}
	f.socket, f.hungUp = listen(t, f.serve)
	return f
}

func (f *fake) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		answer := "ERROR\r\n"
		switch words := strings.Fields(strings.TrimLeft(line, "\x00")); {
		case words[0] == "BEGIN":
			f.answer(in, conn)
			return
		case words[0] == "AUTH" && len(words) == 1:
			answer = "REJECTED EXTERNAL\r\n"
		case words[0] == "AUTH":
			answer = "OK 0123456789abcdef0123456789abcdef\r\n"
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// answer answers every call, most with a text.
func (f *fake) answer(in io.Reader, out io.Writer) {
	for {
		call, err := godbus.DecodeMessage(in)
		if err != nil {
			return
		}
		f.asked.Store(call.Headers[godbus.FieldInterface].Value(), true)
		var body any = ":1.1"
		switch call.Headers[godbus.FieldMember].Value() {
		case "Hello":
			f.greeted.Add(1)
		case "Get":
			body = godbus.MakeVariant("active")
			if f.busy.Load() {
				continue
			}
		}
		if f.mute.Load() || call.Flags&godbus.FlagNoReplyExpected != 0 {
			continue
		}
		reply := godbus.Message{
			Type: godbus.TypeMethodReply,
			Headers: map[godbus.HeaderField]godbus.Variant{
				godbus.FieldReplySerial: godbus.MakeVariant(call.Serial()),
				godbus.FieldSignature:   godbus.MakeVariant(godbus.SignatureOf(body)),
			},
			Body: []any{body},
		}
		if call.Headers[godbus.FieldMember].Value() == "AddMatch" {
			delete(reply.Headers, godbus.FieldSignature)
			reply.Body = nil
		}
		if err := reply.EncodeTo(out, binary.LittleEndian); err != nil {
			return
		}
	}
}
