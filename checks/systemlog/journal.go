package systemlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	logtypes "k8s.io/node-problem-detector/pkg/systemlogmonitor/types"
	"k8s.io/utils/clock"
)

// killDelay is how long after journalctl has been killed its output is waited for.
const killDelay = 500 * time.Millisecond

// journal reads entries of the systemd journal through journalctl.
type journal struct {
	command   string // journalctl, or its path
	directory string // where the journal is; empty: where journalctl looks
	source    string // the SYSLOG_IDENTIFIER of the entries that are read
	clock     clock.Clock
}

func (j journal) read(ctx context.Context, from time.Time, out chan<- entry) error {
	if j.directory != "" {
		if _, err := os.Stat(j.directory); err != nil {
			return fmt.Errorf("looking for the journal: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := make(chan *logtypes.Log, 100)
	stderr := &beginning{}
	cmd := exec.CommandContext(ctx, j.command, j.arguments(from)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killDelay
	cmd.Stdout = &lineWriter{emit: j.emit(ctx, from, lines)}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting journalctl: %w; the plugin %s needs systemd's journalctl beside the detector", err, pluginJournald)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()                                      // ProcessState tells the same
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it has left behind, if anything
	}()
	err := stream(ctx, j.clock, lines, ended, out)
	cancel()
	<-ended
	if errors.Is(err, errStreamEnded) {
		return fmt.Errorf("%s has ended (%s) after it said %q", j.command, cmd.ProcessState, stderr.text())
	}
	return err
}

func (j journal) arguments(from time.Time) []string {
	if now := j.clock.Now(); from.After(now) { // its entries are passed over until then
		from = now
	}
	arguments := []string{
		"--follow", "--no-tail", "--output=json", "--output-fields=MESSAGE", "--all", "--no-pager", "--quiet",
		"--since=@" + strconv.FormatFloat(float64(from.UnixMicro())/1e6, 'f', 6, 64),
	}
	if j.directory != "" {
		arguments = append(arguments, "--directory="+j.directory)
	}
	return append(arguments, "SYSLOG_IDENTIFIER="+j.source)
}

func (j journal) emit(ctx context.Context, from time.Time, lines chan<- *logtypes.Log) func([]byte) error {
	return func(line []byte) error {
		log, err := parseJournalEntry(line)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Entry of the journal is passed over", "bytes", len(line))
			return nil
		}
		if log.Message == "" || log.Timestamp.Before(from) {
			return nil
		}
		select {
		case lines <- log:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// beginning keeps the first kilobyte of what is written to it.
type beginning struct {
	mu   sync.Mutex
	kept []byte
}

func (b *beginning) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = append(b.kept, p[:min(len(p), 1<<10-len(b.kept))]...)
	return len(p), nil
}

func (b *beginning) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(string(b.kept))
}
