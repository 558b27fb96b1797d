package ipmisim

import (
	"bytes"
	"net"
	"testing"
)

func TestMessagesSurviveTheCodec(t *testing.T) {
	for name, data := range map[string][]byte{
		"no data":                    {},
		"bytes that end a message":   {endMessage, endCommand, escape, 0xb0, 0xb1, 0xba, endMessage},
		"a checksum that is escaped": {0x54},
		"every byte":                 everyByte(),
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer func() { _, _ = ours.Close(), theirs.Close() }()
			go bmc(theirs)
			got, err := newSystemInterface(ours).sendRecv(0x06, 0x01, data)
			if err != nil || !bytes.Equal(got, append([]byte{0}, data...)) {
				t.Errorf("got % x, %v, want 0 and % x", got, err, data)
			}
		})
	}
}

// bmc returns the data of a request, after a command of its own and an answer to
// another request.
func bmc(connection net.Conn) {
	request, err := newSystemInterface(connection).read()
	if err != nil {
		return
	}
	answer := append([]byte{request[0], request[1] | 1<<2, request[2], 0}, request[3:]...)
	late := append([]byte{request[0] - 1}, answer[1:]...)
	for _, frame := range [][]byte{{0xff, 1, endCommand}, encode(late), encode(answer)} {
		if _, err := connection.Write(frame); err != nil {
			return
		}
	}
}

func everyByte() []byte {
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	return all
}
