package systemd

import (
	"bufio"
	"encoding/binary"
	"net"
	"sync/atomic"
)

const (
	// fixedHeader is how long the first part of a message is, typeAt where its type is.
	fixedHeader = 16
	typeAt      = 1
	typeCall    = 1
	typeSignal  = 4
	// maxSignal is how long a signal may be. systemd's have a few KiB.
	maxSignal = 64 << 10
)

// busSocket is a connection to the message bus, by which anybody can send messages to
// anybody. It does not take open files, as it does not ask for them. What nobody sends
// who means well is skipped before memory is spent on it: calls, and long signals.
type busSocket struct {
	net.Conn
	in       *bufio.Reader
	messages atomic.Bool // after the authentication
	left     int64       // of the message that is being read
}

func newBusSocket(conn net.Conn) *busSocket {
	return &busSocket{Conn: conn, in: bufio.NewReader(conn)}
}

// Write implements io.Writer.
func (s *busSocket) Write(p []byte) (int, error) {
	if string(p) == "BEGIN\r\n" { // nothing but messages comes after it
		s.messages.Store(true)
	}
	return s.Conn.Write(p)
}

// Read implements io.Reader.
func (s *busSocket) Read(p []byte) (int, error) {
	if !s.messages.Load() {
		return s.in.Read(p)
	}
	for s.left == 0 {
		header, err := s.in.Peek(fixedHeader)
		if err != nil {
			return 0, err
		}
		s.left = length(header)
		if kind := header[typeAt]; kind == typeCall || kind == typeSignal && s.left > maxSignal {
			if err := s.skip(); err != nil {
				return 0, err
			}
		}
	}
	n, err := s.in.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	return n, err
}

// skip reads what is left of a message.
func (s *busSocket) skip() error {
	for s.left > 0 {
		n, err := s.in.Discard(int(min(s.left, maxSignal)))
		s.left -= int64(n)
		if err != nil {
			return err
		}
	}
	return nil
}

// length returns how long a message is (the D-Bus specification, "Message Format"):
// lengths of the body and of the other headers, which are padded, are in the first one.
func length(header []byte) int64 {
	var order binary.ByteOrder = binary.LittleEndian
	if header[0] == 'B' {
		order = binary.BigEndian
	}
	body, fields := int64(order.Uint32(header[4:])), int64(order.Uint32(header[12:]))
	return fixedHeader + (fields+7)/8*8 + body
}
