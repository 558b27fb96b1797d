package lan

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nodemend/nodemend/ipmi"
)

// errMalformed is of a BMC that breaks the protocol.
var errMalformed = errors.New("the BMC does not keep to IPMI 2.0")

// handshake opens a session: both sides prove to each other that they know the password
// (IPMI 2.0, sections 13.17 to 13.24 and 13.31).
type handshake struct {
	transport     *transport
	suite         suite
	password, key []byte
	nonce         [16]byte
	role          []byte // the privilege level, and the user
	ours, theirs  uint32 // IDs of the session
	resent        bool   // something was sent more than once
}

// byNameAlone has the BMC look for the user by its name, whatever its level.
const byNameAlone = 0x10

func newHandshake(t *transport, s suite, o Options) *handshake {
	h := &handshake{transport: t, suite: s, password: padded(o.Password)}
	h.key = h.password
	if o.Key != "" {
		h.key = padded(o.Key)
	}
	h.role = append([]byte{byNameAlone | byte(o.Privilege), byte(len(o.User))}, o.User...)
	_, _ = rand.Read(h.nonce[:]) // never fails
	var number [4]byte
	_, _ = rand.Read(number[:])
	h.ours = binary.LittleEndian.Uint32(number[:]) | 1 // zero is that of no session
	return h
}

func padded(secret string) []byte {
	return append([]byte(secret), make([]byte, MaxPassword-len(secret))...)
}

func (h *handshake) run(ctx context.Context) (*Session, error) {
	if err := h.openSession(ctx); err != nil {
		return nil, err
	}
	// The BMC shows that it knows the password.
	payload := id(0, h.theirs)
	payload = append(payload, h.nonce[:]...)
	payload = append(payload, h.role[0], 0, 0)
	payload = append(payload, h.role[1:]...)
	var nonce, guid []byte
	err := h.ask(ctx, payloadRAKP1, payloadRAKP2, payload, func(got []byte) error {
		const fixed = 40
		if len(got) < fixed {
			return errMalformed
		}
		nonce, guid = bytes.Clone(got[8:24]), bytes.Clone(got[24:40])
		want := h.suite.hmac(h.password, id(h.ours), id(h.theirs), h.nonce[:], nonce, guid, h.role)
		if !hmac.Equal(want, got[fixed:]) {
			return fmt.Errorf("%w: the password is wrong, or this is not the BMC that has it", ErrLogin)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// So do we. Its answer shows that it has the key, too.
	session := h.suite.hmac(h.key, h.nonce[:], nonce, h.role)
	payload = append(id(0, h.theirs), h.suite.hmac(h.password, nonce, id(h.ours), h.role)...)
	err = h.ask(ctx, payloadRAKP3, payloadRAKP4, payload, func(got []byte) error {
		want := h.suite.hmac(session, h.nonce[:], id(h.theirs), guid)[:h.suite.signature]
		if !hmac.Equal(want, got[8:]) {
			return fmt.Errorf("%w: the key of the BMC, K_g, is wrong", ErrLogin)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	k, err := newKeys(h.suite, session)
	if err != nil {
		return nil, err
	}
	return &Session{transport: h.transport, keys: k, ours: h.ours, theirs: h.theirs}, nil
}

// openSession asks for a session with the cipher suite and no other.
func (h *handshake) openSession(ctx context.Context) error {
	algorithms := []byte{
		0, 0, 0, 8, h.suite.authentication, 0, 0, 0,
		1, 0, 0, 8, h.suite.integrity, 0, 0, 0,
		2, 0, 0, 8, confidentiality, 0, 0, 0,
	}
	return h.ask(ctx, payloadOpenRequest, payloadOpen, append(id(0, h.ours), algorithms...), func(got []byte) error {
		const fixed = 12
		if len(got) != fixed+len(algorithms) {
			return errMalformed
		}
		for _, at := range []int{4, 12, 20} {
			if got[fixed+at]&0x3f != algorithms[at] {
				return fmt.Errorf("%w: it has chosen another cipher suite than was asked for", errMalformed)
			}
		}
		h.theirs = binary.LittleEndian.Uint32(got[8:])
		return nil
	})
}

// ask sends a payload until the BMC has answered it by one of another type. accept gets one
// without an error status, of eight bytes at least.
//
// What is refused after something was sent twice is not refused for certain: a BMC that is slow
// makes another nonce or session for the second, and we answer the first.
func (h *handshake) ask(ctx context.Context, request, response byte, payload []byte, accept func(got []byte) error) error {
	p := packet(request, 0, 0, payload)
	sent := 0
	once := func() []byte {
		sent++
		h.resent = h.resent || sent > 1
		return p
	}
	err := h.transport.exchange(ctx, once, func(p []byte) error {
		r, err := parse(p)
		got := r.payload
		if err != nil || r.payloadType != response || r.session != 0 || len(got) < 8 || binary.LittleEndian.Uint32(got[4:]) != h.ours {
			return errForeign
		}
		if err := statusError(got[1], Privilege(h.role[0]&^byNameAlone)); err != nil {
			return err
		}
		return accept(got)
	})
	if err != nil && h.resent && ctx.Err() == nil && !errors.Is(err, ipmi.ErrNoAnswer) {
		return fmt.Errorf("%w: not within %s, so it was asked again and may have mixed up the two: %v", ipmi.ErrNoAnswer, resend, err) //nolint:errorlint // it is no refused login
	}
	return err
}

// id returns little-endian numbers: the first four bytes of a payload, which are zero, and
// IDs of sessions.
func id(numbers ...uint32) (to []byte) {
	for _, n := range numbers {
		to = binary.LittleEndian.AppendUint32(to, n)
	}
	return to
}
