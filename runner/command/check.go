package command

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/nodemend/nodemend/runner/remedy"
)

// check refuses what can't be handed to a program.
func check(order remedy.Order) error {
	if order.Step.Command == nil || len(argv(order)) == 0 {
		return fmt.Errorf("the step has no command: give it command.argv or command.script")
	}
	// MAX_ARG_STRLEN of execve(2), with the NUL byte at the end.
	longest := 32*os.Getpagesize() - 1
	return each(order, func(what, text, hint string) error {
		switch {
		case strings.ContainsRune(text, 0):
			return fmt.Errorf("%s contains a NUL byte, which no program can receive%s", what, hint)
		case len(text) > longest:
			return fmt.Errorf("%s has %d bytes, and no program can receive more than %d%s", what, len(text), longest, hint)
		}
		return nil
	})
}

// checkText refuses what can't be handed to systemd, which takes text alone, without the
// code points that Unicode reserves as noncharacters.
func checkText(order remedy.Order) error {
	return each(order, func(what, text, hint string) error {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%s is not valid UTF-8, which systemd does not accept%s", what, hint)
		}
		for _, c := range text {
			if c >= 0xFDD0 && c <= 0xFDEF || c&0xFFFE == 0xFFFE {
				return fmt.Errorf("%s contains the character %U, which systemd does not accept%s", what, c, hint)
			}
		}
		return nil
	})
}

// each looks at all that a program is handed. The hint says what to do about it.
func each(order remedy.Order, look func(what, text, hint string) error) error {
	for i, arg := range argv(order) {
		if err := look(fmt.Sprintf("entry %d of the command", i+1), arg, ": correct the step's command"); err != nil {
			return err
		}
	}
	for _, entry := range order.Env {
		name, _, _ := strings.Cut(entry, "=")
		if err := look(fmt.Sprintf("the environment variable %q", name), entry, ""); err != nil {
			return err
		}
	}
	return nil
}
