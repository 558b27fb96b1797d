package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// pipeSize is how much a command can print while no runner reads, and unprivilegedPipeSize
// where the runner may not have as much: root may exceed fs.pipe-max-size, others may not. The
// kernel takes memory only for what is in the pipe, and counts it as the command's.
const (
	pipeSize             = 16 << 20
	unprivilegedPipeSize = 1 << 20
)

// pipe reads what a command prints into a named pipe. It has the pipe open for
// writing as well, so it never sees its end; neither does the command get SIGPIPE.
type pipe struct {
	file *os.File
	out  *output
	idle chan struct{} // closed when nobody reads any more
}

// makePipe makes a pipe for root alone. The error wraps fs.ErrExist if it is there.
func makePipe(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the runner's directory: %w", err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return fmt.Errorf("making the pipe %s for the command's output: %w", path, err)
	}
	return nil
}

// removePipe removes a pipe, if it is there.
func removePipe(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the command's pipe: %w", err)
	}
	return nil
}

// openPipe starts to read a pipe, and opens where the command writes to: the pipe, or
// nothing if nothing is to be kept.
func openPipe(path string, policy *v1alpha1.OutputPolicy) (out *pipe, write *os.File, err error) {
	printed := newOutput(policy, false)
	if out, err = readPipe(path, printed); err != nil {
		return nil, nil, err
	}
	if write, err = writer(path, !printed.none); err != nil {
		out.close()
		return nil, nil, err
	}
	return out, write, nil
}

// writer opens where the command writes to. It is an open file of its own, in
// blocking mode.
func writer(path string, keep bool) (*os.File, error) {
	if !keep {
		path = os.DevNull
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s for the command's output: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// readPipe reads a pipe until finish or close is called.
func readPipe(path string, out *output) (*pipe, error) {
	file, err := os.OpenFile(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the command's pipe: %w", err)
	}
	if raw, err := file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if _, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize); err != nil {
				_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, unprivilegedPipeSize) // the usual size does for nearly all
			}
		})
	}
	p := &pipe{file: file, out: out, idle: make(chan struct{})}
	go func() {
		defer close(p.idle)
		p.read()
	}()
	return p, nil
}

func (p *pipe) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := p.file.Read(buf)
		_, _ = p.out.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

// close stops reading and leaves the rest in the pipe.
func (p *pipe) close() {
	if p == nil {
		return
	}
	_ = p.file.SetReadDeadline(time.Unix(1, 0))
	<-p.idle
	_ = p.file.Close()
}

// finish reads what is in the pipe and returns what is kept of all. It does not wait
// for the end: a process that nobody could kill may hold it open, and even write. whole
// says that no process was ended in the middle of what it printed.
func (p *pipe) finish(whole bool) (text string, truncated bool) {
	if p == nil {
		return "", false
	}
	_ = p.file.SetReadDeadline(time.Unix(1, 0))
	<-p.idle
	_ = p.file.SetReadDeadline(time.Time{})
	if raw, err := p.file.SyscallConn(); err == nil {
		_ = raw.Read(func(fd uintptr) bool {
			buf := make([]byte, 32<<10)
			for range 2 * pipeSize / len(buf) {
				n, err := unix.Read(int(fd), buf)
				if n <= 0 || err != nil {
					break
				}
				_, _ = p.out.Write(buf[:n])
			}
			return true
		})
	}
	return p.out.text(whole)
}
