//go:build integration

package lan

import (
	"bytes"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/nodemend/nodemend/test/ipmisim"
)

// wire is the network before a BMC: what passes it can be read, dropped, changed and made
// up. Who sits there knows no password.
type wire struct {
	mutex  sync.Mutex
	client *net.UDPAddr
	// toBMC and toClient return what is to arrive there instead of a packet. Nil: it.
	toBMC, toClient func(p []byte) [][]byte
}

// newWire returns the wire to the simulator, and where to dial.
func newWire(t *testing.T, s *ipmisim.Simulator) (w *wire, address string) {
	t.Helper()
	loopback := net.IPv4(127, 0, 0, 1)
	front, err := net.ListenUDP("udp4", &net.UDPAddr{IP: loopback})
	if err != nil {
		t.Fatal(err)
	}
	_, port := s.LAN()
	bmc, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: loopback, Port: port})
	if err != nil {
		t.Fatal(err)
	}
	w = &wire{}
	var both sync.WaitGroup
	both.Go(func() {
		buffer := make([]byte, maxPacket)
		for {
			n, from, err := front.ReadFromUDP(buffer)
			if err != nil {
				return
			}
			w.mutex.Lock()
			w.client = from
			for _, p := range change(w.toBMC, buffer[:n]) {
				_, _ = bmc.Write(p)
			}
			w.mutex.Unlock()
		}
	})
	both.Go(func() {
		buffer := make([]byte, maxPacket)
		for {
			n, err := bmc.Read(buffer)
			if err != nil {
				return
			}
			w.mutex.Lock()
			for _, p := range change(w.toClient, buffer[:n]) {
				_, _ = front.WriteToUDP(p, w.client)
			}
			w.mutex.Unlock()
		}
	})
	t.Cleanup(func() {
		_, _ = front.Close(), bmc.Close()
		both.Wait()
	})
	return w, front.LocalAddr().String()
}

func change(instead func(p []byte) [][]byte, p []byte) [][]byte {
	if p = bytes.Clone(p); instead != nil {
		return instead(p)
	}
	return [][]byte{p}
}

// set sets what happens to packets from now on.
func (w *wire) set(toBMC, toClient func(p []byte) [][]byte) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.toBMC, w.toClient = toBMC, toClient
}

// options are those by which an operator of the simulator logs in.
func options(t *testing.T, s *ipmisim.Simulator) Options {
	t.Helper()
	password, err := os.ReadFile(s.PasswordFile())
	if err != nil {
		t.Fatal(err)
	}
	host, port := s.LAN()
	return Options{
		Address: net.JoinHostPort(host, strconv.Itoa(port)), User: ipmisim.Operator,
		Password: string(bytes.TrimSpace(password)),
	}
}
