package relay

import (
	"net"

	"golang.org/x/sys/unix"
)

// maxFiles is the room for the open files that come with some bytes; D-Bus permits sixteen.
const maxFiles = 4 << 10

// Pass reads once from a connection into buf, and hands on what came, with the open files
// that came with it, after it has called before. It returns what it has read.
func Pass(to, from *net.UnixConn, buf []byte, before func(read []byte)) (read []byte, err error) {
	files := make([]byte, maxFiles)
	n, filesN, _, _, err := from.ReadMsgUnix(buf, files)
	if err != nil {
		return nil, err
	}
	before(buf[:n])
	_, _, err = to.WriteMsgUnix(buf[:n], files[:filesN], nil)
	messages, _ := unix.ParseSocketControlMessage(files[:filesN])
	for _, message := range messages {
		sent, _ := unix.ParseUnixRights(&message)
		for _, fd := range sent {
			_ = unix.Close(fd)
		}
	}
	return buf[:n], err
}
