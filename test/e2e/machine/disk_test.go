//go:build e2e

package machine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// diskSize is that of the disk, in bytes.
const diskSize = 1 << 20

// disk is one that several machines see at once, as of a storage that fences nobody: each
// machine may write to it at any time. It knows whose it is, since the CSI driver says so, and
// takes down each write, in the order in which they came, with whose it was by then.
type disk struct {
	listener net.Listener
	driver   *http.Server
	serving  sync.WaitGroup

	mu     sync.Mutex
	data   []byte
	owner  string // the machine to which it is attached, "" if there is none
	owners []ownership
	writes []write
}

// ownership is a change of whose the disk is.
type ownership struct {
	at time.Time
	// from and to are machines, "" is none.
	from, to string
}

// write is one of a machine.
type write struct {
	at      time.Time
	machine string
	owner   string // of the disk, by then
	boot    string // which says that it has written this
	number  int    // which goes on from what was there
}

// wrong reports whether the disk was not the machine's.
func (w write) wrong() bool { return w.machine != w.owner }

func (w write) String() string {
	return fmt.Sprintf("%s: %s, boot %.8s, writes %d; it is attached to %q", w.at.UTC().Format("15:04:05.000"), w.machine, w.boot, w.number, w.owner)
}

// startDisk starts one that is attached to none, and the other end of the CSI driver at driver.Addr.
func startDisk() (*disk, error) {
	const loopback = "127.0.0.1:0"
	d := &disk{data: make([]byte, diskSize)}
	var err error
	if d.listener, err = net.Listen("tcp4", loopback); err != nil {
		return nil, err
	}
	driver, err := net.Listen("tcp4", loopback)
	if err != nil {
		_ = d.listener.Close() // nobody knows it yet
		return nil, err
	}
	d.driver = &http.Server{Addr: driver.Addr().String(), Handler: d, ReadHeaderTimeout: moment}
	d.serving.Go(func() { _ = d.driver.Serve(driver) }) // until stop
	d.serving.Go(d.serve)
	return d, nil
}

// stop ends it once the machines have ended.
func (d *disk) stop() {
	_ = d.driver.Close()   // who asks now gets no answer
	_ = d.listener.Close() // nobody comes any more
	d.serving.Wait()
}

// devices are QEMU's options for a machine that sees the disk. Its slot is behind that of the
// machine's own disk, which is to be the first.
func (d *disk) devices(machine string) []string {
	host, port, _ := net.SplitHostPort(d.listener.Addr().String())
	return []string{
		"-blockdev", fmt.Sprintf("driver=nbd,node-name=volume-blocks,server.type=inet,server.host=%s,server.port=%s,export=%s", host, port, machine),
		"-device", "virtio-blk-pci,drive=volume-blocks,serial=volume,addr=0x1e",
	}
}

// ServeHTTP is told by the CSI driver to whom the disk is attached, or that it is not any more.
func (d *disk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	node := r.URL.Query().Get("node")
	d.mu.Lock()
	defer d.mu.Unlock()
	now := ownership{at: time.Now(), from: d.owner}
	switch {
	case r.Method == http.MethodPost && d.owner != "" && d.owner != node:
		http.Error(w, "it is attached to "+d.owner, http.StatusConflict)
		return
	case r.Method == http.MethodPost:
		now.to = node
	case d.owner != node:
		return // it is not attached there
	}
	if now.from != now.to {
		d.owner, d.owners = now.to, append(d.owners, now)
	}
}

// changed returns when the disk was attached, or detached, last so; false: never.
func (d *disk) changed(from, to string) (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range slices.Backward(d.owners) {
		if o.from == from && o.to == to {
			return o.at, true
		}
	}
	return time.Time{}, false
}

// history returns all writes.
func (d *disk) history() []write {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.writes)
}

func (d *disk) read(offset uint64, size uint32) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.data[offset : offset+uint64(size)])
}

// note takes a write down.
func (d *disk) note(machine string, offset uint64, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(d.data[offset:], data)
	w := write{at: time.Now(), machine: machine, owner: d.owner, boot: "?", number: -1}
	if fields := strings.Fields(string(bytes.TrimRight(data, "\x00"))); offset == 0 && len(fields) == 2 {
		if number, err := strconv.Atoi(fields[1]); err == nil {
			w.boot, w.number = fields[0], number
		}
	}
	d.writes = append(d.writes, w)
}

