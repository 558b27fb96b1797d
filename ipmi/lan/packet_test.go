package lan

import (
	"bytes"
	"testing"
)

// toResponse is added to the NetFn of a request.
const toResponse = 1 << 2

// off is an answer that says that the machine is off, to the request with this number. A
// session's next one has s.number+1.
func off(number byte) []byte {
	m := []byte{consoleAddress, chassis<<2 | toResponse}
	m = append(m, checksum(m), bmcAddress, number<<2, status, 0, 0, 0, 0)
	return append(m, checksum(m[3:]))
}

func FuzzOpenPacket(f *testing.F) {
	k, err := newKeys(suites()[3], []byte("key"))
	if err != nil {
		f.Fatal(err)
	}
	const session = 0x01020305
	f.Add(k.seal(session, 1, off(1)))
	f.Add(packet(payloadIPMI, 0, 0, off(1)))
	f.Add([]byte{6, 0, 0xff, 7, 6, 0xc0})
	f.Fuzz(func(t *testing.T, p []byte) {
		// Nothing is believed but what was sealed by the keys: the first of the corpus.
		if sequence, m, err := k.open(session, p); err == nil && (sequence != 1 || !bytes.Equal(m, off(1))) {
			t.Errorf("% x is believed: % x", p, m)
		}
		// Signed by the true keys, anything may come: it must not end the program.
		if r, err := parse(p); err == nil {
			signed := packet(r.payloadType|signedAndEncrypted, r.session, r.sequence, r.payload)
			signed = append(signed, k.signature(signed)...)
			if _, m, err := k.open(r.session, signed); err == nil {
				_, _ = Target{Owner: 0x2c}.answer(m, chassis, 1, status)
			}
		}
		_, _ = Target{Owner: 0x2c}.answer(p, chassis, 1, status)
	})
}

// Each bit of a packet is protected, but for those of the RMCP header that say nothing.
func TestEachBitOfAPacketIsSigned(t *testing.T) {
	for id, s := range suites() {
		k, err := newKeys(s, []byte("key"))
		if err != nil {
			t.Fatal(err)
		}
		p := k.seal(9, 3, off(4))
		if sequence, m, err := k.open(9, p); err != nil || sequence != 3 || !bytes.Equal(m, off(4)) {
			t.Fatalf("suite %d: %d, % x, %v", id, sequence, m, err)
		}
		for i := range p {
			for bit := range 8 {
				p[i] ^= 1 << bit
				if _, _, err := k.open(9, p); err == nil && i != 1 && i != 2 {
					t.Errorf("suite %d: bit %d of byte %d can be changed", id, bit, i)
				}
				p[i] ^= 1 << bit
			}
		}
	}
}

func TestAnAnswerIsKnownByItsRequest(t *testing.T) {
	good := off(9)
	if got, err := answer(good, chassis, 9, status); err != nil || !bytes.Equal(got, []byte{0, 0, 0, 0}) {
		t.Fatalf("got % x, %v", got, err)
	}
	for name, change := range map[string]func(m []byte){
		"to another network function": func(m []byte) { m[1] = app<<2 | toResponse },
		"a request":                   func(m []byte) { m[1] &^= toResponse },
		"to another number":           func(m []byte) { m[4] += 4 },
		"to another command":          func(m []byte) { m[5]++ },
	} {
		m := bytes.Clone(good)
		change(m)
		sum(m)
		if got, err := answer(m, chassis, 9, status); err == nil {
			t.Errorf("%s: got % x", name, got)
		}
	}
	// Some BMCs swap the addresses, or have another LUN.
	for _, at := range []int{0, 1, 3, 4} {
		m := bytes.Clone(good)
		m[at] ^= 1
		sum(m)
		if _, err := answer(m, chassis, 9, status); err != nil {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}

// sum makes the checksums right.
func sum(m []byte) {
	m[2], m[len(m)-1] = checksum(m[:2]), checksum(m[3:len(m)-1])
}
