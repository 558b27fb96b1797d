package hostunits

import (
	"context"
	"errors"
	"fmt"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/nodemend/nodemend/internal/systemd"
)

const (
	// callTime is how long systemd may take for what it is asked for. It is longer than
	// the TimeoutStopSec of the units.
	callTime = 2 * time.Minute
	// patience is how long it may take to answer at one of its sockets. It answers
	// nobody while it reads all units anew, which takes a slow host that boots many
	// seconds; and both roles are installed then.
	patience = 30 * time.Second
	// noSuchUnit is the D-Bus error of a unit that is not loaded.
	noSuchUnit = "org.freedesktop.systemd1.NoSuchUnit"
)

// Systemd is what is asked of the host's systemd. Errors say what was asked.
type Systemd interface {
	// State returns what systemd knows of a unit, which need not exist.
	State(ctx context.Context, unit string) (State, error)
	// Enable lets the unit start with the host and reads its file anew.
	Enable(ctx context.Context, unit string) error
	// Restart starts the unit, or starts it anew, and returns when systemd says
	// that it has.
	Restart(ctx context.Context, unit string) error
	// Stop stops the unit and returns when it has stopped.
	Stop(ctx context.Context, unit string) error
	// Forget is for after the unit's files were removed.
	Forget(ctx context.Context, unit string) error
}

// State is what systemd knows of a unit: the properties of these names.
type State struct {
	LoadState, ActiveState, SubState string
	// UnitFileState is "enabled" if the unit starts with the host.
	UnitFileState string
	// NeedDaemonReload says that the unit's file is newer than what is known.
	NeedDaemonReload bool
	// Result and ExecMainStatus say how the last process has ended.
	Result         string
	ExecMainStatus int32
	MainPID        uint32
}

// String is for people.
func (s State) String() string {
	text := fmt.Sprintf("%s (%s)", s.ActiveState, s.SubState)
	if s.LoadState != "loaded" {
		text += ", its file is " + s.LoadState
	}
	if s.Result != "" && s.Result != "success" {
		text += fmt.Sprintf(", the last result is %s, the last exit status %d", s.Result, s.ExecMainStatus)
	}
	return text
}

// DBus is the systemd that the Dialer reaches, by a new connection each time.
type DBus struct{ Dialer systemd.Dialer }

// State implements Systemd.
func (d DBus) State(ctx context.Context, unit string) (s State, err error) {
	err = d.do(ctx, "asking for the state of "+unit, func(ctx context.Context, conn *systemd.Conn) error {
		properties, err := conn.GetAllPropertiesContext(ctx, unit)
		if err != nil {
			return err
		}
		s = stateOf(properties)
		return nil
	})
	return s, err
}

func stateOf(properties map[string]any) (s State) {
	for name, into := range map[string]*string{
		"LoadState": &s.LoadState, "ActiveState": &s.ActiveState, "SubState": &s.SubState,
		"UnitFileState": &s.UnitFileState, "Result": &s.Result,
	} {
		*into, _ = properties[name].(string)
	}
	s.NeedDaemonReload, _ = properties["NeedDaemonReload"].(bool)
	s.ExecMainStatus, _ = properties["ExecMainStatus"].(int32)
	s.MainPID, _ = properties["MainPID"].(uint32)
	return s
}

// Enable implements Systemd.
func (d DBus) Enable(ctx context.Context, unit string) error {
	return d.do(ctx, "enabling "+unit, func(ctx context.Context, conn *systemd.Conn) error {
		if _, _, err := conn.EnableUnitFilesContext(ctx, []string{unit}, false, true); err != nil {
			return err
		}
		return conn.ReloadContext(ctx)
	})
}

// Restart implements Systemd.
func (d DBus) Restart(ctx context.Context, unit string) error {
	return d.do(ctx, "starting "+unit, func(ctx context.Context, conn *systemd.Conn) error {
		return finish(ctx, conn, func(result chan<- string) (int, error) {
			return conn.RestartUnitContext(ctx, unit, "replace", result)
		})
	})
}

// Stop implements Systemd.
func (d DBus) Stop(ctx context.Context, unit string) error {
	return d.do(ctx, "stopping "+unit, func(ctx context.Context, conn *systemd.Conn) error {
		return finish(ctx, conn, func(result chan<- string) (int, error) {
			return conn.StopUnitContext(ctx, unit, "replace", result)
		})
	})
}

// Forget implements Systemd.
func (d DBus) Forget(ctx context.Context, unit string) error {
	return d.do(ctx, "forgetting "+unit, func(ctx context.Context, conn *systemd.Conn) error {
		if err := conn.ReloadContext(ctx); err != nil {
			return err
		}
		err := conn.ResetFailedUnitContext(ctx, unit)
		var answer godbus.Error
		if errors.As(err, &answer) && answer.Name == noSuchUnit {
			return nil
		}
		return err
	})
}

// do has a connection of its own, since systemd or its bus may have been restarted
// since the last time.
func (d DBus) do(ctx context.Context, what string, f func(context.Context, *systemd.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	d.Dialer.Patience = patience
	conn, err := d.Dialer.Dial(ctx)
	if err == nil {
		defer conn.Close()
		err = f(ctx, conn)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// finish waits until the job is done that queue queues.
func finish(ctx context.Context, conn *systemd.Conn, queue func(chan<- string) (int, error)) error {
	result, err := conn.Await(ctx, queue)
	if err == nil && result != "done" {
		err = errors.New("systemd says: " + result)
	}
	return err
}
