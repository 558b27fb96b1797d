package redfish

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodemend/nodemend/internal/power"
	service "github.com/nodemend/nodemend/test/redfish"
)

const (
	ours   = "4c4c4544-0032-3810-8052-b4c04f4a5731"
	theirs = "4c4c4544-0044-4a10-8031-c4c04f4b4832"
)

func uuid(t *testing.T, text string) power.UUID {
	t.Helper()
	u, err := power.ParseUUID(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func optionsOf(s *service.Service) Options {
	return Options{URL: s.URL(), User: service.User, Password: power.Secret{File: s.PasswordFile()}, TLS: TLS{CAFile: s.CAFile()}}
}

func newSwitch(t *testing.T, o Options) *Switch {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rack is a service of two machines, ours the second.
func rack(t *testing.T) (*service.Service, *Switch) {
	t.Helper()
	light := false
	s := service.Start(t,
		&service.System{UUID: theirs, Power: "On"},
		&service.System{UUID: strings.ToUpper(ours), Power: "On", Indicator: &light, Resets: []string{"On", "ForceOff", "PowerCycle"}})
	o := optionsOf(s)
	o.System = "2"
	return s, newSwitch(t, o)
}

// Whoever has root on a node can write its systemUUID, that of another machine of the service.
func TestTheNodesOwnWordIsNotEnoughAmongMany(t *testing.T) {
	for name, test := range map[string]struct {
		system, machine string
		want            error
		says            string
	}{
		"nobody says which":       {"", ours, power.ErrNoIdentity, "it has 2 systems"},
		"it lies":                 {"2", theirs, power.ErrOtherMachine, "the UUID of its system is " + ours + ", and the node's systemUUID is " + theirs},
		"a name that many have":   {"Web Front End node", ours, power.ErrOtherMachine, `has the Id "2"`},
		"the Id, and the machine": {"2", ours, nil, ""},
	} {
		s, _ := rack(t)
		o := optionsOf(s)
		o.System = test.system
		sw, machine := newSwitch(t, o), uuid(t, test.machine)
		_, err := sw.Read(t.Context(), machine)
		if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v", name, err)
		}
		off, on := sw.Off(t.Context(), machine, nil), sw.On(t.Context(), machine, nil)
		if !errors.Is(off, test.want) || !errors.Is(on, test.want) || test.want != nil && len(s.Calls()) > 0 {
			t.Errorf("%s: got %v and %v, it was told %q", name, off, on, s.Calls())
		}
	}
}

// Each system takes a service some time, and each of its nodes has it asked.
func TestOfARackOnlyTheSystemThatIsNamedIsRead(t *testing.T) {
	systems := []*service.System{{UUID: ours, Power: "On"}}
	for range 39 {
		systems = append(systems, &service.System{UUID: theirs, Power: "On"})
	}
	s := service.Start(t, systems...)
	o := optionsOf(s)
	o.System = "1"
	sw := newSwitch(t, o)
	if r, err := sw.Read(t.Context(), uuid(t, ours)); err != nil || r.Power != power.On || r.GUID.String() != ours {
		t.Errorf("got %+v, %v", r, err)
	}
	if got := s.Requests(); got > 5 { // the service, a session, the system, and the session's end
		t.Errorf("there were %d requests", got)
	}
}

func TestASystemWhosePathIsNotItsIdIsFoundAmongAll(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request, s *service.Service){
		"no such path": func(w http.ResponseWriter, _ *http.Request, _ *service.Service) { w.WriteHeader(http.StatusNotFound) },
		"another system": func(w http.ResponseWriter, r *http.Request, s *service.Service) {
			r.URL.Path = "/redfish/v1/Systems/1"
			s.Pass(w, r)
		},
	} {
		s, sw := rack(t)
		first := true
		s.Instead(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/redfish/v1/Systems/2" && first {
				first = false
				answer(w, r, s)
				return
			}
			s.Pass(w, r)
		})
		if r, err := sw.Read(t.Context(), uuid(t, ours)); first || err != nil || r.Power != power.On || r.GUID.String() != ours {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
}

func TestTheSystemOfTheMachineIsSwitched(t *testing.T) {
	s, sw := rack(t)
	machine := uuid(t, ours)
	is := func(want power.State) {
		t.Helper()
		if r, err := sw.Read(t.Context(), machine); err != nil || r.Power != want || r.GUID.String() != ours {
			t.Fatalf("got %+v, %v, want %s", r, err, want)
		}
	}
	is(power.On)
	for range 2 { // the second time, the service refuses: it is so already
		if err := sw.Off(t.Context(), machine, nil); err != nil {
			t.Fatal(err)
		}
		is(power.Off)
	}
	for range 2 {
		if err := sw.On(t.Context(), machine, nil); err != nil {
			t.Fatal(err)
		}
		is(power.On)
	}
	want := []string{
		"ForceOff /redfish/v1/Systems/2", "ForceOff /redfish/v1/Systems/2", "On /redfish/v1/Systems/2", "On /redfish/v1/Systems/2",
	}
	if got := s.Calls(); !slices.Equal(got, want) || s.Power(1) != "On" {
		t.Errorf("it was told %q, and the other machine is %s", got, s.Power(1))
	}
	for _, on := range []bool{true, false} {
		if _, err := sw.Identify(t.Context(), machine, on); err != nil {
			t.Errorf("identify %t: %v", on, err)
		}
	}
	o := optionsOf(s)
	o.System = "1"
	if _, err := newSwitch(t, o).Identify(t.Context(), uuid(t, theirs), true); !errors.Is(err, power.ErrUnsupported) {
		t.Errorf("a light that is not there: %v", err)
	}
	if open, opened := s.Sessions(); open != 0 || opened != 12 {
		t.Errorf("%d of %d sessions are open", open, opened)
	}
}

func identify(t *testing.T, sw *Switch, on bool) error {
	t.Helper()
	_, err := sw.Identify(t.Context(), uuid(t, ours), on)
	return err
}

// What people find a machine by has had two names, and may be the chassis'.
func TestTheLightIsThatOfTheMachineAlone(t *testing.T) {
	for name, test := range map[string]struct {
		system  service.System
		on, off string // LEDs of the system and its chassis
		none    bool
	}{
		"the system's":           {system: service.System{LED: "Off"}, on: "Lit", off: "Off"},
		"one that only blinks":   {system: service.System{LED: "Off", LEDs: []string{"Off", "Blinking"}}, on: "Blinking", off: "Off"},
		"the chassis'":           {system: service.System{Chassis: &service.Chassis{LED: "Off", Systems: 1}}, on: "Lit", off: "Off"},
		"the newer one":          {system: service.System{Indicator: new(bool), LED: "Off"}, on: "Off", off: "Off"},
		"that of a rack":         {system: service.System{Chassis: &service.Chassis{LED: "Off", Systems: 4}}, none: true},
		"one nobody knows of":    {system: service.System{LED: "Unknown"}, none: true},
		"none":                   {system: service.System{Chassis: &service.Chassis{Systems: 1}}, none: true},
		"the chassis' newer one": {system: service.System{Chassis: &service.Chassis{Indicator: new(bool), LED: "Off", Systems: 1}}, on: "Off", off: "Off"},
	} {
		t.Run(name, func(t *testing.T) {
			system := test.system
			system.UUID, system.Power = ours, "On"
			sw := newSwitch(t, optionsOf(service.Start(t, &system)))
			for on, want := range map[bool]string{true: test.on, false: test.off} {
				err := identify(t, sw, on)
				if test.none {
					if !errors.Is(err, power.ErrUnsupported) {
						t.Errorf("got %v", err)
					}
					continue
				}
				got, active := system.LED, system.Indicator
				if system.Chassis != nil {
					got, active = system.Chassis.LED, system.Chassis.Indicator
				}
				if err != nil || got != want || active != nil && *active != on {
					t.Errorf("%t: the light is %s, want %s: %v", on, got, want, err)
				}
			}
		})
	}
}

// A button that is pushed would switch on what is off, so the operating system is asked by name.
func TestTheOperatingSystemIsAskedToShutDown(t *testing.T) {
	s := service.Start(t,
		&service.System{UUID: ours, Power: "On", Resets: []string{"On", "ForceOff", "PushPowerButton", "GracefulShutdown"}},
		&service.System{UUID: theirs, Power: "On", Resets: []string{"On", "ForceOff", "PushPowerButton"}})
	of := func(id string) *Switch {
		o := optionsOf(s)
		o.System = id
		return newSwitch(t, o)
	}
	sw := of("1")
	for range 2 { // the second time, the service refuses: it is off already
		if err := sw.Shutdown(t.Context(), uuid(t, ours), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := of("2").Shutdown(t.Context(), uuid(t, theirs), nil); !errors.Is(err, power.ErrUnsupported) || !strings.Contains(err.Error(), "GracefulShutdown") {
		t.Errorf("one that does not offer it: %v", err)
	}
	if err := sw.Shutdown(t.Context(), uuid(t, "4c4c4544-0055-4a10-8031-c4c04f4b4832"), nil); !errors.Is(err, power.ErrOtherMachine) {
		t.Errorf("another machine: %v", err)
	}
	if got, want := s.Calls(), slices.Repeat([]string{"GracefulShutdown /redfish/v1/Systems/1"}, 2); !slices.Equal(got, want) || s.Power(1) != "Off" || s.Power(2) != "On" {
		t.Errorf("it was told %q", got)
	}
}

// What is asked last is asked in the session, of the machine that was found.
func TestNothingIsSentThatIsNotToBeAnyMore(t *testing.T) {
	s := service.Start(t, &service.System{UUID: ours, Power: "On"})
	sw := newSwitch(t, optionsOf(s))
	held := errors.New("held by people")
	for _, do := range []func(context.Context, power.UUID, power.Still) error{sw.Off, sw.On, sw.Shutdown} {
		asked := 0
		err := do(t.Context(), uuid(t, ours), func(context.Context) error {
			asked++
			if open, _ := s.Sessions(); open != 1 {
				t.Errorf("it is asked with %d sessions", open)
			}
			return held
		})
		if asked != 1 || !errors.Is(err, power.ErrNotSent) || !errors.Is(err, held) || !strings.Contains(err.Error(), s.URL()+": nothing was sent: held by people") {
			t.Errorf("asked %d times: %v", asked, err)
		}
	}
	if got := s.Calls(); len(got) > 0 {
		t.Errorf("it was told %q", got)
	}
}

func TestOffThatTakesAWhileIsStillOn(t *testing.T) {
	s := service.Start(t, &service.System{UUID: ours, Power: "On", Lag: 1})
	sw := newSwitch(t, optionsOf(s))
	if err := sw.Off(t.Context(), uuid(t, ours), nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []power.State{power.On, power.Off} {
		if r, err := sw.Read(t.Context(), uuid(t, ours)); err != nil || r.Power != want {
			t.Errorf("got %+v, %v, want %s", r, err, want)
		}
	}
}

func TestASystemThatIsNotKnownIsNotSwitched(t *testing.T) {
	for name, test := range map[string]struct {
		systems []*service.System
		want    error
		text    string
	}{
		"another":              {[]*service.System{{UUID: theirs, Power: "On"}}, power.ErrOtherMachine, theirs},
		"many others":          {slices.Repeat([]*service.System{{UUID: theirs, Power: "On"}}, 40), power.ErrOtherMachine, "…"},
		"one without a UUID":   {[]*service.System{{Power: "On"}}, power.ErrNoIdentity, "none of its 1 systems has a UUID"},
		"none":                 {nil, power.ErrNoIdentity, "none of its 0 systems"},
		"two of that UUID":     {[]*service.System{{UUID: ours, Power: "On"}, {UUID: ours, Power: "On"}}, power.ErrNoIdentity, "2 systems have the UUID"},
		"no UUID, but text":    {[]*service.System{{UUID: "unknown", Power: "On"}}, power.ErrNoIdentity, "none"},
		"a UUID of many":       {[]*service.System{{UUID: "00000000-0000-0000-0000-000000000000", Power: "On"}}, power.ErrOtherMachine, "00000000"},
		"no reset to off":      {[]*service.System{{UUID: ours, Power: "Off", Resets: []string{"GracefulShutdown"}}}, power.ErrUnsupported, "ForceOff"},
		"a state of its own":   {[]*service.System{{UUID: ours, Power: "Hibernating"}}, nil, "Hibernating"},
		"a state that is none": {[]*service.System{{UUID: ours}}, nil, `""`},
	} {
		t.Run(name, func(t *testing.T) {
			s := service.Start(t, test.systems...)
			sw := newSwitch(t, optionsOf(s))
			_, err := sw.Read(t.Context(), uuid(t, ours))
			if errors.Is(test.want, power.ErrUnsupported) {
				err = sw.Off(t.Context(), uuid(t, ours), nil)
			} else if test.want != nil {
				err = errors.Join(err, sw.Off(t.Context(), uuid(t, ours), nil), sw.On(t.Context(), uuid(t, ours), nil), identify(t, sw, true))
			}
			if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %q", err, test.text)
			}
			if got := s.Calls(); len(got) > 0 {
				t.Errorf("it was told %q", got)
			}
			if open, _ := s.Sessions(); open != 0 {
				t.Errorf("%d sessions are open", open)
			}
		})
	}
}

func TestAServiceThatIsOfNoUseSaysWhy(t *testing.T) {
	s, _ := rack(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	elsewhere := service.Start(t)
	fail := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(status)
				_, _ = fmt.Fprint(w, body)
				return
			}
			s.Pass(w, r)
		}
	}
	for name, test := range map[string]struct {
		change  func(o *Options)
		instead http.HandlerFunc
		want    error
		text    string
		not     error
	}{
		"wrong password":         {change: func(o *Options) { o.Password.File = file("wrong", "s3cret") }, want: power.ErrLogin, text: "ResourceAtUriUnauthorized"},
		"wrong user":             {change: func(o *Options) { o.User = "nobody" }, want: power.ErrLogin, text: "user and password"},
		"no password":            {change: func(o *Options) { o.Password.File = filepath.Join(dir, "missing") }, want: os.ErrNotExist, text: "missing"},
		"an unknown authority":   {change: func(o *Options) { o.TLS = TLS{} }, text: "the certificate of the service is not accepted: x509: certificate signed by unknown authority", not: power.ErrNoAnswer},
		"another name":           {change: func(o *Options) { o.TLS.ServerName = "bmc-17" }, text: "bmc-17"},
		"another fingerprint":    {change: func(o *Options) { o.TLS = TLS{Fingerprint: strings.Repeat("00", 32)} }, text: "the certificate of the service is not accepted: its fingerprint is", not: power.ErrNoAnswer},
		"a missing authority":    {change: func(o *Options) { o.TLS.CAFile = filepath.Join(dir, "ca") }, want: os.ErrNotExist, text: "certificates of the service"},
		"an authority of none":   {change: func(o *Options) { o.TLS.CAFile = file("none", "none") }, text: "has no certificate in PEM"},
		"nobody there":           {change: func(o *Options) { o.URL = "https://127.0.0.1:1" }, want: power.ErrNoAnswer, text: "refused"},
		"may not":                {instead: fail(http.StatusForbidden, ""), want: power.ErrLogin, text: "HTTP 403"},
		"broken":                 {instead: fail(http.StatusInternalServerError, "s3cret, your password"), text: "HTTP 500"},
		"a message of its own":   {instead: fail(http.StatusBadRequest, `{"error":{"code":"s3cret is.no.password"}}`), text: "HTTP 400"},
		"no JSON":                {instead: func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>") }, text: "invalid character"},
		"a redirect elsewhere":   {instead: http.RedirectHandler(elsewhere.URL()+"/redfish/v1/", http.StatusTemporaryRedirect).ServeHTTP, want: power.ErrUnsupported, text: "another address"},
		"a redirect in a circle": {instead: http.RedirectHandler("/redfish/v1/", http.StatusTemporaryRedirect).ServeHTTP, text: "redirects"},
		"an endless answer":      {instead: endless, text: "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsOf(s)
			if test.change != nil {
				test.change(&o)
			}
			s.Instead(test.instead)
			defer s.Instead(nil)
			sw := newSwitch(t, o)
			machine := uuid(t, ours)
			for _, do := range []func() error{
				func() error { _, err := sw.Read(t.Context(), machine); return err },
				func() error { return sw.Off(t.Context(), machine, nil) },
			} {
				err := do()
				if err == nil || test.want != nil && !errors.Is(err, test.want) || test.not != nil && errors.Is(err, test.not) || !strings.Contains(err.Error(), test.text) {
					t.Errorf("got %v, want %q", err, test.text)
				}
				if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "word") && !strings.Contains(err.Error(), "password") || !strings.Contains(err.Error(), o.URL)) {
					t.Errorf("a secret is in it, or the address is not: %v", err)
				}
			}
		})
	}
	if _, opened := elsewhere.Sessions(); opened != 0 {
		t.Error("the password was sent elsewhere")
	}
	if s.Power(2) != "On" {
		t.Error("it was switched off")
	}
}

