package node

import (
	"os"
	"sync"
	"syscall"
)

// pipe is a named pipe of which all is read that anybody writes, in order.
type pipe struct {
	file  *os.File
	read  chan struct{}
	close func() error

	mu      sync.Mutex
	written []byte
}

func openPipe(path string) (*pipe, error) {
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, &os.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	// Who reads and writes does not wait for a writer, and sees no end of them.
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	p := &pipe{file: file, read: make(chan struct{})}
	p.close = sync.OnceValue(func() error {
		err := file.Close()
		<-p.read
		return err
	})
	go p.readAll()
	return p, nil
}

func (p *pipe) readAll() {
	defer close(p.read)
	buffer := make([]byte, 64)
	for {
		count, err := p.file.Read(buffer)
		p.mu.Lock()
		p.written = append(p.written, buffer[:count]...)
		p.mu.Unlock()
		if err != nil {
			return // it was closed
		}
	}
}

func (p *pipe) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.written)
}
