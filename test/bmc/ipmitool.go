package bmc

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
)

// ServeIPMItool serves ipmitool's "dummy" interface on a unix socket, until the listener
// is closed: "ipmitool -I dummy …" with IPMI_DUMMY_SOCK set to its path, on a machine
// with little-endian 64-bit words. It returns when all connections have ended.
func (b *BMC) ServeIPMItool(listener net.Listener) error {
	var connections sync.WaitGroup
	defer connections.Wait()
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		connections.Go(func() {
			b.serveIPMItool(conn)
			_ = conn.Close() // the client has gone
		})
	}
}

// serveIPMItool answers requests until the other side goes. Both directions carry C
// structures, with their padding and a pointer that means nothing, then the data.
func (b *BMC) serveIPMItool(conn io.ReadWriter) {
	const goodbye = 0x3f
	var request [16]byte
	for {
		if _, err := io.ReadFull(conn, request[:]); err != nil {
			return
		}
		netfn, lun, number := request[0], request[1], request[2]
		data := make([]byte, binary.LittleEndian.Uint16(request[4:]))
		if _, err := io.ReadFull(conn, data); err != nil || netfn == goodbye {
			return
		}
		answer := b.Handle(netfn, lun, number, data)
		var response [24]byte
		response[0], response[1], response[3] = netfn|1, number, lun
		response[4] = answer[0]
		binary.LittleEndian.PutUint32(response[8:], uint32(len(answer)-1))
		if _, err := conn.Write(append(response[:], answer[1:]...)); err != nil {
			return
		}
	}
}
