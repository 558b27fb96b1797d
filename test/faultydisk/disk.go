// Package faultydisk plays disks that fail as real ones do: a block device of the kernel
// (a loop device) whose blocks this process serves, by FUSE. It needs root.
package faultydisk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// ErrUnavailable is wrapped by New's error where there can be no such disk.
var ErrUnavailable = errors.New("no disk can be played")

// Disk is a disk. It dies with this process, and all that waits for it gets an error then.
type Disk struct {
	// Device is its file in /dev.
	Device string

	server *fuse.Server
	blocks []byte

	lock sync.Mutex
	// up is closed as long as the disk answers.
	up chan struct{}
	// broken is whether it answers with errors.
	broken bool
}

// New makes a disk of this size. It mounts something at dir, which must exist. Close it.
func New(ctx context.Context, dir string, size int) (*Disk, error) {
	for _, device := range []string{"/dev/fuse", "/dev/loop-control"} {
		file, err := os.OpenFile(device, os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		_ = file.Close() // nothing was done to it
	}
	for _, program := range []string{"losetup", "mkfs.ext4"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%w: install mount and e2fsprogs: %w", ErrUnavailable, err)
		}
	}
	d := &Disk{blocks: make([]byte, size), up: make(chan struct{})}
	close(d.up)
	root := &fs.Inode{}
	server, err := fs.Mount(dir, root, &fs.Options{
		MountOptions: fuse.MountOptions{FsName: "faultydisk", DirectMountStrict: true, MaxWrite: 1 << 20},
		OnAdd: func(ctx context.Context) {
			root.AddChild("blocks", root.NewPersistentInode(ctx, &blocks{disk: d}, fs.StableAttr{Mode: syscall.S_IFREG}), false)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	d.server = server
	device, err := exec.CommandContext(ctx, "losetup", "--find", "--show", filepath.Join(dir, "blocks")).CombinedOutput()
	d.Device = strings.TrimSpace(string(device))
	if err != nil {
		_ = server.Unmount() // the first error is the one to tell
		return nil, fmt.Errorf("%w: losetup: %w: %s", ErrUnavailable, err, device)
	}
	return d, nil
}

// Hang lets the disk answer nothing any more: who asks waits in the kernel (state D).
func (d *Disk) Hang() {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.up = make(chan struct{})
}

// Break lets the disk answer everything with an error.
func (d *Disk) Break() {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.broken = true
}

// Mend makes it work again.
func (d *Disk) Mend() {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.broken = false
	select {
	case <-d.up:
	default:
		close(d.up)
	}
}

// Close mends it and takes it away. Nothing may be mounted of it any more.
func (d *Disk) Close(ctx context.Context) error {
	d.Mend()
	out, err := exec.CommandContext(ctx, "losetup", "--detach", d.Device).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("losetup: %w: %s", err, out)
	}
	return errors.Join(err, d.server.Unmount())
}

// answers waits until the disk answers.
func (d *Disk) answers() syscall.Errno {
	d.lock.Lock()
	up := d.up
	d.lock.Unlock()
	<-up
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.broken {
		return syscall.EIO
	}
	return fs.OK
}

// blocks is the file that has the disk's blocks.
type blocks struct {
	fs.Inode
	disk *Disk
}

var (
	_ fs.NodeGetattrer = (*blocks)(nil)
	_ fs.NodeOpener    = (*blocks)(nil)
	_ fs.NodeReader    = (*blocks)(nil)
	_ fs.NodeWriter    = (*blocks)(nil)
	_ fs.NodeFsyncer   = (*blocks)(nil)
)

func (b *blocks) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = 0o600, uint64(len(b.disk.blocks))
	return fs.OK
}

func (*blocks) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, fs.OK // else the kernel reads without asking
}

func (b *blocks) Read(_ context.Context, _ fs.FileHandle, to []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	if errno := b.disk.answers(); errno != fs.OK {
		return nil, errno
	}
	return fuse.ReadResultData(to[:copy(to, b.disk.blocks[at:])]), fs.OK
}

func (b *blocks) Write(_ context.Context, _ fs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	if errno := b.disk.answers(); errno != fs.OK {
		return 0, errno
	}
	return uint32(copy(b.disk.blocks[at:], data)), fs.OK
}

func (b *blocks) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return b.disk.answers() }
