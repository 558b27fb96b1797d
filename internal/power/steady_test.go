package power

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
)

func TestAConnectionThatIsRefusedSaysTheSameEachTime(t *testing.T) {
	closed, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	address := closed.LocalAddr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for what, try := range map[string]func(net.Conn) error{
		"read": func(c net.Conn) error {
			_, err := c.Read(make([]byte, 1))
			return err
		},
		"write": func(c net.Conn) (err error) {
			for err == nil { // the refusal of one fails the next
				_, err = c.Write([]byte("x"))
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			connection, err := net.Dial("udp4", address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = connection.Close() }()
			if _, err := connection.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			err = try(Steady(connection))
			if !errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), connection.LocalAddr().String()) || !strings.Contains(err.Error(), address) {
				t.Errorf("got %v", err)
			}
		})
	}
}
