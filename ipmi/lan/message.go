package lan

const (
	bmcAddress     = 0x20
	consoleAddress = 0x81
)

// message returns a request to LUN 0 of the BMC (IPMI 2.0, section 13.8).
func message(netFn, number, cmd byte, data []byte) []byte {
	m := []byte{bmcAddress, netFn << 2}
	m = append(m, checksum(m), consoleAddress, number<<2, cmd)
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
