package systemdtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nodemend/nodemend/test/process"
	"github.com/nodemend/nodemend/test/relay"
	"github.com/nodemend/nodemend/test/systemd"
)

// relayEnv makes a test binary the relay to the socket of this path.
const relayEnv = "NODEMEND_TEST_SYSTEMD_RELAY"

// listening is what the relay says when it listens.
const listening = "\n"

// Private returns the path of a socket that is that of the systemd itself
// (internal/systemd.DefaultPrivate), to be used from outside: one socket for each systemd,
// until that is stopped. systemd answers there only who is in its PID namespace, so this
// test binary is started in there once more, to hand on what is said. Its TestMain has to
// call Run.
func Private(t testing.TB, host *systemd.Host) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.running {
		t.Fatal("systemdtest.Private needs a TestMain that calls systemdtest.Run")
	}
	socket := filepath.Join(host.RunDir(), "systemd", "private")
	front := socket + ".outside"
	if _, err := os.Lstat(front); err == nil {
		return front
	}
	if err := startRelay(context.WithoutCancel(t.Context()), host.PID(), socket); err != nil {
		t.Fatal("starting the relay to systemd's socket: ", err)
	}
	return front
}

// startRelay returns when the relay listens. It ends with the PID namespace.
func startRelay(ctx context.Context, pid int, socket string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	listens, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = listens.Close() }()
	cmd := exec.CommandContext(ctx, "nsenter", "--target="+strconv.Itoa(pid), "--pid", "--", program)
	cmd.Env = append(os.Environ(), relayEnv+"="+socket)
	cmd.Stdout, cmd.Stderr = write, write
	if _, err := process.Start(cmd, write); err != nil {
		return err
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(listens, first); err == nil && string(first) == listening {
		return nil
	}
	said, err := io.ReadAll(listens)
	return errors.Join(fmt.Errorf("it has ended: %s%s", first, said), err)
}

// runRelay is the relay.
func runRelay(socket string) error {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket + ".outside", Net: "unix"})
	if err != nil {
		return err
	}
	//nolint:forbidigo // this is a main
	relay.Start(context.Background(), listener, relay.ToSocket(socket))
	if _, err := os.Stdout.WriteString(listening); err != nil {
		return err
	}
	select {} // until the namespace ends
}
