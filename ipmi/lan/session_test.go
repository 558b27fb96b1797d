//go:build integration

package lan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/test/ipmisim"
)

func TestARealBMCAnswersInASession(t *testing.T) {
	sim := ipmisim.Start(t)
	s := open(t, options(t, sim))
	guid, err := s.Command(t.Context(), app, systemGUID)
	if want := []byte("\xa1\x23\x45\x67\x89\xab\xcd\xef\xa1\x23\x45\x67\x89\xab\xcd\xef"); err != nil || !bytes.Equal(guid, want) {
		t.Errorf("the GUID is % x, %v, want % x", guid, err, want)
	}
	if !isOn(t, s) {
		t.Error("it is off at first")
	}
	sim.PowerOff()
	if isOn(t, s) {
		t.Error("it is on")
	}
	for range 100 { // the numbers of requests begin anew after 64
		if again, err := s.Command(t.Context(), app, systemGUID); err != nil || !bytes.Equal(again, guid) {
			t.Fatalf("the GUID is % x, %v", again, err)
		}
	}
	var refused ipmi.CompletionCode
	if _, err = s.Command(t.Context(), app, 0x7f); !errors.As(err, &refused) {
		t.Errorf("an unknown command: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("closing: %v", err)
	}
	if again := open(t, options(t, sim)); isOn(t, again) {
		t.Error("it is on")
	}
}

func TestWhoMayNotLogInIsTold(t *testing.T) {
	sim := ipmisim.Start(t)
	for name, test := range map[string]struct {
		change func(o *Options)
		want   string
	}{
		"wrong password":  {func(o *Options) { o.Password = "guess" }, "the password is wrong"},
		"no password":     {func(o *Options) { o.Password = "" }, "the password is wrong"},
		"unknown user":    {func(o *Options) { o.User = "nobody" }, "does not know the user"},
		"a key too many":  {func(o *Options) { o.Key = "secret key" }, "K_g, is wrong"},
		"a longer user":   {func(o *Options) { o.User += "s" }, "does not know the user"},
		"too long a user": {func(o *Options) { o.User = strings.Repeat("u", 17) }, "longer than IPMI allows, 16"},
		"too long a word": {func(o *Options) { o.Password = strings.Repeat("p", 21) }, "longer than IPMI allows, 20"},
		"no such suite":   {func(o *Options) { o.Suite = 1 }, "accepted are 3 and 17"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sim)
			password := o.Password
			test.change(&o)
			s, err := Open(t.Context(), o)
			if err == nil {
				_ = s.Close(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if o.Password != "" && o.Password != password && strings.Contains(err.Error(), o.Password) || o.Key != "" && strings.Contains(err.Error(), o.Key) {
				t.Errorf("a secret is in %q", err)
			}
		})
	}
}

func TestABMCThatDoesNotAnswerIsTold(t *testing.T) {
	nobody, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nobody.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, Options{Address: nobody.LocalAddr().String()}); !errors.Is(err, ipmi.ErrNoAnswer) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a BMC that is silent: %v", err)
	}
	_ = nobody.Close()
	if _, err := Open(t.Context(), Options{Address: nobody.LocalAddr().String()}); !errors.Is(err, ipmi.ErrNoAnswer) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a port where nobody listens: %v", err)
	}
	if _, err := Open(t.Context(), Options{Address: "bmc.invalid:623"}); !errors.Is(err, ipmi.ErrNoAnswer) {
		t.Errorf("a name that does not exist: %v", err)
	}
	stop := errors.New("somebody's reason")
	stopped, end := context.WithCancelCause(t.Context())
	end(stop)
	if _, err := Open(stopped, Options{Address: "127.0.0.1:1"}); err == nil {
		t.Error("a context that has ended: no error")
	}
}

func TestABMCThatHangsInASessionIsTold(t *testing.T) {
	sim := ipmisim.Start(t)
	s := open(t, options(t, sim))
	sim.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Command(ctx, chassis, status); !errors.Is(err, ipmi.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
	sim.PowerOff()
	sim.Thaw()
	// The answer to the request before comes late, and is not taken for one to this.
	if isOn(t, s) {
		t.Error("it is on")
	}
}

func TestASessionThatTheBMCHasForgottenIsNoAnswer(t *testing.T) {
	sim := ipmisim.Start(t)
	s := open(t, options(t, sim))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The BMC has forgotten it, and nobody has told us.
	var err error
	if s.transport, err = dial(t.Context(), options(t, sim).Address); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Command(ctx, chassis, status); !errors.Is(err, ipmi.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
}

// A packet that is lost is sent again, with another number: the BMC would pass over the same.
func TestWhatIsLostIsSentAgain(t *testing.T) {
	sim := ipmisim.Start(t)
	o := options(t, sim)
	w, address := newWire(t, sim)
	o.Address = address
	lost := map[string]int{}
	drop := func(way string) func(p []byte) [][]byte {
		return func(p []byte) [][]byte {
			kind := fmt.Sprintf("%s %#x", way, p[5])
			lost[kind]++
			if lost[kind] == 1 {
				return nil
			}
			return [][]byte{p}
		}
	}
	w.set(drop("to"), nil)
	s := open(t, o)
	w.set(nil, drop("from"))
	if !isOn(t, s) {
		t.Error("it is off")
	}
	w.set(nil, nil)
	for _, kind := range []string{"to 0x10", "to 0x12", "to 0x14", "to 0xc0", "from 0xc0"} {
		if lost[kind] < 2 {
			t.Errorf("packets %s: %d were sent", kind, lost[kind])
		}
	}
	// Answers that come twice are passed over.
	w.set(nil, func(p []byte) [][]byte { return [][]byte{p, p, p} })
	for range 10 {
		if !isOn(t, s) {
			t.Error("it is off")
		}
	}
}
