// Package stalled mounts a file system whose disk can die: from one moment to the next
// it answers nothing any more, and who asks waits in the kernel (state D).
package stalled

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// device is where the kernel asks who serves a disk.
const device = "/dev/fuse"

// ErrUnavailable is wrapped by Mount's error where no such file system can be mounted.
var ErrUnavailable = errors.New("no file system can be mounted that stops to answer")

// Disk is a mounted file system. This process serves it, so a program on it is to be
// executed by another one (sh -c 'exec "$0"'): as long as an execution waits for the disk,
// the Go program that has asked for it can't collect garbage, or serve anything.
type Disk struct {
	server *fuse.Server

	lock    sync.Mutex
	up      chan struct{} // closed as long as it answers
	waiting int
	wanted  []int64 // the offsets that were to be read since it has died
}

// Mount shows what is in dir at mountpoint, read-only. Unmount it.
func Mount(dir, mountpoint string) (*Disk, error) {
	if file, err := os.OpenFile(device, os.O_RDWR, 0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	} else if err := file.Close(); err != nil {
		return nil, err
	}
	root, err := fs.NewLoopbackRoot(dir)
	if err != nil {
		return nil, err
	}
	d := &Disk{up: make(chan struct{})}
	close(d.up)
	served := served{RawFileSystem: fs.NewNodeFS(root, &fs.Options{}), disk: d}
	// A program that hangs on the disk and has the device, too, would be there for ever once this
	// process has died.
	syscall.ForkLock.RLock()
	d.server, err = fuse.NewServer(served, mountpoint, &fuse.MountOptions{
		MaxReadAhead: os.Getpagesize(), // in memory is what was used, and nothing that lies beside it
		FsName:       "stalled", DirectMountStrict: true, DirectMountFlags: unix.MS_RDONLY | unix.MS_NODEV,
	})
	inheritErr := keepDevice()
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if inheritErr != nil {
		return nil, errors.Join(inheritErr, d.server.Unmount())
	}
	go d.server.Serve()
	return d, d.server.WaitMount()
}

// keepDevice lets no program that this process executes have the device of its disks.
func keepDevice() error {
	const dir = "/proc/self/fd"
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		what, err := os.Readlink(filepath.Join(dir, file.Name()))
		if err != nil || what != device { // one is that of the directory itself
			continue
		}
		fd, err := strconv.Atoi(file.Name())
		if err != nil {
			return err
		}
		syscall.CloseOnExec(fd)
	}
	return nil
}

// Stall lets the disk die. What the kernel has in memory it still gives out.
func (d *Disk) Stall() {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.up = make(chan struct{})
	d.wanted = nil
}

// Resume brings it back; to call it again does nothing.
func (d *Disk) Resume() {
	d.lock.Lock()
	defer d.lock.Unlock()
	select {
	case <-d.up:
	default:
		close(d.up)
	}
}

// Unmount resumes and unmounts it. Nobody may use it any more.
func (d *Disk) Unmount() error {
	d.Resume()
	return d.server.Unmount()
}

// Waiting returns how many requests wait for an answer. Not even a kill ends them.
func (d *Disk) Waiting() int {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.waiting
}

// answers waits until it does.
func (d *Disk) answers() {
	d.lock.Lock()
	up := d.up
	d.waiting++
	d.lock.Unlock()
	<-up
	d.lock.Lock()
	defer d.lock.Unlock()
	d.waiting--
}

// served is all that is asked of a disk by who looks for a file and reads it.
type served struct {
	fuse.RawFileSystem
	disk *Disk
}

func (s served) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	s.disk.answers()
	return s.RawFileSystem.Lookup(cancel, header, name, out)
}

func (s served) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	s.disk.answers()
	return s.RawFileSystem.GetAttr(cancel, in, out)
}

func (s served) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	s.disk.answers()
	status := s.RawFileSystem.Open(cancel, in, out)
	out.OpenFlags &^= fuse.FOPEN_PASSTHROUGH // else the kernel reads without asking
	out.OpenFlags |= fuse.FOPEN_KEEP_CACHE   // else it forgets what it has read
	out.OpenFlags |= fuse.FOPEN_NOFLUSH      // else this process asks itself at its end
	return status
}

func (s served) Read(cancel <-chan struct{}, in *fuse.ReadIn, buffer []byte) (fuse.ReadResult, fuse.Status) {
	s.disk.note(int64(in.Offset))
	s.disk.answers()
	return s.RawFileSystem.Read(cancel, in, buffer)
}
