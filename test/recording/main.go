// Command recording runs a program in a terminal of its own, and writes what it printed, and
// when, as an animated SVG: lines and their colours, nothing else. No browser needs more than
// CSS to play it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var f film
	file := flag.String("o", "", "the file to write")
	prompt := flag.String("prompt", "", "the command to show as typed (default: the command itself)")
	flag.StringVar(&f.title, "title", "", "what the picture shows, for those who can't see it (default: the command)")
	flag.IntVar(&f.columns, "columns", 80, "width of the terminal")
	flag.IntVar(&f.rows, "rows", 24, "height of the terminal")
	flag.DurationVar(&f.pause, "pause", 1500*time.Millisecond, "how long nothing happens at most: longer waits are cut to this")
	flag.DurationVar(&f.line, "line", 150*time.Millisecond, "how long a line takes at least: people read one after the other")
	flag.DurationVar(&f.hold, "hold", 6*time.Second, "how long the end is shown before it starts over")
	flag.Parse()
	if *file == "" || flag.NArg() == 0 {
		return errors.New("recording -o FILE.svg [-prompt COMMAND] -- COMMAND…; -h says more")
	}
	if *prompt == "" {
		*prompt = strings.Join(flag.Args(), " ")
	}
	if f.title == "" {
		f.title = *prompt
	}
	events, err := record(ctx, f.columns, f.rows, flag.Args())
	if err != nil {
		return err
	}
	picture, err := f.picture(*prompt, events)
	if err != nil {
		return err
	}
	return os.WriteFile(*file, picture, 0o644)
}

// record runs a command in a terminal, and returns what it wrote. What it writes is shown, too.
func record(ctx context.Context, columns, rows int, command []string) ([]event, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), "TERM=xterm")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)})
	if err != nil {
		return nil, fmt.Errorf("starting %s in a terminal: %w", command[0], err)
	}
	defer func() { _ = terminal.Close() }()
	var events []event
	started := time.Now()
	for buffer := make([]byte, 64<<10); ; {
		n, err := terminal.Read(buffer)
		if n > 0 {
			events = append(events, event{at: time.Since(started), text: string(buffer[:n])})
			_, _ = os.Stdout.Write(buffer[:n])
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, syscall.EIO): // Linux says EIO once nobody has the terminal open
			if err := cmd.Wait(); err != nil {
				return nil, fmt.Errorf("%s: %w", command[0], err)
			}
			return events, nil
		default:
			return nil, errors.Join(fmt.Errorf("reading the terminal: %w", err), cmd.Process.Kill(), cmd.Wait())
		}
	}
}
