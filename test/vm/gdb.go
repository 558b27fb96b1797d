package vm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// poke writes to the memory of the machine, which stands still, at an address of its kernel.
func (m *Machine) poke(ctx context.Context, address uint64, data []byte) error {
	socket := m.path("gdb")
	if said, err := m.tellMonitor(ctx, "gdbserver unix:"+escaped(socket)+",server=on,wait=off"); err != nil {
		return err
	} else if strings.Contains(said, "Could not open") {
		return errors.New("QEMU: " + said)
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }() // all was answered
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	if err := debug(connection, fmt.Sprintf("M%x,%x:%x", address, len(data), data)); err != nil {
		return errors.Join(err, ctx.Err())
	}
	_, err = m.tellMonitor(ctx, "gdbserver none")
	return err
}

// debug gives QEMU a command of GDB's remote serial protocol (an appendix of GDB's manual), whose answer is OK.
func debug(connection io.ReadWriter, command string) error {
	var sum byte
	for i := range len(command) {
		sum += command[i]
	}
	if _, err := fmt.Fprintf(connection, "$%s#%02x", command, sum); err != nil {
		return fmt.Errorf("telling QEMU's debugger %s: %w", command, err)
	}
	answer, err := bufio.NewReader(connection).ReadString('#')
	if err != nil {
		return fmt.Errorf("waiting for QEMU's debugger to answer %s: %w", command, err)
	}
	if answer != "+$OK#" {
		return fmt.Errorf("QEMU's debugger answers %s by %q", command, answer)
	}
	return nil
}
