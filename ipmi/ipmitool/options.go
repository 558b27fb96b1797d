package ipmitool

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
)

const (
	defaultPath        = "ipmitool"
	defaultCipherSuite = 3
	defaultTimeout     = 30 * time.Second
	// The longest that the protocol allows (IPMI 2.0, sections 13.28 and 22.30).
	maxUser     = 16
	maxPassword = 20
)

// Options say how ipmitool is run and how it reaches the BMC. The zero value is the
// BMC of this machine.
type Options struct {
	// Path of the program, or its name in PATH; empty: ipmitool.
	Path string
	// Timeout of each command; zero: 30 seconds. ipmitool itself gives up a BMC of
	// the network after 20, and that of this machine after 15.
	Timeout time.Duration

	// Host is the address of a BMC's LAN interface, which is used with IPMI 2.0
	// (lanplus); empty: in-band, through /dev/ipmi0.
	Host string
	// Port is a UDP port; zero: 623.
	Port int
	// User is on the command line, which everybody on the machine can read:
	// ipmitool has no other way to be told.
	User string
	// PasswordFile holds the user's password in its first line.
	PasswordFile string
	// KeyFile holds the key of the BMC, K_g, if it has one. ipmitool gets it in its
	// environment.
	KeyFile string
	// CipherSuite by its ID (IPMI 2.0, table 22-20); zero: 3, which most BMCs know.
	CipherSuite int
}

// validate reports what ipmitool would only complain about at each run, or ask the
// terminal for.
func (o Options) validate() error {
	if o.Timeout < 0 {
		return fmt.Errorf("the timeout of ipmitool is %s: must be positive, or 0 for %s", o.Timeout, defaultTimeout)
	}
	if o.Host == "" {
		if o.Port != 0 || o.User != "" || o.PasswordFile != "" || o.KeyFile != "" || o.CipherSuite != 0 {
			return errors.New("ipmitool is told how to log in to a BMC, but not to which one: set its host, or nothing to use the BMC of this machine")
		}
		return nil
	}
	switch {
	case strings.HasPrefix(o.Host, "-"):
		return fmt.Errorf("the BMC's host %q is neither a name nor an address", o.Host)
	case o.Port < 0 || o.Port > 65535:
		return fmt.Errorf("the BMC's port is %d: must be a UDP port, or 0 for 623", o.Port)
	case len(o.User) > maxUser:
		return fmt.Errorf("the BMC's user %q is longer than IPMI allows, %d bytes", o.User, maxUser)
	case o.CipherSuite < 0 || o.CipherSuite > 255:
		return fmt.Errorf("the cipher suite is %d: must be an ID from 1 to 255, or 0 for %d", o.CipherSuite, defaultCipherSuite)
	case o.PasswordFile == "":
		return fmt.Errorf("no password file is given for the BMC at %s", o.Host)
	}
	return nil
}

// program returns the path of ipmitool.
func (o Options) program() (string, error) {
	name := o.Path
	if name == "" {
		name = defaultPath
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w; install the package ipmitool, or set its path", ErrNoProgram, err)
	}
	return path, nil
}

// connection returns the arguments and the environment by which ipmitool reaches a
// target. Secrets are not in the arguments. The files are looked at each time, since they may
// have been replaced.
func (o Options) connection(to device.Target) (args, env []string, err error) {
	// In no other language, and with no settings of a terminal.
	env = []string{"LC_ALL=C", "TERM=dumb", "PATH=" + os.Getenv("PATH")}
	if o.Host == "" {
		return append([]string{"-I", "open"}, address(to)...), env, nil
	}
	password, err := firstLine(o.PasswordFile)
	if err != nil {
		return nil, nil, fmt.Errorf("the BMC's password: %w", err)
	}
	if len(password) > maxPassword {
		return nil, nil, fmt.Errorf("the BMC's password in %s is longer than IPMI allows, %d bytes", o.PasswordFile, maxPassword)
	}
	port, suite := o.Port, o.CipherSuite
	if port == 0 {
		port = 623
	}
	if suite == 0 {
		suite = defaultCipherSuite
	}
	args = []string{
		"-I", "lanplus", "-C", strconv.Itoa(suite), "-H", o.Host, "-p", strconv.Itoa(port),
		"-U", o.User, "-f", o.PasswordFile,
	}
	if o.KeyFile != "" {
		key, err := firstLine(o.KeyFile)
		if err != nil {
			return nil, nil, fmt.Errorf("the BMC's key: %w", err)
		}
		args, env = append(args, "-K"), append(env, "IPMI_KGKEY="+key)
	}
	return append(args, address(to)...), env, nil
}

// address returns the arguments for a target that is not where the BMC itself is.
func address(to device.Target) (args []string) {
	if to.Owner != ipmi.BMCAddress {
		args = append(args, "-t", fmt.Sprintf("%#02x", to.Owner))
		if to.Channel != 0 {
			args = append(args, "-b", strconv.Itoa(int(to.Channel)))
		}
	}
	if to.LUN != 0 {
		args = append(args, "-l", strconv.Itoa(int(to.LUN)))
	}
	return args
}

// name names the source.
func (o Options) name() string {
	if o.Host == "" {
		return "ipmitool"
	}
	if o.Port == 0 {
		return "ipmitool at " + o.Host
	}
	return "ipmitool at " + net.JoinHostPort(o.Host, strconv.Itoa(o.Port))
}

// firstLine returns the first line of a file.
func firstLine(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(content), "\n")
	if line == "" {
		return "", fmt.Errorf("the first line of %s is empty", path)
	}
	return line, nil
}
