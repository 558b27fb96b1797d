package main

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// layout is where what has to be fetched of the program lies in memory. It is read from the
// program's file, so before the disk may die.
type layout struct {
	constants []segment
	// code and tables are empty for a program that is position independent.
	code, tables segment
	// whole is code that is fetched whether it was executed or not.
	whole []segment
}

func layoutOf(program *elf.File) (l layout) {
	if program.Type != elf.ET_EXEC {
		return l
	}
	for _, s := range program.Sections {
		lies := segment{uintptr(s.Addr), uintptr(s.Addr + s.Size)}
		switch {
		case s.Flags&elf.SHF_ALLOC == 0, s.Type == elf.SHT_NOBITS:
		case s.Name == tablesSection:
			l.tables = lies
		case s.Name == ".text":
			l.code = lies
		default:
			l.constants = append(l.constants, lies)
		}
	}
	return l
}

// find looks for functions to fetch whose names begin so.
func (l *layout) find(beginnings []string) {
	if l.code == (segment{}) || len(beginnings) == 0 {
		return
	}
	if t, err := readTables(l.tables, l.code); err == nil { // else as of a newer Go
		l.whole = t.of(beginnings)
	}
}

// fetch brings into memory what the functions that are there may read: all constants and
// variables of the program, and their own tables. All of the tables is much more.
func (l layout) fetch() error {
	if l.code == (segment{}) {
		return nil
	}
	for _, s := range l.constants {
		if err := lock(s); err != nil {
			return err
		}
	}
	t, err := readTables(l.tables, l.code)
	if err != nil { // as of a newer Go
		return lock(l.tables)
	}
	if err := t.shared(); err != nil {
		return err
	}
	for _, s := range l.whole {
		if err := lock(s); err != nil {
			return err
		}
	}
	there, err := present(l.code)
	if err != nil {
		return err
	}
	size := uintptr(os.Getpagesize())
	for i, is := range there {
		if from := (l.code.from/size + uintptr(i)) * size; is {
			t.read(segment{from, from + size})
		}
	}
	return nil
}

// lock brings a part of the program into memory and keeps it there.
func lock(s segment) error {
	if _, _, errno := unix.Syscall(unix.SYS_MLOCK, s.from, s.to-s.from, 0); errno != 0 {
		return fmt.Errorf("mlock: %w", errno)
	}
	return nil
}

// present reads of each page of a part of the program whether it is in memory (proc_pid_pagemap(5)).
func present(s segment) ([]bool, error) {
	pages, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, err
	}
	defer func() { _ = pages.Close() }() // was only read
	const is, entry = 1 << 63, 8
	size := uintptr(os.Getpagesize())
	first, end := s.from/size, (s.to+size-1)/size
	entries := make([]byte, (end-first)*entry)
	if _, err := pages.ReadAt(entries, int64(first*entry)); err != nil {
		return nil, err
	}
	there := make([]bool, end-first)
	for i := range there {
		there[i] = binary.NativeEndian.Uint64(entries[i*entry:])&is != 0
	}
	return there, nil
}
