package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"sort"
	"unsafe"
)

const (
	// tablesSection says of each function how its stack frames look: the Go runtime needs that of all
	// functions that are under way when it collects garbage, lets a stack grow or interrupts one.
	tablesSection = ".gopclntab"
	// tablesMagic is what these tables begin with since Go 1.20.
	tablesMagic = 0xfffffff1
)

// tables are the Go runtime's of a program's functions, as they lie in memory (runtime/symtab.go and
// runtime/runtime2.go, cmd/link/internal/ld/pcln.go): a header, the names of functions, of their
// files, what is so at which instructions, an index of the functions, for each a record, and from Go
// 1.26 on what lies where on its stack.
type tables struct {
	data []byte
	// text is where the first function lies.
	text  uintptr
	count int
	// Where in data the parts begin.
	names, files, instructions, functions, stacks int
}

const (
	wordSize       = 8  // of the header; other machines are not read
	indexEntrySize = 8  // where the function begins, where its record does
	recordSize     = 44 // and as many numbers as the record says
	inlinedSize    = 16 // of the record of a call that was inlined
	// stacksAlign is how what lies where on the stacks is aligned (Maxalign of the linker's amd64 and arm64).
	stacksAlign = 32
	// inlinedCalls is the place of what says which call was inlined: among the tables of a
	// function's instructions (PCDATA_InlTreeIndex), and among what lies where on its stack (FUNCDATA_InlTree).
	inlinedCalls, inlinedCallees = 2, 3
)

// readTables reads the header. Its error says that this program's are others than those known here.
func readTables(section, code segment) (*tables, error) {
	start := section.from
	t := &tables{
		// Not through uintptr: what lies in a program's file does not move.
		data: unsafe.Slice(*(**byte)(unsafe.Pointer(&start)), section.to-section.from),
		text: code.from,
	}
	if len(t.data) < 9*wordSize || binary.LittleEndian.Uint32(t.data) != tablesMagic || t.data[7] != wordSize {
		return nil, errors.New("the tables of its functions are of a form that is not known")
	}
	word := func(i int) int { return int(binary.LittleEndian.Uint64(t.data[wordSize*i:])) } //nolint:gosec // offsets of a file
	t.count, t.names, t.files, t.instructions, t.functions = word(1), word(4), word(5), word(7), word(8)
	inOrder := t.count > 0 && t.names > 0 && t.files > t.names && t.instructions > t.files && t.functions > t.instructions
	if !inOrder || t.functions+t.count*indexEntrySize > len(t.data) {
		return nil, errors.New("the tables of its functions are not where they are expected")
	}
	// One of which the runtime says where it begins.
	known := reflect.ValueOf(readTables).Pointer()
	if at := t.search(known); at == t.count || t.text+uintptr(t.number(t.entry(at))) != known {
		return nil, errors.New("the index of its functions is not as expected")
	}
	last := t.record(t.count - 1)
	t.stacks = (last + t.sizeOf(last) + stacksAlign - 1) &^ (stacksAlign - 1)
	return t, nil
}

func (t *tables) number(at int) uint32 { return binary.LittleEndian.Uint32(t.data[at:]) }

// entry is where a function's entry of the index is, and record its record.
func (t *tables) entry(i int) int  { return t.functions + i*indexEntrySize }
func (t *tables) record(i int) int { return t.functions + int(t.number(t.entry(i)+4)) }

func (t *tables) sizeOf(record int) int {
	return recordSize + 4*int(t.number(record+28)) + 4*int(t.data[record+recordSize-1])
}

// search returns the first function that does not begin before an address; count, if all do.
func (t *tables) search(address uintptr) int {
	return sort.Search(t.count, func(i int) bool { return t.text+uintptr(t.number(t.entry(i))) >= address })
}

// of returns where the functions lie whose names begin in one of these ways.
func (t *tables) of(beginnings []string) (there []segment) {
	for i := range t.count {
		name := t.data[t.names+int(t.number(t.record(i)+4)) : t.files]
		if !slices.ContainsFunc(beginnings, func(b string) bool { return bytes.HasPrefix(name, []byte(b)) }) {
			continue
		}
		from, to := t.text+uintptr(t.number(t.entry(i))), t.text+uintptr(t.number(t.entry(i+1))) // the last entry is the end
		if last := len(there) - 1; last >= 0 && there[last].to == from {
			there[last].to = to
		} else {
			there = append(there, segment{from, to})
		}
	}
	return there
}

// shared locks what all functions may need: the names of files, and what lies where on the stack.
func (t *tables) shared() error {
	return errors.Join(t.lock(t.files, t.instructions), t.lock(t.stacks, len(t.data)))
}

func (t *tables) lock(from, to int) error {
	if from >= to {
		return nil // Go before 1.26 has it among the constants
	}
	start := uintptr(unsafe.Pointer(&t.data[from]))
	return lock(segment{start, start + uintptr(to-from)})
}

// read reads the tables of all functions of which a part lies there.
func (t *tables) read(code segment) {
	first := t.search(code.from + 1)
	for i := max(0, first-1); i < t.count && t.text+uintptr(t.number(t.entry(i))) < code.to; i++ {
		t.readFunction(t.record(i))
	}
}

func (t *tables) readFunction(record int) {
	t.readName(t.number(record + 4))
	for _, field := range []int{16, 20, 24} { // the size of the stack, the file, the line
		t.readInstructions(t.number(record+field), func(int32) {})
	}
	for i := range int(t.number(record + 28)) {
		t.readInstructions(t.number(record+recordSize+4*i), func(int32) {})
	}
	t.inlined(record, t.readName)
}

// readName reads a name: whose page is read is in memory.
func (t *tables) readName(name uint32) { _ = bytes.IndexByte(t.data[t.names+int(name):], 0) }

// inlined tells the names of the functions that one has inlined.
func (t *tables) inlined(record int, name func(uint32)) {
	n, stacks := int(t.number(record+28)), int(t.data[record+recordSize-1])
	if n <= inlinedCalls || stacks <= inlinedCallees {
		return
	}
	callees := t.stacks + int(t.number(record+recordSize+4*n+4*inlinedCallees))
	t.readInstructions(t.number(record+recordSize+4*inlinedCalls), func(call int32) {
		if at := callees + int(call)*inlinedSize; call >= 0 && at+inlinedSize <= len(t.data) {
			if of := t.number(at + 4); t.names+int(of) < t.files {
				name(of)
			}
		}
	})
}

// readInstructions reads a table of what is so from which instruction on.
func (t *tables) readInstructions(table uint32, is func(int32)) {
	if table == 0 {
		return // there is none
	}
	data, value := t.data[t.instructions+int(table):], int32(-1)
	for first := true; ; first = false {
		change, n := binary.Uvarint(data)
		if n <= 0 || change == 0 && !first {
			return
		}
		half := int32(change >> 1) //nolint:gosec // it has 32 bits
		if change&1 == 1 {
			half = ^half
		}
		value += half
		is(value)
		_, more := binary.Uvarint(data[n:])
		data = data[n+max(0, more):]
	}
}
