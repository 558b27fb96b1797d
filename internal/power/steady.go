package power

import (
	"errors"
	"net"
)

// Steady returns the connection with errors that say the same each time: without our own address, of which the port
// is another one each time. So a status that tells of an error changes only if the error does.
func Steady(c net.Conn) net.Conn { return steady{c} }

type steady struct{ net.Conn }

func (s steady) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	return n, withoutSource(err)
}

func (s steady) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	return n, withoutSource(err)
}

func withoutSource(err error) error {
	var of *net.OpError
	if !errors.As(err, &of) {
		return err
	}
	without := *of
	without.Source = nil
	return &without
}
