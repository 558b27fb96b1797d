package main

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	// tables say of each function how its stack frames look: the Go runtime needs that
	// of all functions that are under way when it collects garbage, lets a stack grow or
	// interrupts one.
	tables = ".gopclntab"
	// stride is how far apart the functions are whose tables are read. Those between
	// have theirs on the same pages, or nearly.
	stride = 256
)

// layout is where what fetch needs of the program lies in memory. It is read from the
// program's file, so before the disk may die.
type layout struct{ code, constants []segment }

// layoutOf returns nothing for a program that is position independent.
func layoutOf(program *elf.File) (l layout) {
	if program.Type != elf.ET_EXEC {
		return l
	}
	for _, s := range program.Sections {
		lies := segment{uintptr(s.Addr), uintptr(s.Addr + s.Size)}
		switch {
		case s.Flags&elf.SHF_ALLOC == 0, s.Type == elf.SHT_NOBITS, s.Name == tables:
		case s.Flags&elf.SHF_EXECINSTR != 0:
			l.code = append(l.code, lies)
		default:
			l.constants = append(l.constants, lies)
		}
	}
	return l
}

// fetch brings into memory what the functions that are there may read: all constants and
// variables of the program, and their own tables. All of the tables is much more.
func (l layout) fetch() error {
	for _, s := range l.constants {
		if _, _, errno := unix.Syscall(unix.SYS_MLOCK, s.from, s.to-s.from, 0); errno != 0 {
			return fmt.Errorf("mlock: %w", errno)
		}
	}
	for _, s := range l.code {
		if err := readTables(s); err != nil {
			return err
		}
	}
	return nil
}

// readTables reads the tables of the functions of which a page is in memory.
func readTables(code segment) error {
	pages, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return err
	}
	defer func() { _ = pages.Close() }() // was only read
	const present, entry = 1 << 63, 8
	size := uintptr(os.Getpagesize())
	first := code.from / size
	entries := make([]byte, (code.to/size-first+1)*entry)
	if _, err := pages.ReadAt(entries, int64(first*entry)); err != nil {
		return err
	}
	for page := first; len(entries) > 0; page, entries = page+1, entries[entry:] {
		if binary.NativeEndian.Uint64(entries)&present == 0 {
			continue
		}
		for pc := page * size; pc < (page+1)*size; pc += stride {
			if f := runtime.FuncForPC(pc); f != nil {
				_, _ = f.FileLine(pc)
			}
		}
	}
	return nil
}
