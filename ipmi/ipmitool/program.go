package ipmitool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/creack/pty"

	"github.com/nodemend/nodemend/internal/child"
)

const (
	// maxOutput is how much ipmitool may write for one command. An answer takes less than 1 KiB.
	maxOutput = 64 << 10
	// goodbye is how long ipmitool may take to end its session.
	goodbye = 2 * time.Second
)

// program is an ipmitool that executes one line after the other, "ipmitool exec".
type program struct {
	stdin io.WriteCloser
	// screen has what it writes, line by line. It is a terminal, since a pipe would get
	// whole blocks.
	screen   *os.File
	output   *bufio.Reader
	commands int // were sent
	cancel   context.CancelFunc
	ended    chan struct{} // closed when it has
	err      error         // why, after that
}

// start starts ipmitool, which outlives ctx.
func start(ctx context.Context, path string, args, env []string) (*program, error) {
	screen, terminal, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("opening a terminal for what it writes: %w", err)
	}
	defer func() { _ = terminal.Close() }() // is the program's
	stdin, input, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, screen.Close())
	}
	defer func() { _ = stdin.Close() }() // the same
	// In a session of its own, without a terminal that controls it, it can't ask for a password.
	c, err := child.Start(&exec.Cmd{
		Path: path, Args: slices.Concat([]string{path}, args, []string{"exec", "/dev/stdin"}), Env: env,
		Stdin: stdin, Stdout: terminal, Stderr: terminal,
	})
	if err != nil {
		return nil, errors.Join(err, screen.Close(), input.Close())
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &program{stdin: input, screen: screen, output: bufio.NewReader(screen), cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		defer cancel()
		p.err = c.Wait(life)
	}()
	return p, nil
}

// sendRecv sends a command. Without an answer, the program is of no further use.
func (p *program) sendRecv(ctx context.Context, netfn, cmd uint8, data []byte) ([]byte, error) {
	defer context.AfterFunc(ctx, p.kill)()
	p.commands++
	line := fmt.Sprintf("raw %#02x %#02x", netfn, cmd)
	for _, b := range data {
		line += fmt.Sprintf(" %#02x", b)
	}
	end := fmt.Sprintf("end of answer %d", p.commands)
	// If it has ended by itself, it has said why.
	_, _ = fmt.Fprintf(p.stdin, "%s\necho %s\n", line, end)
	lines, err := p.read(end)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil:
		return parse(lines)
	case errors.Is(err, errTooMuch):
		return nil, err
	}
	select {
	case <-p.ended:
		return nil, failure(p.err, lines)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// read reads the lines before the one that is the end.
func (p *program) read(end string) (lines []string, err error) {
	size := 0
	for {
		bytes, err := p.output.ReadSlice('\n')
		line := strings.TrimSpace(string(bytes))
		if line == end {
			return lines, nil
		}
		if size += len(bytes); size > maxOutput || errors.Is(err, bufio.ErrBufferFull) {
			return nil, errTooMuch
		}
		if line != "" {
			lines = append(lines, line)
		}
		if err != nil {
			return lines, err
		}
	}
}

// leave lets the program end its session and itself, and does not wait for that. If it takes
// too long it is killed.
func (p *program) leave() {
	_ = p.stdin.Close() // the end of its commands
	time.AfterFunc(goodbye, p.kill)
}

// kill kills the program, if it has not ended, and does not wait for that.
func (p *program) kill() {
	p.cancel()
	_ = p.stdin.Close()
	_ = p.screen.Close() // ends a reading
}

func (p *program) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}
