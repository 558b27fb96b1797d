package hostunits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	"github.com/go-logr/logr"
)

const (
	// A unit that was just started is looked at so often: a program that does not
	// like its flags ends at once.
	settleInterval = time.Second
	settleLooks    = 4
)

// installer makes the host what the options say.
type installer struct {
	role    Role
	systemd Systemd
	program *program
	// credentials is where the pod's are.
	credentials string
	// unit and kubeconfig are the files' content.
	unit, kubeconfig []byte
	// host are the files as the host sees them, here as they are seen from here.
	host, here layout
	// root is where the host's root directory is seen from here.
	root hostRoot
}

// record is kept on the host.
type record struct {
	// Program is where on the host the program is.
	Program string `json:"program"`
	// Started says that the unit was last started with the program, the unit file and the
	// kubeconfig that are there.
	Started bool `json:"started,omitempty"`
	// Settled says that it was then seen to stay running.
	Settled bool `json:"settled,omitempty"`
}

func newInstaller(o Options) (*installer, error) {
	i := &installer{
		role: o.Role, systemd: o.Systemd, program: &program{source: o.Executable}, credentials: o.Credentials, host: o.layout(), root: hostRoot(o.HostRoot),
	}
	var err error
	if i.here, err = i.host.from(i.root); err != nil {
		return nil, err
	}
	if i.kubeconfig, err = kubeconfig(o.Server, i.host.token, i.host.ca); err != nil {
		return nil, fmt.Errorf("making the kubeconfig: %w", err)
	}
	argv := []string{i.host.binary, string(o.Role), "--kubeconfig=" + i.host.kubeconfig, "--node-name=" + o.NodeName}
	if o.Role == Runner {
		argv = append(argv, "--host-root=/") // it is on the host, so it needs no way there
	}
	i.unit, err = unitFile(o.Role, append(argv, o.Args...))
	return i, err
}

// from returns where the files are seen from here.
func (l layout) from(root hostRoot) (layout, error) {
	var errs []error
	for _, file := range l.files() {
		seen, err := root.path(*file)
		*file, errs = seen, append(errs, err)
	}
	return l, errors.Join(errs...)
}

// converge brings the host from any state to the wanted one, and changes nothing
// that is as it should be. Credentials come first: they are what expires.
func (i *installer) converge(ctx context.Context) (credentials, error) {
	c, err := i.refresh(ctx)
	if err == nil {
		err = i.install(ctx)
	}
	return c, err
}

// refresh copies token and CA.
func (i *installer) refresh(ctx context.Context) (credentials, error) {
	c, err := readCredentials(i.credentials)
	if err == nil {
		err = i.root.trust(i.host.token, i.host.ca)
	}
	if err != nil {
		return c, err
	}
	tokenErr := write(ctx, i.here.token, 0o600, c.token)
	caErr := write(ctx, i.here.ca, 0o644, c.ca)
	return c, errors.Join(tokenErr, caErr)
}

// install copies everything else and has the unit run.
func (i *installer) install(ctx context.Context) error {
	if err := i.root.trust(i.host.binary, i.host.unit, i.host.link, i.host.kubeconfig, i.host.record); err != nil {
		return err
	}
	if target, err := os.Readlink(i.here.unit); err == nil && target == os.DevNull {
		return fmt.Errorf("%s is masked on this host, so nothing is installed; to have it installed: systemctl unmask %[1]s", i.role.Unit())
	}
	unchanged := i.program.isAt(i.here.binary) && has(i.here.kubeconfig, 0o600, i.kubeconfig) && has(i.here.unit, 0o644, i.unit)
	if !unchanged {
		// Before anything else, since whoever comes after a crash has to start the unit.
		if err := i.enter(record{}); err != nil {
			return err
		}
	}
	copied, err := i.program.ensure(i.here.binary)
	if err != nil {
		return err
	}
	if copied {
		logr.FromContextOrDiscard(ctx).Info("Program copied to the host", "file", i.here.binary)
	}
	if err := write(ctx, i.here.kubeconfig, 0o600, i.kubeconfig); err != nil {
		return err
	}
	if err := write(ctx, i.here.unit, 0o644, i.unit); err != nil {
		return err
	}
	return i.run(ctx)
}

func write(ctx context.Context, file string, mode os.FileMode, content []byte) error {
	changed, err := ensure(file, mode, content)
	if err == nil && changed {
		logr.FromContextOrDiscard(ctx).Info("File written on the host", "file", file)
	}
	return err
}

// run has the unit enabled and running with what was installed.
func (i *installer) run(ctx context.Context) error {
	unit := i.role.Unit()
	state, err := i.systemd.State(ctx, unit)
	if err != nil {
		return err
	}
	if state.LoadState != "loaded" || state.NeedDaemonReload || state.UnitFileState != "enabled" {
		if err := i.systemd.Enable(ctx, unit); err != nil {
			return err
		}
	}
	started := readRecord(i.here.record)
	down := state.ActiveState != "active" && state.ActiveState != "activating" && state.ActiveState != "reloading"
	switch {
	case down || !started.Started:
		return i.restart(ctx)
	case state.ActiveState != "active":
		return notRunning(unit, state)
	case !started.Settled:
		return i.settle(ctx)
	}
	return nil
}

func (i *installer) restart(ctx context.Context) error {
	unit := i.role.Unit()
	if err := i.systemd.Restart(ctx, unit); err != nil {
		if state, stateErr := i.systemd.State(ctx, unit); stateErr == nil {
			err = errors.Join(err, notRunning(unit, state))
		}
		return err
	}
	// At once, since whoever comes after a crash would start it once more.
	if err := i.enter(record{Started: true}); err != nil {
		return err
	}
	if err := i.settle(ctx); err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("Unit started", "unit", unit)
	return nil
}

// enter writes the record.
func (i *installer) enter(r record) error {
	r.Program = i.host.binary
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = ensure(i.here.record, 0o600, content)
	return err
}

// settle looks for a while whether the unit runs and is the same process, and enters
// that it is.
func (i *installer) settle(ctx context.Context) error {
	var first State
	for look := range settleLooks {
		if look > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(settleInterval):
			}
		}
		state, err := i.systemd.State(ctx, i.role.Unit())
		if err != nil {
			return err
		}
		if look == 0 {
			first = state
		}
		if state.ActiveState != "active" || state.MainPID != first.MainPID {
			return notRunning(i.role.Unit(), state)
		}
	}
	return i.enter(record{Started: true, Settled: true})
}

func notRunning(unit string, state State) error {
	return fmt.Errorf("%s does not stay running: it is %s; look on the host with: journalctl -u %[1]s", unit, state)
}

// readRecord returns an empty record if there is none that can be read, so that the
// unit is started anew.
func readRecord(file string) (r record) {
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &r) != nil || !path.IsAbs(r.Program) {
		return record{}
	}
	return r
}
