package ipmisim

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"time"
)

// The bytes of the VM codec: the first two end a message and a command; the third
// stands before one of them in the data, which has bit 4 set then.
const (
	endMessage = 0xa0
	endCommand = 0xa1
	escape     = 0xaa
	escaped    = 0x10
)

// errNoMessage is a frame that is not a message of the BMC.
var errNoMessage = errors.New("no message")

// systemInterface is a connection to the BMC as a virtual machine has it: requests
// need no session, and have all privileges.
type systemInterface struct {
	connection net.Conn
	input      *bufio.Reader
	sequence   byte
}

func newSystemInterface(connection net.Conn) *systemInterface {
	return &systemInterface{connection: connection, input: bufio.NewReader(connection)}
}

// sendRecv sends a request to LUN 0 and returns the response from its completion
// code on.
func (s *systemInterface) sendRecv(netFn, cmd byte, data []byte) ([]byte, error) {
	s.sequence++
	request := append([]byte{s.sequence, netFn << 2, cmd}, data...)
	if err := s.connection.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return nil, err
	}
	if _, err := s.connection.Write(encode(request)); err != nil {
		return nil, fmt.Errorf("sending command %#02x/%#02x to the BMC: %w", netFn, cmd, err)
	}
	for {
		response, err := s.read()
		if errors.Is(err, errNoMessage) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("waiting for the BMC's response to command %#02x/%#02x: %w", netFn, cmd, err)
		}
		// One that comes after its time-out has another number.
		if response[0] == s.sequence && len(response) > 3 {
			return response[3:], nil
		}
	}
}

// read returns the next message without its checksum.
func (s *systemInterface) read() ([]byte, error) {
	var frame []byte
	inEscape := false
	for {
		next, err := s.input.ReadByte()
		switch {
		case err != nil:
			return nil, err
		case next == endCommand:
			return nil, errNoMessage
		case next == endMessage:
			if len(frame) < 4 || checksum(frame) != 0 {
				return nil, fmt.Errorf("a broken message: % x", frame)
			}
			return frame[:len(frame)-1], nil
		case next == escape:
			inEscape = true
		default:
			if inEscape {
				next &^= escaped
				inEscape = false
			}
			frame = append(frame, next)
		}
	}
}

// encode returns the frame of a message.
func encode(message []byte) []byte {
	var frame []byte
	for _, b := range append(message, -checksum(message)) {
		if b == endMessage || b == endCommand || b == escape {
			frame = append(frame, escape)
			b |= escaped
		}
		frame = append(frame, b)
	}
	return append(frame, endMessage)
}

func checksum(data []byte) byte {
	var sum byte
	for _, b := range data {
		sum += b
	}
	return sum
}