func endless(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprint(w, `{"Name":"`)
	chunk := []byte(strings.Repeat("a", 1<<16))
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func TestACertificateIsKnownByItsFingerprint(t *testing.T) {
	s, _ := rack(t)
	o := optionsOf(s)
	o.System = "2"
	digits := fmt.Sprintf("%X", sha256.Sum256(s.Certificate()))
	for _, fingerprint := range []string{digits, strings.ToLower(digits)} {
		o.TLS = TLS{Fingerprint: fingerprint}
		if r, err := newSwitch(t, o).Read(t.Context(), uuid(t, ours)); err != nil || r.Power != power.On {
			t.Errorf("got %+v, %v", r, err)
		}
	}
}

// Who keeps what a service says has nothing new to keep if it fails as before.
func TestAServiceThatFailsAsBeforeSaysTheSame(t *testing.T) {
	t.Run("it resets the connection", func(t *testing.T) {
		s, sw := rack(t)
		s.Instead(func(w http.ResponseWriter, _ *http.Request) {
			connection, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			if tcp, is := connection.(*tls.Conn).NetConn().(*net.TCPConn); is {
				_ = tcp.SetLinger(0)
				_ = tcp.Close()
			}
		})
		_, first := sw.Read(t.Context(), uuid(t, ours))
		_, second := sw.Read(t.Context(), uuid(t, ours))
		if !errors.Is(first, power.ErrNoAnswer) || !errors.Is(first, syscall.ECONNRESET) || second == nil || first.Error() != second.Error() {
			t.Errorf("got %v, then %v", first, second)
		}
	})
	t.Run("its certificate has expired", func(t *testing.T) {
		s, _ := rack(t)
		certificate, err := x509.ParseCertificate(s.Certificate())
		if err != nil {
			t.Fatal(err)
		}
		said := map[string]bool{}
		for _, late := range []time.Duration{time.Hour, 2 * time.Hour} {
			_, err := certificate.Verify(x509.VerifyOptions{CurrentTime: certificate.NotAfter.Add(late)})
			said[invalid(err).Error()] = true
		}
		if want := "x509: certificate has expired or is not yet valid: it is valid from 1970-01-01T00:00:00Z until 2084-01-29T16:00:00Z"; len(said) != 1 || !said[want] {
			t.Errorf("got %v, want %q", said, want)
		}
	})
}

func TestAServiceThatHangsDoesNotHangUs(t *testing.T) {
	s, sw := rack(t)
	for name, hangs := range map[string]func(r *http.Request) bool{
		"at once":          func(*http.Request) bool { return true },
		"in the session":   func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/Systems") },
		"at the switching": func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "Reset") },
	} {
		t.Run(name, func(t *testing.T) {
			s.Instead(func(w http.ResponseWriter, r *http.Request) {
				if hangs(r) {
					_, _ = io.Copy(io.Discard, r.Body) // or it is not known when the client goes
					<-r.Context().Done()
					panic(http.ErrAbortHandler) //nolint:forbidigo // else it answers, which may still arrive
				}
				s.Pass(w, r)
			})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := sw.Off(ctx, uuid(t, ours), nil); !errors.Is(err, power.ErrNoAnswer) {
				t.Errorf("got %v", err)
			}
			if open, _ := s.Sessions(); open != 0 {
				t.Errorf("%d sessions are open", open)
			}
		})
	}
}

