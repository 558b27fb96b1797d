package ipmitool

import (
	"context"
	"fmt"

	"github.com/nodemend/nodemend/ipmi"
)

// seen is the state of the SEL when it was read, and up to where that was.
type seen struct {
	info selInfo
	next ipmi.Cursor
}

// Events returns the records after the cursor. It reads no record if the BMC says that none
// has come or gone since the last call; else it reads all of them, since ipmitool
// can't begin in the middle.
//
// A SEL from which anything was erased counts as restarted.
func (s *Source) Events(ctx context.Context, after ipmi.Cursor) (ipmi.EventLog, error) {
	if s.seen != nil && s.seen.next == after && !s.seen.info.wrapping() {
		info, err := s.selInfo(ctx)
		if err != nil {
			return ipmi.EventLog{}, err
		}
		if info == s.seen.info {
			return ipmi.EventLog{Next: after, Total: info.entries, Full: info.overflow}, nil
		}
	}
	var then *selInfo
	if s.seen != nil && s.seen.next == after {
		then = &s.seen.info
	}
	s.seen = nil
	sel, err := s.readSEL(ctx)
	if err != nil {
		return ipmi.EventLog{}, err
	}
	log := sel.since(after, then)
	if sel.unchanged {
		s.seen = &seen{sel.info, log.Next}
	}
	return log, nil
}

func (s *Source) selInfo(ctx context.Context) (selInfo, error) {
	const command = "sel info"
	out, err := s.run(ctx, false, command)
	if err != nil {
		return selInfo{}, err
	}
	info, err := parseSELInfo(out.sections[0])
	if err != nil {
		return selInfo{}, s.errorf([]string{command}, failure(err, out.stderr))
	}
	return info, nil
}

// readSEL reads the whole SEL: once with times and names, and once with the bytes of the
// events.
func (s *Source) readSEL(ctx context.Context) (sel, error) {
	commands := []string{"sel info", "sel elist", verbose, "sel list", "sel info"}
	out, err := s.run(ctx, false, commands...)
	if err != nil {
		return sel{}, err
	}
	if complaint := truncated(out.stderr); complaint != "" {
		return sel{}, s.errorf(commands, fmt.Errorf("%w: %s", ErrIncomplete, complaint))
	}
	read, err := parseSEL(out.sections[0], out.sections[1], out.sections[3], out.sections[4])
	if err != nil {
		return sel{}, s.errorf(commands, err)
	}
	return read, nil
}
