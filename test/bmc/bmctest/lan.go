package bmctest

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // as the specification asks for, in an HMAC
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/nodemend/nodemend/test/bmc"
)

// Login is how somebody logs in to a BMC of the network.
type Login struct {
	Host               string
	Port               int
	User, PasswordFile string
}

const (
	user     = "reader"
	password = "a password"
	nonce    = "0123456789abcdef"
	guid     = "a GUID, 16 bytes"
	hashSize = 12 // of what signs a message
)

// LAN serves b on loopback by IPMI 2.0 over LAN, with the cipher suite 3, until the test ends.
func LAN(t testing.TB, b *bmc.BMC) Login {
	t.Helper()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server := &server{bmc: b, sessions: map[uint32]*session{}}
		buffer := make([]byte, 4096)
		for {
			n, from, err := socket.ReadFromUDP(buffer)
			if err != nil {
				return
			}
			if answer := server.answer(bytes.Clone(buffer[:n])); answer != nil {
				_, _ = socket.WriteToUDP(answer, from) // it is asked again
			}
		}
	}()
	t.Cleanup(func() { _ = socket.Close(); <-done })
	return Login{Host: "127.0.0.1", Port: socket.LocalAddr().(*net.UDPAddr).Port, User: user, PasswordFile: path}
}

// server holds the sessions. What is malformed or not signed it does not answer.
type server struct {
	bmc      *bmc.BMC
	sessions map[uint32]*session // by the ID that the BMC has given
}

type session struct {
	console      uint32 // its ID there
	consoleNonce []byte
	role         []byte
	k1, k2       []byte
	sent         uint32
}

func sum(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha1.New, key)
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}

func number(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

// frame returns a packet of RMCP+ without a signature (IPMI 2.0, table 13-8).
func frame(kind byte, id, sequence uint32, payload []byte) []byte {
	p := append([]byte{6, 0, 0xff, 7, 6, kind}, number(id)...)
	p = append(p, number(sequence)...)
	return append(binary.LittleEndian.AppendUint16(p, uint16(len(payload))), payload...)
}

func (s *server) answer(p []byte) []byte {
	const header = 16
	if len(p) < header || p[4] != 6 || len(p) < header+int(binary.LittleEndian.Uint16(p[14:])) {
		return nil
	}
	payload := p[header : header+int(binary.LittleEndian.Uint16(p[14:]))]
	key := append([]byte(password), make([]byte, 20-len(password))...)
	switch kind := p[5]; {
	case kind == 0x10 && len(payload) == 32: // Open Session Request
		id := uint32(len(s.sessions) + 1)
		s.sessions[id] = &session{console: binary.LittleEndian.Uint32(payload[4:])}
		return frame(0x11, 0, 0, bytes.Join([][]byte{{payload[0], 0, 4, 0}, payload[4:8], number(id), payload[8:]}, nil))
	case kind == 0x12 && len(payload) >= 28: // RAKP Message 1
		x := s.sessions[binary.LittleEndian.Uint32(payload[4:])]
		if x == nil {
			return nil
		}
		x.consoleNonce, x.role = payload[8:24], append([]byte{payload[24]}, payload[27:]...)
		proof := sum(key, number(x.console), payload[4:8], x.consoleNonce, []byte(nonce), []byte(guid), x.role)
		return frame(0x13, 0, 0, bytes.Join([][]byte{{payload[0], 0, 0, 0}, number(x.console), []byte(nonce + guid), proof}, nil))
	case kind == 0x14 && len(payload) == 28: // RAKP Message 3
		x := s.sessions[binary.LittleEndian.Uint32(payload[4:])]
		if x == nil || !hmac.Equal(payload[8:], sum(key, []byte(nonce), number(x.console), x.role)) {
			return nil
		}
		sik := sum(key, x.consoleNonce, []byte(nonce), x.role)
		x.k1, x.k2 = sum(sik, bytes.Repeat([]byte{1}, 20)), sum(sik, bytes.Repeat([]byte{2}, 20))
		proof := sum(sik, x.consoleNonce, payload[4:8], []byte(guid))[:hashSize]
		return frame(0x15, 0, 0, bytes.Join([][]byte{{payload[0], 0, 0, 0}, number(x.console), proof}, nil))
	case kind == 0xc0: // a message, encrypted and signed
		x := s.sessions[binary.LittleEndian.Uint32(p[6:])]
		signed := len(p) - hashSize
		if x == nil || x.k1 == nil || !hmac.Equal(p[signed:], sum(x.k1, p[4:signed])[:hashSize]) {
			return nil
		}
		return s.execute(x, payload)
	default:
		return nil
	}
}

// execute has the BMC execute a message.
func (s *server) execute(x *session, payload []byte) []byte {
	block, err := aes.NewCipher(x.k2[:16])
	if err != nil || len(payload) < 2*aes.BlockSize || len(payload)%aes.BlockSize != 0 {
		return nil
	}
	m := make([]byte, len(payload)-aes.BlockSize)
	cipher.NewCBCDecrypter(block, payload[:aes.BlockSize]).CryptBlocks(m, payload[aes.BlockSize:])
	const shortest = 7
	end := len(m) - 1 - int(m[len(m)-1])
	if end < shortest {
		return nil
	}
	m = m[:end]
	netFn, lun, cmd, data := m[1]>>2, m[1]&3, m[5], m[6:len(m)-1]
	var result []byte
	switch app := byte(0x06); {
	case netFn == app && cmd == 0x3b && len(data) == 1: // Set Session Privilege Level
		result = []byte{0, data[0]}
	case netFn == app && cmd == 0x3c: // Close Session
		result = []byte{0}
	case netFn == app && cmd == 0x37: // Get System GUID
		result = append([]byte{0}, guid...)
	default:
		result = s.bmc.Handle(netFn, lun, cmd, data)
	}
	answer := []byte{m[3], (netFn | 1) << 2}
	answer = append(answer, check(answer))
	answer = append(answer, append([]byte{m[0], m[4], cmd}, result...)...)
	answer = append(answer, check(answer[3:]))
	for pad := byte(1); (len(answer)+1)%aes.BlockSize != 0; pad++ {
		answer = append(answer, pad)
	}
	answer = append(answer, byte(len(answer)-(7+len(result))))
	iv := bytes.Repeat([]byte{0x5a}, aes.BlockSize)
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(answer, answer)
	x.sent++
	p := frame(0xc0, x.console, x.sent, append(iv, answer...))
	pad := byte(0)
	for ; (len(p)-4+2)%4 != 0; pad++ {
		p = append(p, 0xff)
	}
	p = append(p, pad, 7)
	return append(p, sum(x.k1, p[4:])[:hashSize]...)
}

func check(data []byte) byte {
	var sum byte
	for _, b := range data {
		sum += b
	}
	return -sum
}
