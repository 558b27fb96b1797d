package ipmisim

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
	"time"
)

// prompt is what the simulator's console ends every answer with.
const prompt = "> "

// answerTimeout is how long the simulator may take for anything.
const answerTimeout = 20 * time.Second

// console is a connection to the simulator's console.
type console struct {
	connection net.Conn
	input      *bufio.Reader
}

// newConsole takes over the connection, also if it fails.
func newConsole(connection net.Conn) (*console, error) {
	c := &console{connection: connection, input: bufio.NewReader(connection)}
	// A telnet negotiation and a prompt come first.
	if _, err := c.answer(); err != nil {
		_ = connection.Close()
		return nil, err
	}
	// Without an echo, answers are only what the command has to say.
	if _, err := connection.Write([]byte("noecho\n")); err != nil {
		_ = connection.Close()
		return nil, err
	}
	if _, err := c.answer(); err != nil {
		_ = connection.Close()
		return nil, err
	}
	return c, nil
}

// run runs a command of ipmi_sim_cmd(5).
func (c *console) run(command string) error {
	if _, err := c.connection.Write([]byte(command + "\n")); err != nil {
		return fmt.Errorf("telling the simulator %q: %w", command, err)
	}
	answer, err := c.answer()
	if err != nil {
		return fmt.Errorf("waiting for the simulator's answer to %q: %w", command, err)
	}
	if strings.HasPrefix(answer, "**") {
		return fmt.Errorf("the simulator refuses %q: %s", command, answer)
	}
	return nil
}

// answer reads up to the next prompt.
func (c *console) answer() (string, error) {
	if err := c.connection.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		return "", err
	}
	var answer []byte
	for !bytes.HasSuffix(answer, []byte(prompt)) {
		next, err := c.input.ReadByte()
		if err != nil {
			return "", fmt.Errorf("reading its console: %w", err)
		}
		answer = append(answer, next)
	}
	return strings.TrimSpace(strings.TrimSuffix(string(answer), prompt)), nil
}
