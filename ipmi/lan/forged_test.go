//go:build integration

package lan

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/test/ipmisim"
)

// Whoever can send packets in the name of a BMC, but does not know its password, must not be
// able to say that a machine is off: github.com/bougou/go-ipmi v0.9.1 believes the first of
// these.
func TestAForgedAnswerIsPassedOver(t *testing.T) {
	sim := ipmisim.Start(t)
	for name, forge := range map[string]func(s *Session) []byte{
		"in the clear, as of IPMI 1.5": func(s *Session) []byte {
			m := off(s.number + 1)
			return append([]byte{6, 0, 0xff, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, byte(len(m))}, m...)
		},
		"in the clear, of no session": func(s *Session) []byte { return packet(payloadIPMI, 0, 0, off(s.number+1)) },
		"in the clear, of this one":   func(s *Session) []byte { return packet(payloadIPMI, s.ours, s.received+1, off(s.number+1)) },
		"not signed": func(s *Session) []byte {
			sealed := s.keys.seal(s.ours, s.received+1, off(s.number+1))
			return sealed[:len(sealed)-s.keys.suite.signature]
		},
		"signed by other keys": func(s *Session) []byte {
			k, err := newKeys(s.keys.suite, []byte("another key"))
			if err != nil {
				t.Fatal(err)
			}
			return k.seal(s.ours, s.received+1, off(s.number+1))
		},
		"of another session": func(s *Session) []byte { return s.keys.seal(s.ours+2, s.received+1, off(s.number+1)) },
		"our own, sent back": func(s *Session) []byte {
			return s.keys.seal(s.theirs, s.sent+1, Target{Owner: bmcAddress}.request(chassis, s.number+1, status, nil))
		},
		"to the request before": func(s *Session) []byte { return s.keys.seal(s.ours, s.received+1, off(s.number)) },
		"of an earlier number":  func(s *Session) []byte { return s.keys.seal(s.ours, s.received, off(s.number+1)) },
		"with a broken checksum": func(s *Session) []byte {
			m := off(s.number + 1)
			m[7] ^= 1
			return s.keys.seal(s.ours, s.received+1, m)
		},
		"too short":               func(s *Session) []byte { return s.keys.seal(s.ours, s.received+1, off(s.number + 1)[:5]) },
		"empty":                   func(*Session) []byte { return nil },
		"of presence (ASF)":       func(*Session) []byte { return []byte{6, 0, 0, 6, 0, 0, 0x11, 0xbe, 0x40, 0, 0, 0} },
		"longer than it says":     func(s *Session) []byte { return append(s.keys.seal(s.ours, s.received+1, off(s.number+1)), 0) },
		"padded to more than all": func(s *Session) []byte { return s.padded(off(s.number + 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sim)
			w, address := newWire(t, sim)
			o.Address = address
			s := open(t, o)
			// It comes before the true one.
			forged := forge(s)
			w.set(nil, func(p []byte) [][]byte { return [][]byte{forged, p} })
			if !isOn(t, s) {
				t.Fatal("it is believed to be off")
			}
			// It is the only one.
			again := forge(s)
			w.set(nil, func([]byte) [][]byte { return [][]byte{again} })
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if data, err := s.Command(ctx, chassis, status); !errors.Is(err, ipmi.ErrNoAnswer) {
				t.Errorf("got % x, %v", data, err)
			}
			w.set(nil, nil)
			if !isOn(t, s) {
				t.Error("after it, it is off")
			}
		})
	}
}

// padded is a packet with a good signature whose padding is longer than its message.
func (s *Session) padded(m []byte) []byte {
	p := s.keys.seal(s.ours, s.received+1, m)
	// The last byte of the block before, changed, changes that of the padding.
	last := headers + int(binary.LittleEndian.Uint16(p[14:])) - 1
	p[last-16] ^= 0x80
	signed := len(p) - s.keys.suite.signature
	return append(p[:signed], s.keys.signature(p[:signed])...)
}

// One that forwards all to the true BMC, but would rather have neither password nor
// signature.
func TestNoWeakerSessionIsOpened(t *testing.T) {
	sim := ipmisim.Start(t)
	for name, at := range map[string]int{"no authentication": 16, "no integrity": 24, "no encryption": 32} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sim)
			w, address := newWire(t, sim)
			o.Address = address
			w.set(nil, func(p []byte) [][]byte {
				if p[5] == payloadOpen {
					p[headers+at] = 0
				}
				return [][]byte{p}
			})
			if _, err := Open(t.Context(), o); !errors.Is(err, errMalformed) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("another BMC in the middle", func(t *testing.T) {
		o := options(t, sim)
		w, address := newWire(t, sim)
		o.Address = address
		w.set(nil, func(p []byte) [][]byte {
			if p[5] == payloadRAKP2 {
				p[headers+24] ^= 1 // its GUID
			}
			return [][]byte{p}
		})
		if _, err := Open(t.Context(), o); !errors.Is(err, ErrLogin) {
			t.Errorf("got %v", err)
		}
	})
}
