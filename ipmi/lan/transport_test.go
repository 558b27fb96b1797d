package lan

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/nodemend/nodemend/ipmi"
)

// Who keeps what a BMC says has nothing new to keep if nobody listens there, as before.
func TestABMCThatIsNotThereSaysTheSameEachTime(t *testing.T) {
	closed, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	address := closed.LocalAddr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	o := Options{Address: address, User: "admin", Password: "secret"}
	_, first := Open(t.Context(), o)
	_, second := Open(t.Context(), o)
	if !errors.Is(first, ipmi.ErrNoAnswer) || !errors.Is(first, syscall.ECONNREFUSED) || second == nil || first.Error() != second.Error() {
		t.Errorf("got %v, then %v", first, second)
	}
}
