//go:build integration

package remote_test

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
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/ipmi/lan"
	"github.com/nodemend/nodemend/ipmi/remote"
	"github.com/nodemend/nodemend/test/ipmisim"
)

// options are those by which somebody logs in who may only read.
func options(t *testing.T, sim *ipmisim.Simulator) remote.Options {
	t.Helper()
	host, port := sim.LAN()
	machine, err := power.ParseUUID(ipmisim.GUID)
	if err != nil {
		t.Fatal(err)
	}
	return remote.Options{Host: host, Port: port, User: ipmisim.Reader, PasswordFile: sim.PasswordFile(), Machine: machine}
}

func open(t *testing.T, o remote.Options) *device.Device {
	t.Helper()
	s, err := remote.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestAUserWhoMayOnlyReadReadsAll(t *testing.T) {
	sim := ipmisim.Start(t)
	sim.SetSensorBit(ipmisim.PSU1Status, 1, true)
	for name, change := range map[string]func(o *remote.Options){
		"user":          func(*remote.Options) {},
		"operator":      func(o *remote.Options) { o.User, o.Privilege = ipmisim.Operator, lan.Operator },
		"administrator": func(o *remote.Options) { o.User, o.Privilege = ipmisim.User, lan.Administrator },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sim)
			change(&o)
			s := open(t, o)
			id, err := s.DeviceID(t.Context())
			if err != nil || id.Name != ipmisim.Name {
				t.Errorf("the BMC is %+v, %v", id, err)
			}
			chassis, err := s.Chassis(t.Context())
			if err != nil || !chassis.PowerOn {
				t.Errorf("the chassis is %+v, %v", chassis, err)
			}
			sensors, err := s.Sensors(t.Context())
			if err != nil || len(sensors) != 10 {
				t.Errorf("%d sensors, %v", len(sensors), err)
			}
			log, err := s.Events(t.Context(), ipmi.Cursor{})
			if err != nil || len(log.Events) != 1 || log.Events[0].StateName() != "Failure detected" {
				t.Errorf("the SEL is %+v, %v", log, err)
			}
		})
	}
}

func TestWhatHindersASessionIsSaid(t *testing.T) {
	sim := ipmisim.Start(t)
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	other, err := power.ParseUUID("4c4c4544-0032-3810-8052-b4c04f4a5731")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(o *remote.Options)
		want   error // nil: any
		text   string
	}{
		"no password":              {func(o *remote.Options) { o.PasswordFile = filepath.Join(dir, "missing") }, os.ErrNotExist, "the BMC's password"},
		"a password for everybody": {func(o *remote.Options) { o.PasswordFile = file("public", "test", 0o644) }, nil, "0644: others may use it; chmod 0600"},
		"one that a group changes": {func(o *remote.Options) { o.PasswordFile = file("group", "test", 0o660) }, nil, "0660"},
		"an empty one":             {func(o *remote.Options) { o.PasswordFile = file("empty", "\n", 0o600) }, nil, "it is empty"},
		"a folder":                 {func(o *remote.Options) { o.PasswordFile = dir }, nil, "is no file"},
		"a wrong one":              {func(o *remote.Options) { o.PasswordFile = file("wrong", "s3cret", 0o600) }, lan.ErrLogin, "the password is wrong"},
		"a key for everybody":      {func(o *remote.Options) { o.KeyFile = file("key", "s3cret", 0o604) }, nil, "the BMC's key"},
		"a key that it has not":    {func(o *remote.Options) { o.KeyFile = file("key2", "s3cret", 0o400) }, lan.ErrLogin, "K_g"},
		"no such user":             {func(o *remote.Options) { o.User = "nobody" }, lan.ErrLogin, "does not know the user"},
		"another machine":          {func(o *remote.Options) { o.Machine = other }, remote.ErrOtherMachine, "set trustAddress"},
		"nobody there":             {func(o *remote.Options) { o.Port = 1 }, ipmi.ErrNoAnswer, "refused"},
		"no such host":             {func(o *remote.Options) { o.Host = "bmc.invalid" }, ipmi.ErrNoAnswer, "bmc.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sim)
			test.change(&o)
			expect := func(err error) {
				t.Helper()
				if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
					t.Errorf("got %v, want %q", err, test.text)
				}
				if err != nil && strings.Contains(err.Error(), "s3cret") {
					t.Errorf("a secret is in %v", err)
				}
			}
			s, err := remote.New(o)
			if err != nil { // at once
				expect(err)
				return
			}
			defer func() { _ = s.Close() }() // was only read
			for _, read := range []func() error{
				func() error { _, err := s.DeviceID(t.Context()); return err },
				func() error { _, err := s.Chassis(t.Context()); return err },
				func() error { _, err := s.Sensors(t.Context()); return err },
				func() error { _, err := s.Events(t.Context(), ipmi.Cursor{}); return err },
			} {
				expect(read())
			}
		})
	}
	if _, err := remote.New(remote.Options{}); err == nil {
		t.Error("a source without a host")
	}
}

// A BMC has few sessions: ipmi_sim has 63.
func TestASessionEndsWhenTheBMCRests(t *testing.T) {
	sim := ipmisim.Start(t)
	s := open(t, options(t, sim))
	for i := range 130 {
		if _, err := s.Chassis(t.Context()); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		s.Rest()
	}
}

func TestABMCThatHangsIsAskedInAnotherSession(t *testing.T) {
	sim := ipmisim.Start(t)
	s := open(t, options(t, sim))
	if _, err := s.Chassis(t.Context()); err != nil {
		t.Fatal(err)
	}
	sim.Freeze()
	for range 2 { // in the session, and without one
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := s.Chassis(ctx); !errors.Is(err, ipmi.ErrNoAnswer) {
			t.Errorf("got %v", err)
		}
		cancel()
	}
	sim.Thaw()
	if chassis, err := s.Chassis(t.Context()); err != nil || !chassis.PowerOn {
		t.Errorf("got %+v, %v", chassis, err)
	}
}

func TestABMCThatIsSilentCostsNoMoreThanTheTimeGiven(t *testing.T) {
	silent, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("test"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, remote.Options{Host: "127.0.0.1", Port: silent.LocalAddr().(*net.UDPAddr).Port, PasswordFile: password})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Sensors(ctx); !errors.Is(err, ipmi.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
}

func TestSensorsOfAnotherControllerAreReadByTheBMC(t *testing.T) {
	sim := ipmisim.Start(t)
	sim.AddSatellite()
	o := options(t, sim)
	o.User, o.Privilege = ipmisim.User, lan.Administrator
	s := open(t, o)
	for _, failed := range []bool{false, true} {
		sim.SetSatelliteBit(1, failed)
		sensors, err := s.Sensors(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, sensor := range sensors {
			want := "Presence detected"
			switch {
			case sensor.Name == ipmisim.SatelliteSensor && failed:
				want += ", Failure detected"
			case sensor.Name != ipmisim.SatelliteSensor && sensor.Name != "PSU1 Status":
				continue
			}
			if got := strings.Join(sensor.StateNames(), ", "); got != want || !sensor.Available {
				t.Errorf("%s is %q (%s), want %q", sensor.Name, got, sensor.Problem, want)
			}
		}
	}
}
