package lan

const (
	bmcAddress     = 0x20
	consoleAddress = 0x81
)

// Target is the one that a command is for.
type Target struct {
	// Owner is the slave address of a management controller, 0x20 for the BMC itself.
	Owner byte
	// Channel is the one that it is on; 0 is the primary IPMB.
	Channel byte
	LUN     byte
}

const sendMessage = 0x34 // of app

// request returns a request to the target (IPMI 2.0, section 13.8). Another controller gets it
// from the BMC, which keeps track of its answer (sections 6.13 and 22.7).
func (to Target) request(netFn, number, cmd byte, data []byte) []byte {
	if to.Owner == bmcAddress {
		return message(bmcAddress, netFn<<2|to.LUN, consoleAddress, number, cmd, data)
	}
	const track = 0x40
	bridged := message(to.Owner, netFn<<2|to.LUN, bmcAddress, number, cmd, data)
	return message(bmcAddress, app<<2, consoleAddress, number, sendMessage, append([]byte{track | to.Channel}, bridged...))
}

// answer returns what follows the headers of the response to a request: its completion
// code and data. errForeign also means that the BMC has handed on the request, so that the
// response is to come.
func (to Target) answer(m []byte, netFn, number, cmd byte) ([]byte, error) {
	got, err := answer(m, netFn, number, cmd)
	if err == nil || to.Owner == bmcAddress {
		return got, err
	}
	handedOn, err := answer(m, app, number, sendMessage)
	switch {
	case err != nil:
		return nil, err
	case handedOn[0] != 0:
		return handedOn[:1], nil
	default:
		return answer(handedOn[1:], netFn, number, cmd) // some BMCs answer in one
	}
}

// message returns a message (IPMI 2.0, section 13.8).
func message(to, netFnAndLUN, from, number, cmd byte, data []byte) []byte {
	m := []byte{to, netFnAndLUN}
	m = append(m, checksum(m), from, number<<2, cmd)
	m = append(m, data...)
	return append(m, checksum(m[3:]))
}

// answer returns what follows the headers of the response to a request: its completion
// code and data. BMCs differ in the addresses and LUNs that they answer with, which say
// nothing here: it is signed, and has the number of the request.
func answer(m []byte, netFn, number, cmd byte) ([]byte, error) {
	const before, after = 6, 1
	if len(m) < before+1+after || checksum(m[:3]) != 0 || checksum(m[3:]) != 0 ||
		m[1]>>2 != netFn|1 || m[4]>>2 != number || m[5] != cmd {
		return nil, errForeign
	}
	return m[before : len(m)-after], nil
}

func checksum(data []byte) byte {
	var sum byte
	for _, b := range data {
		sum += b
	}
	return -sum
}
