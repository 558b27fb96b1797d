package lan

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // as the specification asks for, in an HMAC
	"crypto/sha256"
	"fmt"
	"hash"
	"maps"
	"slices"
)

// suite is a cipher suite (IPMI 2.0, table 22-20). All of them encrypt by AES-CBC-128.
type suite struct {
	authentication, integrity byte // their numbers, tables 13-17 and 13-18
	newHash                   func() hash.Hash
	signature                 int // how many bytes of an HMAC sign a message
}

// confidentiality is the number of AES-CBC-128 (table 13-19).
const confidentiality = 1

// suites returns those that are known. Others have no encryption, no signature, or MD5.
func suites() map[int]suite {
	return map[int]suite{
		3:  {authentication: 1, integrity: 1, newHash: sha1.New, signature: 12},
		17: {authentication: 3, integrity: 4, newHash: sha256.New, signature: 16},
	}
}

// Suites returns the IDs of the cipher suites that are known.
func Suites() []int { return slices.Sorted(maps.Keys(suites())) }

func suiteOf(id int) (suite, error) {
	s, known := suites()[id]
	if !known {
		return suite{}, fmt.Errorf("the cipher suite %d is not known: accepted are 3 and 17", id)
	}
	return s, nil
}

func (s suite) hmac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(s.newHash, key)
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}
