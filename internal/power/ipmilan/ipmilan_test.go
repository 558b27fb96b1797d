//go:build integration

package ipmilan

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/test/ipmisim"
)

func machine(t *testing.T, text string) power.UUID {
	t.Helper()
	u, err := power.ParseUUID(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func optionsOf(s *ipmisim.Simulator) Options {
	host, port := s.LAN()
	return Options{Host: host, Port: port, User: ipmisim.Operator, Password: power.Secret{File: s.PasswordFile()}}
}

// within bounds how long a BMC is waited for that does not answer.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits for what a BMC has acknowledged to take effect.
func eventually(t *testing.T, s power.Switch, want power.State) {
	t.Helper()
	for {
		r, err := s.Read(t.Context(), machine(t, ipmisim.GUID))
		if err != nil {
			t.Fatal(err)
		}
		if r.Power == want {
			return
		}
	}
}

func TestTheMachineOfABMCIsSwitched(t *testing.T) {
	sim := ipmisim.Start(t)
	s := New(optionsOf(sim))
	r, err := s.Read(t.Context(), machine(t, ipmisim.GUID))
	if err != nil || r.GUID.String() != ipmisim.GUID || r.Power != power.On {
		t.Fatalf("got %+v, %v", r, err)
	}
	// In each of the three orders, the node's UUID is that of the machine.
	for _, order := range power.Orders() {
		node := r.GUID.In(order)
		for range 2 { // each may be repeated
			if err := s.Off(t.Context(), node, nil); err != nil {
				t.Fatal(err)
			}
			eventually(t, s, power.Off)
		}
		for range 2 {
			if err := s.On(t.Context(), node, nil); err != nil {
				t.Fatal(err)
			}
			eventually(t, s, power.On)
		}
	}
	for on, want := range map[bool]string{true: "255 1", false: "0 0"} {
		if lasts, err := s.Identify(t.Context(), machine(t, ipmisim.GUID), on); err != nil || on && lasts != 255*time.Second { // it does not say that it shines
			t.Errorf("identify %t: %s, %v", on, lasts, err)
		}
		if got := sim.Identify(); got != want {
			t.Errorf("identify %t: %q", on, got)
		}
	}
}

func TestTheOperatingSystemIsAskedToShutDown(t *testing.T) {
	sim := ipmisim.Start(t)
	s := New(optionsOf(sim))
	if err := s.Shutdown(t.Context(), machine(t, ipmisim.GUID), nil); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Read(t.Context(), machine(t, ipmisim.GUID)); err != nil || r.Power != power.On || sim.Shutdowns() != 1 {
		t.Errorf("got %+v, %v, asked %d times", r, err, sim.Shutdowns())
	}
}

func TestNothingIsSentThatIsNotToBeAnyMore(t *testing.T) {
	sim := ipmisim.Start(t)
	s := New(optionsOf(sim))
	held := func(context.Context) error { return errors.New("held by people") }
	for name, do := range map[string]func(context.Context, power.UUID, power.Still) error{"off": s.Off, "on": s.On, "shutdown": s.Shutdown} {
		if err := do(t.Context(), machine(t, ipmisim.GUID), held); !errors.Is(err, power.ErrNotSent) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r, err := s.Read(t.Context(), machine(t, ipmisim.GUID)); err != nil || r.Power != power.On || sim.Shutdowns() > 0 {
		t.Errorf("got %+v, %v, asked %d times", r, err, sim.Shutdowns())
	}
}

func TestAnotherMachineIsNotSwitched(t *testing.T) {
	sim := ipmisim.Start(t)
	s := New(optionsOf(sim))
	other := machine(t, "4c4c4544-0032-3810-8052-b4c04f4a5731")
	for name, do := range map[string]func() error{
		"read":     func() error { _, err := s.Read(t.Context(), other); return err },
		"off":      func() error { return s.Off(t.Context(), other, nil) },
		"on":       func() error { return s.On(t.Context(), other, nil) },
		"shutdown": func() error { return s.Shutdown(t.Context(), other, nil) },
		"identify": func() error { _, err := s.Identify(t.Context(), other, true); return err },
	} {
		if err := do(); !errors.Is(err, power.ErrOtherMachine) || !strings.Contains(err.Error(), other.String()) || !strings.Contains(err.Error(), ipmisim.GUID) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r, err := s.Read(t.Context(), machine(t, ipmisim.GUID)); err != nil || r.Power != power.On || sim.Shutdowns() > 0 {
		t.Errorf("got %+v, %v, asked %d times", r, err, sim.Shutdowns())
	}
	sim.PowerOff()
	if err := s.On(t.Context(), other, nil); !errors.Is(err, power.ErrOtherMachine) {
		t.Error(err)
	}
	if r, err := s.Read(t.Context(), machine(t, ipmisim.GUID)); err != nil || r.Power != power.Off {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestABMCThatIsOfNoUseSaysWhy(t *testing.T) {
	sim := ipmisim.Start(t)
	dir := t.TempDir()
	file := func(name, text string) power.Secret {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return power.Secret{File: path}
	}
	silent, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for name, test := range map[string]struct {
		change func(o *Options)
		want   error
		text   string
	}{
		"wrong password": {func(o *Options) { o.Password = file("wrong", "s3cret") }, power.ErrLogin, "the password is wrong"},
		"wrong user":     {func(o *Options) { o.User = "nobody" }, power.ErrLogin, "does not know the user"},
		"wrong key":      {func(o *Options) { o.Key = file("key", "s3cret") }, power.ErrLogin, "K_g"},
		"no password":    {func(o *Options) { o.Password = power.Secret{File: filepath.Join(dir, "missing")} }, os.ErrNotExist, "missing"},
		"empty password": {func(o *Options) { o.Password = file("empty", "\n") }, nil, "is empty"},
		"nobody there":   {func(o *Options) { o.Port = 1 }, power.ErrNoAnswer, "refused"},
		"silence":        {func(o *Options) { o.Port = silent.LocalAddr().(*net.UDPAddr).Port }, power.ErrNoAnswer, "does not answer"},
		"no such host":   {func(o *Options) { o.Host = "bmc.invalid" }, power.ErrNoAnswer, "bmc.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsOf(sim)
			test.change(&o)
			s := New(o)
			node := machine(t, ipmisim.GUID)
			for _, do := range []func(ctx context.Context) error{
				func(ctx context.Context) error { _, err := s.Read(ctx, node); return err },
				func(ctx context.Context) error { return s.Off(ctx, node, nil) },
				func(ctx context.Context) error { return s.On(ctx, node, nil) },
				func(ctx context.Context) error { _, err := s.Identify(ctx, node, true); return err },
			} {
				err := do(within(t, time.Second))
				if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
					t.Errorf("got %v, want %q", err, test.text)
				}
				if err != nil && (strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), s.String())) {
					t.Errorf("a secret is in it, or the address is not: %v", err)
				}
			}
		})
	}
	if r, err := New(optionsOf(sim)).Read(t.Context(), machine(t, ipmisim.GUID)); err != nil || r.Power != power.On {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestABMCThatHangsDoesNotHangUs(t *testing.T) {
	sim := ipmisim.Start(t)
	s := New(optionsOf(sim))
	sim.Freeze()
	for range 3 {
		if r, err := s.Read(within(t, 50*time.Millisecond), machine(t, ipmisim.GUID)); !errors.Is(err, power.ErrNoAnswer) || r.Power != "" {
			t.Errorf("got %+v, %v", r, err)
		}
	}
	sim.Thaw()
	// What it was asked meanwhile, it answers now, to nobody.
	eventually(t, s, power.On)
}

// A BMC has few sessions: ipmi_sim has 63.
func TestSessionsAreClosed(t *testing.T) {
	sim := ipmisim.Start(t)
	s := New(optionsOf(sim))
	for i := range 130 {
		if err := s.On(t.Context(), machine(t, "4c4c4544-0032-3810-8052-b4c04f4a5731"), nil); !errors.Is(err, power.ErrOtherMachine) {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}