// serve serves machines until the listener is closed, and they have gone.
func (d *disk) serve() {
	for {
		connection, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.serving.Go(func() {
			defer func() { _ = connection.Close() }() // all was answered
			if machine, err := d.greet(connection); err == nil {
				_ = d.answer(connection, machine) // the machine has ended
			}
		})
	}
}

// What follows is of https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md.
const (
	nbdMagic, nbdOption, nbdReply          = "NBDMAGIC", 0x49484156454F5054, 0x3e889045565a9
	nbdRequest, nbdSimpleReply             = 0x25609513, 0x67446698
	nbdFixedNewstyle, nbdNoZeroes          = 1, 2
	nbdHasFlags                            = 1
	nbdGo, nbdAck, nbdInfo, nbdUnsupported = 7, 1, 3, 1<<31 + 1
	nbdRead, nbdWrite, nbdDisconnect       = 0, 1, 2
	nbdInvalid                             = 22
)

// greet agrees with QEMU on what is served, and returns the name of the machine.
func (*disk) greet(c net.Conn) (machine string, err error) {
	if err := send(c, []byte(nbdMagic), uint64(nbdOption), uint16(nbdFixedNewstyle|nbdNoZeroes)); err != nil {
		return "", err
	}
	var flags uint32
	if err := binary.Read(c, binary.BigEndian, &flags); err != nil {
		return "", err
	}
	for {
		var option struct {
			Magic         uint64
			Number, Bytes uint32
		}
		if err := binary.Read(c, binary.BigEndian, &option); err != nil {
			return "", err
		}
		if option.Magic != nbdOption || option.Bytes > 4096 {
			return "", errors.New("it is not NBD")
		}
		data := make([]byte, option.Bytes)
		if _, err := io.ReadFull(c, data); err != nil {
			return "", err
		}
		if option.Number != nbdGo {
			if err := send(c, uint64(nbdReply), option.Number, uint32(nbdUnsupported), uint32(0)); err != nil {
				return "", err
			}
			continue
		}
		if len(data) < 4 || uint64(len(data)) < 4+uint64(binary.BigEndian.Uint32(data)) {
			return "", errors.New("it names nothing")
		}
		const export, exportBytes = 0, 12
		return string(data[4 : 4+binary.BigEndian.Uint32(data)]), send(c,
			uint64(nbdReply), option.Number, uint32(nbdInfo), uint32(exportBytes), uint16(export), uint64(diskSize), uint16(nbdHasFlags),
			uint64(nbdReply), option.Number, uint32(nbdAck), uint32(0))
	}
}

// answer reads and writes for a machine until it goes.
func (d *disk) answer(c net.Conn, machine string) error {
	for {
		var request struct {
			Magic          uint32
			Flags, Kind    uint16
			Handle, Offset uint64
			Bytes          uint32
		}
		if err := binary.Read(c, binary.BigEndian, &request); err != nil {
			return err
		}
		if request.Magic != nbdRequest || request.Kind == nbdDisconnect {
			return nil
		}
		if request.Offset > diskSize || uint64(request.Bytes) > diskSize-request.Offset {
			return errors.New("it asks for what is not on the disk")
		}
		data, failed := []byte{}, uint32(0)
		switch request.Kind {
		case nbdWrite:
			written := make([]byte, request.Bytes)
			if _, err := io.ReadFull(c, written); err != nil {
				return err
			}
			d.note(machine, request.Offset, written)
		case nbdRead:
			data = d.read(request.Offset, request.Bytes)
		default:
			failed = nbdInvalid
		}
		if err := send(c, uint32(nbdSimpleReply), failed, request.Handle, data); err != nil {
			return err
		}
	}
}

// send sends values one after the other, at once.
func send(c net.Conn, values ...any) error {
	var message bytes.Buffer
	for _, value := range values {
		if err := binary.Write(&message, binary.BigEndian, value); err != nil {
			return err
		}
	}
	_, err := c.Write(message.Bytes())
	return err
}
