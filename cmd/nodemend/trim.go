package main

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

const (
	// settled is when the start of a role is over and what it needed can go.
	settled = 15 * time.Second
	// trimInterval is how often garbage is given back. A role on a node makes
	// little, so the collector would let it lie for long.
	trimInterval = time.Minute
)

// trimmed runs a role that lives on every node in little memory. When the start is
// over, and every minute from then on, it gives back the heap's garbage and the
// pages of the program itself: one program holds all roles, so most of those that
// were touched are the initialisation of packages that this role never uses.
func trimmed(ctx context.Context, run func(context.Context) error) error {
	trimming, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		trim(trimming)
	}()
	err := run(ctx)
	cancel()
	<-ended
	return err
}

func trim(ctx context.Context) {
	next := time.NewTimer(settled)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		debug.FreeOSMemory() // which looks at the program's data, so it comes first
		if err := releaseProgram(); err != nil {
			klog.FromContext(ctx).V(1).Info("Pages of the program are kept in memory", "err", err.Error())
		}
		next.Reset(trimInterval)
	}
}

// releaseProgram drops this program's read-only pages from memory. They are clean
// pages of a file: those that are used again come back from the page cache.
func releaseProgram() error {
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }() // was only read
	for _, s := range cleanSegments(program) {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, s.from, s.to-s.from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("madvise: %w", errno)
		}
	}
	return nil
}

// segment is a part of the address space.
type segment struct{ from, to uintptr }

// cleanSegments are where a program lies in memory just as in its file. There are
// none in one that is position independent: as it was loaded, addresses were
// written into pages that became read-only thereafter, and the file has them not.
func cleanSegments(program *elf.File) (clean []segment) {
	if program.Type != elf.ET_EXEC {
		return nil
	}
	page := uintptr(os.Getpagesize())
	for _, p := range program.Progs {
		// What is made read-only later (PT_GNU_RELRO) is in a writable one.
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_W == 0 {
			from := uintptr(p.Vaddr) &^ (page - 1)
			clean = append(clean, segment{from, uintptr(p.Vaddr + p.Memsz)})
		}
	}
	return clean
}
