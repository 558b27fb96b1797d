package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// settled is when the start of a role is over and what it needed can go.
const settled = 15 * time.Second

// trimmed runs a role that lives on every node, and gives memory back once its
// start is over: the heap that it needed, and the pages of the program itself that
// it touched. One program holds all roles, so most of those are the initialisation
// of packages that this role never uses.
func trimmed(ctx context.Context, run func(context.Context) error) error {
	trimming, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-trimming.Done():
			return
		case <-time.After(settled):
		}
		debug.FreeOSMemory()
		if err := releaseProgram(); err != nil {
			klog.FromContext(ctx).V(1).Info("Pages of the program are kept in memory", "err", err.Error())
		}
	}()
	err := run(ctx)
	cancel()
	<-ended
	return err
}

// releaseProgram drops this program's read-only pages from memory. They are clean
// pages of a file: those that are used again come back from the page cache.
func releaseProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer func() { _ = maps.Close() }() // was only read
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var from, to uintptr
		var access string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &access); err != nil {
			return fmt.Errorf("/proc/self/maps: %q: %w", lines.Text(), err)
		}
		if !strings.HasSuffix(lines.Text(), " "+program) || strings.Contains(access, "w") {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("madvise: %w", errno)
		}
	}
	return lines.Err()
}
