//go:build integration

package perf

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // cipher suite 3 of IPMI
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"
)

// rack is BMCs that answer by IPMI 2.0 over LAN, with cipher suite 3, each at an address of its own and
// of a machine of its own, which is on. ipmi_sim would be a process for each.
type rack struct {
	port int

	mu    sync.Mutex
	open  int // sessions
	asked map[int]bool
	counts
}

// counts are since the rack has forgotten what was before.
type counts struct {
	requests int           // datagrams that came
	reads    int           // of the power
	top      int           // the most sessions that were open at once
	all      chan struct{} // closed when the power of each machine was read
}

// newRack starts BMCs until the end of the test.
func newRack(b *testing.B) *rack {
	b.Helper()
	r := &rack{}
	r.forget()
	for i := range fences {
		connection, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(r.host(i)), Port: r.port})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = connection.Close() })
		r.port = connection.LocalAddr().(*net.UDPAddr).Port
		bmc := &bmc{rack: r, number: i}
		go bmc.serve(connection)
	}
	return r
}

// host returns the address of a BMC.
func (*rack) host(i int) string { return fmt.Sprintf("127.23.%d.%d", i/250, i%250+1) }

// guid returns that of a machine, as its BMC sends it, in the order in which it is written.
func (*rack) guid(i int) []byte {
	g := []byte("4c4c4544\x80\x8000")
	return binary.BigEndian.AppendUint32(g, uint32(i+1)) //nolint:gosec // a few thousand
}

// machine returns the systemUUID of a node.
func (r *rack) machine(i int) string {
	g := r.guid(i)
	return fmt.Sprintf("%x-%x-%x-%x-%x", g[:4], g[4:6], g[6:8], g[8:10], g[10:])
}

// forget begins to count anew.
func (r *rack) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked, r.counts = map[int]bool{}, counts{all: make(chan struct{})}
}

func (r *rack) counted() counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

func (r *rack) count(requests, sessions int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests += requests
	r.open += sessions
	r.top = max(r.top, r.open)
}

func (r *rack) read(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if r.asked[number] = true; len(r.asked) == fences {
		select {
		case <-r.all:
		default:
			close(r.all)
		}
	}
}

// bmc has one session at a time.
type bmc struct {
	rack   *rack
	number int

	console, sent         uint32
	nonce, role           []byte // of the console
	sessionKey, signature []byte
	cipher                cipher.Block
}

const (
	ofTheBMC  = 0x0a0b0c0d // the session
	bmcsNonce = "0123456789abcdef"
)

func (b *bmc) serve(connection *net.UDPConn) {
	buffer := make([]byte, 512)
	for {
		n, from, err := connection.ReadFromUDP(buffer)
		if err != nil {
			return
		}
		b.rack.count(1, 0)
		if answer := b.answer(bytes.Clone(buffer[:n])); answer != nil {
			_, _ = connection.WriteToUDP(answer, from)
		}
	}
}

// answer answers a datagram (IPMI 2.0, sections 13.17 to 13.32); nil: not at all.
func (b *bmc) answer(p []byte) []byte {
	const headers = 16
	if len(p) < headers {
		return nil
	}
	payload := p[headers:]
	known := append([]byte(password), make([]byte, 20-len(password))...)
	switch p[5] {
	case 0x10: // open a session
		b.console = binary.LittleEndian.Uint32(payload[4:])
		return packet(0x11, 0, 0, append(ids(0, b.console, ofTheBMC), payload[8:]...))
	case 0x12: // RAKP 1
		b.nonce, b.role = payload[8:24], append([]byte{payload[24]}, payload[27:]...)
		proof := mac(known, ids(b.console, ofTheBMC), b.nonce, []byte(bmcsNonce), b.rack.guid(b.number), b.role)
		return packet(0x13, 0, 0, append(append(append(ids(0, b.console), bmcsNonce...), b.rack.guid(b.number)...), proof...))
	case 0x14: // RAKP 3
		b.sessionKey = mac(known, b.nonce, []byte(bmcsNonce), b.role)
		b.signature = mac(b.sessionKey, bytes.Repeat([]byte{1}, 20))
		b.cipher, _ = aes.NewCipher(mac(b.sessionKey, bytes.Repeat([]byte{2}, 20))[:16]) // it is 16 bytes
		b.sent = 0
		b.rack.count(0, 1)
		proof := mac(b.sessionKey, b.nonce, ids(ofTheBMC), b.rack.guid(b.number))[:12]
		return packet(0x15, 0, 0, append(ids(0, b.console), proof...))
	}
	length := int(binary.LittleEndian.Uint16(p[14:]))
	if b.cipher == nil || length%aes.BlockSize != 0 || length < 2*aes.BlockSize || len(payload) < length {
		return nil
	}
	m := make([]byte, length-aes.BlockSize)
	cipher.NewCBCDecrypter(b.cipher, payload[:aes.BlockSize]).CryptBlocks(m, payload[aes.BlockSize:length])
	var data []byte
	switch m[5] {
	case 0x3b: // the privilege level operator
		data = []byte{3}
	case 0x3c:
		b.rack.count(0, -1)
	case 0x37:
		data = b.rack.guid(b.number)
	case 0x01:
		b.rack.read(b.number)
		data = []byte{1, 0, 0}
	}
	answer := []byte{0x81, m[1] | 1<<2}
	answer = append(answer, sum(answer), 0x20, m[4], m[5], 0)
	answer = append(answer, data...)
	return b.seal(append(answer, sum(answer[3:])))
}

// seal returns the packet of an answer, encrypted and signed.
func (b *bmc) seal(message []byte) []byte {
	b.sent++
	pad := byte(0)
	for ; (len(message)+1)%aes.BlockSize != 0; message = append(message, pad) {
		pad++
	}
	message = append(message, pad)
	payload := make([]byte, aes.BlockSize+len(message))
	_, _ = rand.Read(payload[:aes.BlockSize]) // never fails
	cipher.NewCBCEncrypter(b.cipher, payload[:aes.BlockSize]).CryptBlocks(payload[aes.BlockSize:], message)
	p := packet(0xc0, b.console, b.sent, payload)
	pad = 0
	for ; (len(p)-4+2)%4 != 0; pad++ {
		p = append(p, 0xff)
	}
	p = append(p, pad, 0x07)
	return append(p, mac(b.signature, p[4:])[:12]...)
}

func packet(kind byte, session, sequence uint32, payload []byte) []byte {
	p := append([]byte{6, 0, 0xff, 7, 6, kind}, ids(session, sequence)...)
	return append(binary.LittleEndian.AppendUint16(p, uint16(len(payload))), payload...) //nolint:gosec // a few bytes
}

func ids(numbers ...uint32) (to []byte) {
	for _, n := range numbers {
		to = binary.LittleEndian.AppendUint32(to, n)
	}
	return to
}

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha1.New, key)
	for _, part := range parts {
		_, _ = h.Write(part) // never fails
	}
	return h.Sum(nil)
}

func sum(data []byte) (sum byte) {
	for _, d := range data {
		sum -= d
	}
	return sum
}