func TestASessionThatIsLostIsARefusedLogin(t *testing.T) {
	s, sw := rack(t)
	s.Instead(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			r.Header.Del("X-Auth-Token") // the service has restarted
		}
		s.Pass(w, r)
	})
	if _, err := sw.Read(t.Context(), uuid(t, ours)); !errors.Is(err, power.ErrLogin) || !strings.Contains(err.Error(), "NoValidSession") {
		t.Errorf("got %v", err)
	}
}

func TestOptionsThatCanNotWorkAreRefused(t *testing.T) {
	for _, address := range []string{"", "bmc", "http://bmc", "https://", "https://bmc/redfish/v1", "https://root:s3cret@bmc", "https://bmc?a=s3cret", "ht tps://s3cret"} {
		if _, err := New(Options{URL: address}); err == nil || !strings.Contains(err.Error(), "https://HOST:PORT") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, fingerprint := range []string{"00", strings.Repeat("0", 63), strings.Repeat("0", 66), strings.Repeat("x", 64)} {
		if _, err := New(Options{URL: "https://bmc", TLS: TLS{Fingerprint: fingerprint}}); err == nil || !strings.Contains(err.Error(), "64 hexadecimal digits") {
			t.Errorf("%q: %v", fingerprint, err)
		}
	}
	if _, err := New(Options{URL: "https://bmc", TLS: TLS{Fingerprint: strings.Repeat("00:", 31) + "00", CAFile: "ca"}}); err == nil {
		t.Error("a fingerprint and an authority: no error")
	}
	if _, err := New(Options{URL: "https://bmc:8443/"}); err != nil {
		t.Error(err)
	}
}
