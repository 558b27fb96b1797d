package lan

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"errors"
)

// Types of payload (IPMI 2.0, table 13-16), and what is set beside them in a session.
const (
	payloadIPMI        = 0x00
	payloadOpenRequest = 0x10
	payloadOpen        = 0x11
	payloadRAKP1       = 0x12
	payloadRAKP2       = 0x13
	payloadRAKP3       = 0x14
	payloadRAKP4       = 0x15
	signedAndEncrypted = 0xc0
)

const (
	rmcpHeader    = 4  // version, reserved, sequence, class
	sessionHeader = 12 // authentication type, payload type, session, sequence, length
	headers       = rmcpHeader + sessionHeader
	nextHeader    = 0x07
)

// errForeign is of a packet that the BMC has not sent in this session, as far as anybody
// can tell: it is passed over.
var errForeign = errors.New("not of this session")

// packet returns the packet of a payload, without a signature.
func packet(payloadType byte, session, sequence uint32, payload []byte) []byte {
	p := []byte{
		0x06, 0, 0xff, 0x07, // RMCP 1.0, no acknowledgement, class IPMI
		0x06, payloadType, // the format of IPMI 2.0
	}
	p = binary.LittleEndian.AppendUint32(p, session)
	p = binary.LittleEndian.AppendUint32(p, sequence)
	p = binary.LittleEndian.AppendUint16(p, uint16(len(payload)))
	return append(p, payload...)
}

// received is a packet of IPMI 2.0.
type received struct {
	payloadType       byte
	session, sequence uint32
	payload           []byte
	rest              []byte // what follows it
}

func parse(p []byte) (received, error) {
	if len(p) < headers || p[0] != 0x06 || p[3] != 0x07 || p[4] != 0x06 {
		return received{}, errForeign
	}
	length := int(binary.LittleEndian.Uint16(p[14:]))
	if len(p) < headers+length {
		return received{}, errForeign
	}
	return received{
		payloadType: p[5], session: binary.LittleEndian.Uint32(p[6:]), sequence: binary.LittleEndian.Uint32(p[10:]),
		payload: p[headers : headers+length], rest: p[headers+length:],
	}, nil
}

// keys sign and encrypt the messages of a session.
type keys struct {
	suite   suite
	signing []byte // K1
	cipher  cipher.Block
}

func newKeys(s suite, sessionKey []byte) (keys, error) {
	constant := func(b byte) []byte { return bytes.Repeat([]byte{b}, 20) } // section 13.32
	block, err := aes.NewCipher(s.hmac(sessionKey, constant(2))[:16])
	return keys{suite: s, signing: s.hmac(sessionKey, constant(1)), cipher: block}, err
}

// seal returns the packet of a message to a session.
func (k keys) seal(session, sequence uint32, message []byte) []byte {
	payload := make([]byte, aes.BlockSize)
	_, _ = rand.Read(payload) // never fails
	// Section 13.29: 1, 2, 3 …, and how many of them there are.
	padded := bytes.Clone(message)
	for n := byte(1); (len(padded)+1)%aes.BlockSize != 0; n++ {
		padded = append(padded, n)
	}
	padded = append(padded, byte(len(padded)-len(message)))
	cipher.NewCBCEncrypter(k.cipher, payload).CryptBlocks(padded, padded)
	p := packet(signedAndEncrypted|payloadIPMI, session, sequence, append(payload, padded...))

	// Section 13.28.4: what is signed is a multiple of four bytes long.
	pad := byte(0)
	for ; (len(p)-rmcpHeader+2)%4 != 0; pad++ {
		p = append(p, 0xff)
	}
	p = append(p, pad, nextHeader)
	return append(p, k.signature(p)...)
}

// signature of a packet that ends before it.
func (k keys) signature(p []byte) []byte {
	return k.suite.hmac(k.signing, p[rmcpHeader:])[:k.suite.signature]
}

// open returns the message of a packet and its number, if the packet was sealed for the
// session by these keys.
func (k keys) open(session uint32, p []byte) (sequence uint32, message []byte, err error) {
	r, err := parse(p)
	if err != nil || r.payloadType != signedAndEncrypted|payloadIPMI || r.session != session || len(r.rest) < k.suite.signature {
		return 0, nil, errForeign
	}
	signed := len(p) - k.suite.signature
	if !hmac.Equal(p[signed:], k.signature(p[:signed])) {
		return 0, nil, errForeign
	}
	iv, sealed := r.payload[:min(aes.BlockSize, len(r.payload))], r.payload[min(aes.BlockSize, len(r.payload)):]
	if len(sealed) == 0 || len(sealed)%aes.BlockSize != 0 {
		return 0, nil, errForeign
	}
	message = make([]byte, len(sealed))
	cipher.NewCBCDecrypter(k.cipher, iv).CryptBlocks(message, sealed)
	end := len(message) - 1 - int(message[len(message)-1])
	if end < 0 {
		return 0, nil, errForeign
	}
	return r.sequence, message[:end], nil
}
