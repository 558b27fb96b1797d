package lan

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/nodemend/nodemend/ipmi"
)

const (
	chassis, status = 0x00, 0x01
	systemGUID      = 0x37
)

// open opens a session that ends with the test.
func open(t *testing.T, o Options) *Session {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) }) // the test may have lost it
	return s
}

func isOn(t *testing.T, s *Session) bool {
	t.Helper()
	data, err := s.Command(t.Context(), chassis, status)
	if err != nil || len(data) < 3 {
		t.Fatalf("the status is % x, %v", data, err)
	}
	return data[0]&1 == 1
}

// bmc answers the handshake and the requests of a session, for what ipmi_sim does not do.
type bmc struct {
	suite        suite
	password     string
	status       byte   // of RMCP+, to the request for a session
	level        []byte // what it answers to a request for a privilege level
	levelCode    byte   // and its completion code
	keys         keys
	console      uint32
	consoleNonce []byte
	role         []byte
	sent         uint32
	slow         byte // the type of the payload that it answers only when it comes again, with another nonce
	mixedUp      bool

	mutex          sync.Mutex // guards:
	sessionsClosed int
}

const (
	bmcSession = 0x0a0b0c0d
	nonce      = "0123456789abcdef"
	bmcGUID    = "a GUID, 16 bytes"
)

// start serves the BMC until the test ends, and returns its address.
func (b *bmc) start(t *testing.T) string {
	t.Helper()
	connection, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, maxPacket)
		for {
			n, from, err := connection.ReadFromUDP(buffer)
			if err != nil {
				return
			}
			if p := b.answer(t, bytes.Clone(buffer[:n])); p != nil {
				_, _ = connection.WriteToUDP(p, from)
			}
		}
	}()
	t.Cleanup(func() { _ = connection.Close(); <-done })
	return connection.LocalAddr().String()
}

func (b *bmc) answer(t *testing.T, p []byte) []byte {
	r, err := parse(p)
	payload := r.payload
	if err != nil {
		t.Errorf("% x: %v", p, err)
		return nil
	}
	password := padded(b.password)
	if b.slow == r.payloadType && !b.mixedUp {
		b.mixedUp = true
		return nil
	}
	switch r.payloadType {
	case payloadOpenRequest:
		b.console = uint32(payload[4]) | uint32(payload[5])<<8 | uint32(payload[6])<<16 | uint32(payload[7])<<24
		if b.status != 0 {
			return packet(payloadOpen, 0, 0, append([]byte{0, b.status, 0, 0}, id(b.console)...))
		}
		return packet(payloadOpen, 0, 0, append(id(0, b.console, bmcSession), payload[8:]...))
	case payloadRAKP1:
		b.consoleNonce, b.role = payload[8:24], append([]byte{payload[24]}, payload[27:]...)
		proof := b.suite.hmac(password, id(b.console, bmcSession), b.consoleNonce, []byte(nonce), []byte(bmcGUID), b.role)
		return packet(payloadRAKP2, 0, 0, append(append(id(0, b.console), nonce+bmcGUID...), proof...))
	case payloadRAKP3:
		if b.mixedUp || !bytes.Equal(payload[8:], b.suite.hmac(password, []byte(nonce), id(b.console), b.role)) {
			return packet(payloadRAKP4, 0, 0, append([]byte{0, 0x0f, 0, 0}, id(b.console)...))
		}
		session := b.suite.hmac(password, b.consoleNonce, []byte(nonce), b.role)
		if b.keys, err = newKeys(b.suite, session); err != nil {
			t.Error(err)
		}
		proof := b.suite.hmac(session, b.consoleNonce, id(bmcSession), []byte(bmcGUID))[:b.suite.signature]
		return packet(payloadRAKP4, 0, 0, append(id(0, b.console), proof...))
	}
	_, m, err := b.keys.open(bmcSession, p)
	if err != nil {
		t.Errorf("% x: %v", p, err)
		return nil
	}
	code, data := byte(0), []byte{}
	switch m[5] {
	case 0x3b:
		code, data = b.levelCode, b.level
	case 0x3c:
		b.mutex.Lock()
		b.sessionsClosed++
		b.mutex.Unlock()
	case status:
		data = []byte{1, 0, 0}
	}
	answer := []byte{consoleAddress, m[1] | toResponse}
	answer = append(answer, checksum(answer), bmcAddress, m[4], m[5], code)
	answer = append(answer, data...)
	b.sent++
	return b.keys.seal(b.console, b.sent, append(answer, checksum(answer[3:])))
}

func TestEverySuiteOpensASession(t *testing.T) {
	for number, s := range suites() {
		b := &bmc{suite: s, password: "secret", level: []byte{byte(Operator)}}
		session := open(t, Options{Address: b.start(t), User: "root", Password: "secret", Suite: number})
		if !isOn(t, session) {
			t.Errorf("suite %d: it is off", number)
		}
	}
}

func TestABMCThatIsSlowDoesNotSayThatThePasswordIsWrong(t *testing.T) {
	for _, slow := range []byte{payloadOpenRequest, payloadRAKP1, payloadRAKP3} {
		b := &bmc{suite: suites()[3], password: "s3cret", slow: slow}
		_, err := Open(t.Context(), Options{Address: b.start(t), User: "fence", Password: b.password})
		if !errors.Is(err, ipmi.ErrNoAnswer) || errors.Is(err, ErrLogin) || !strings.Contains(err.Error(), "not within 1s, so it was asked again") {
			t.Errorf("%#x: got %v", slow, err)
		}
	}
}

func TestARefusedSessionSaysWhy(t *testing.T) {
	for name, test := range map[string]struct {
		bmc  *bmc
		want error
		text string
	}{
		"too many sessions":      {bmc: &bmc{status: 0x01}, text: "too many sessions"},
		"no such suite":          {bmc: &bmc{status: 0x11}, text: "choose another one"},
		"no such role":           {bmc: &bmc{status: 0x09}, want: ErrLogin, text: "operator"},
		"something else":         {bmc: &bmc{status: 0x12}, text: "0x12"},
		"a user who may only be": {bmc: &bmc{levelCode: 0x81}, want: ErrLogin, text: "operator"},
		"a lower level":          {bmc: &bmc{level: []byte{2}}, want: ErrLogin, text: "level 02"},
		"a level that is none":   {bmc: &bmc{level: []byte{}}, want: ErrLogin, text: "operator"},
	} {
		t.Run(name, func(t *testing.T) {
			b := test.bmc
			b.suite, b.password = suites()[3], "secret"
			s, err := Open(t.Context(), Options{Address: b.start(t), User: "root", Password: "secret"})
			if err == nil {
				_ = s.Close(context.WithoutCancel(t.Context()))
			}
			if err == nil || test.want != nil && !errors.Is(err, test.want) || !bytes.Contains([]byte(err.Error()), []byte(test.text)) {
				t.Errorf("got %v, want %q", err, test.text)
			}
			if errors.Is(err, ipmi.ErrNoAnswer) {
				t.Errorf("it has answered: %v", err)
			}
			b.mutex.Lock()
			defer b.mutex.Unlock()
			if b.status == 0 && b.sessionsClosed != 1 {
				t.Errorf("the session was closed %d times", b.sessionsClosed)
			}
		})
	}
}
