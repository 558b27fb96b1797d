package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

const (
	// settled is when the start of a role is over and its garbage can go.
	settled = 15 * time.Second
	// collectInterval is how often garbage is given back. A role on a node makes
	// little, so the collector would let it lie for long.
	collectInterval = time.Minute
)

// lasting runs a role that has to outlive the node's disk. What it has used of the
// program stays in memory: a page that has to come from a disk that has died stops a
// thread for ever, and with it the whole program, which can't collect garbage any more.
// So does all code whose functions have names that begin with one of own.
// The role calls fetch once, when it has used what it will need: later the disk may have
// died already.
func lasting(ctx context.Context, own []string, run func(ctx context.Context, fetch func()) error) error {
	log := klog.FromContext(ctx)
	program := release(ctx, slices.Concat(whole(), own)...)
	fetch := func() {
		if err := program.fetch(); err != nil {
			log.Info("Parts of the program may have to be read from its disk", "err", err.Error())
			return
		}
		log.V(1).Info("The program needs its disk no more")
	}
	if err := lockMemory(); err != nil {
		log.Info("The program may stop if the disk that it is on dies, since its memory can't be locked", "err", err.Error())
		fetch = func() {}
	}
	return collected(ctx, func(ctx context.Context) error { return run(ctx, fetch) })
}

// lean runs a role in little memory.
func lean(ctx context.Context, run func(context.Context) error) error {
	release(ctx)
	return collected(ctx, run)
}

// whole is code of which a role that has to outlive the disk keeps all, besides its own: no rehearsal
// comes to all that it does when a connection breaks or the API server refuses a request. It is how
// the names of the functions begin.
func whole() []string {
	return []string{
		"crypto/tls.", "encoding/json.", "golang.org/x/net/http2", "k8s.io/apimachinery/pkg/api/errors.",
		"k8s.io/apimachinery/pkg/apis/meta/v1.(*Status)", "k8s.io/apimachinery/pkg/apis/meta/v1.(*WatchEvent)",
		"k8s.io/apimachinery/pkg/util/strategicpatch.", "k8s.io/apimachinery/pkg/util/wait.", "k8s.io/apimachinery/pkg/watch.",
		"k8s.io/apimachinery/third_party/forked/golang/json.", "k8s.io/client-go/rest.", "k8s.io/client-go/rest/watch.",
		"k8s.io/client-go/tools/cache.", "k8s.io/client-go/tools/pager.", "k8s.io/client-go/tools/record.", "k8s.io/client-go/transport.",
		"log/slog.", "net.", "net/http.(*Client).", "net/http.(*Transport).", "net/http.(*persistConn).", "net/url.",
		"runtime.", "runtime/debug.", "sigs.k8s.io/json/",
	}
}

// release drops the pages that only the start of the program has needed: it holds all
// roles, and most of what was touched are initialisations of packages that this role
// never uses. It returns where the program lies, with the functions whose names begin so.
func release(ctx context.Context, beginnings ...string) (l layout) {
	program, err := elf.Open("/proc/self/exe")
	if err == nil {
		defer func() { _ = program.Close() }() // was only read
		l = layoutOf(program)
		l.find(beginnings) // it reads much of what is released
		err = releaseProgram(program)
	}
	if err != nil {
		klog.FromContext(ctx).V(1).Info("Pages of the program are kept in memory", "err", err.Error())
		return layout{}
	}
	return l
}

// collected runs a role and gives its garbage back when the start is over, and every
// minute from then on.
func collected(ctx context.Context, run func(context.Context) error) error {
	collecting, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		collect(collecting)
	}()
	err := run(ctx)
	cancel()
	<-ended
	return err
}

func collect(ctx context.Context) {
	next := time.NewTimer(settled)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		debug.FreeOSMemory()
		next.Reset(collectInterval)
	}
}

// lockMemory keeps in memory what is there now or comes there later. It does not fetch
// the rest: the program is larger than what a role uses of it.
func lockMemory() error {
	if err := unlimited(); err != nil {
		return err
	}
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		return fmt.Errorf("mlockall: %w", err)
	}
	return nil
}

// unlimited returns nil if all memory may be locked. Beyond a limit a program that locks
// what it will get gets no more, which Go does not survive.
func unlimited() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err == nil && limit.Cur == unix.RLIM_INFINITY {
		return nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var rights [2]unix.CapUserData
	if err := unix.Capget(&header, &rights[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	if rights[0].Effective&(1<<unix.CAP_IPC_LOCK) == 0 {
		return errors.New("it has neither the capability IPC_LOCK nor an unlimited RLIMIT_MEMLOCK")
	}
	return nil
}

// releaseProgram drops this program's read-only pages from memory. They are clean
// pages of a file: those that are used again come back from the page cache.
func releaseProgram(program *elf.File) error {
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
