package stalled

import (
	"debug/elf"
	"debug/gosym"
	"fmt"
	"os"
	"slices"
)

func (d *Disk) note(offset int64) {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.wanted = append(d.wanted, offset)
}

// Wanted says which functions of a program, or other parts of it, were to be read from the disk
// since it has died: those that the program has executed and had not in memory.
func (d *Disk) Wanted(program string) (wanted []string, err error) {
	d.lock.Lock()
	offsets := slices.Clone(d.wanted)
	d.lock.Unlock()
	file, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // was only read
	text, lines := file.Section(".text"), file.Section(".gopclntab")
	if text == nil || lines == nil {
		return nil, fmt.Errorf("%s is no program of Go", program)
	}
	data, err := lines.Data()
	if err != nil {
		return nil, err
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		return nil, err
	}
	for _, offset := range offsets {
		for _, s := range file.Sections {
			if s.Type == elf.SHT_NOBITS || uint64(offset) < s.Offset&^(uint64(os.Getpagesize())-1) || uint64(offset) >= s.Offset+s.FileSize {
				continue
			}
			what := fmt.Sprintf("%s+%#x", s.Name, uint64(offset)-s.Offset)
			if s == text {
				from := s.Addr + uint64(offset) - s.Offset
				for pc := from; pc < from+uint64(os.Getpagesize()); pc += 16 {
					if f := table.PCToFunc(pc); f != nil && (f.Entry >= from || pc == from) {
						what += " " + f.Name
						pc = f.End - 16
					}
				}
			}
			wanted = append(wanted, what)
		}
	}
	return wanted, nil
}
