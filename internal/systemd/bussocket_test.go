package systemd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	godbus "github.com/godbus/dbus/v5"
	. "github.com/onsi/gomega"
)

// readFrom is a connection from which this is read, in small pieces.
type readFrom struct {
	net.Conn
	io.Reader
}

func (r readFrom) Read(p []byte) (int, error) { return r.Reader.Read(p) }

func (readFrom) Write(p []byte) (int, error) { return len(p), nil }

func TestCallsAndLongSignalsAreSkipped(t *testing.T) {
	g := NewWithT(t)
	var sent bytes.Buffer
	sent.WriteString("OK 0123\r\n")
	send := func(order binary.ByteOrder, kind godbus.Type, name, text string) {
		headers := map[godbus.HeaderField]godbus.Variant{
			godbus.FieldPath: godbus.MakeVariant(godbus.ObjectPath("/p")), godbus.FieldInterface: godbus.MakeVariant("a.b"),
			godbus.FieldMember: godbus.MakeVariant(name), godbus.FieldReplySerial: godbus.MakeVariant(uint32(7)),
			godbus.FieldSignature: godbus.MakeVariant(godbus.SignatureOf(text)),
		}
		g.Expect((&godbus.Message{Type: kind, Headers: headers, Body: []any{text}}).EncodeTo(&sent, order)).To(Succeed())
	}
	long := strings.Repeat("x", maxSignal)
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		send(order, godbus.TypeSignal, "Short", "text")
		send(order, godbus.TypeSignal, "Long", long)
		send(order, godbus.TypeMethodCall, "Call", "text")
		send(order, godbus.TypeMethodReply, "Reply", long+long)
		send(order, godbus.TypeSignal, "Odd", "seven b")
		send(order, godbus.TypeMethodCall, "LongCall", long)
	}

	s := newBusSocket(readFrom{Reader: iotest.HalfReader(&sent)})
	line := make([]byte, len("OK 0123\r\n"))
	_, err := io.ReadFull(s, line)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(line)).To(Equal("OK 0123\r\n"))
	_, err = s.Write([]byte("BEGIN\r\n"))
	g.Expect(err).NotTo(HaveOccurred())
	var got []any
	for {
		message, err := godbus.DecodeMessage(s)
		if errors.Is(err, io.EOF) {
			break
		}
		g.Expect(err).NotTo(HaveOccurred())
		got = append(got, message.Headers[godbus.FieldMember].Value(), len(message.Body[0].(string)))
	}
	want := []any{"Short", 4, "Reply", 2 * maxSignal, "Odd", 7}
	g.Expect(got).To(Equal(append(want, want...)))
}
