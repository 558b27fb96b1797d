package hostunits

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// Remove stops the unit and removes all that Run has installed for the role, or what
// is left of it, and returns a line for each thing it has done. While an installer
// looks after the unit it does nothing but say so.
func Remove(ctx context.Context, o Options) (done []string, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	root := hostRoot(o.HostRoot)
	files := o.layout()
	here, err := files.from(root)
	if err != nil {
		return nil, err
	}
	holder, err := claim{path: here.claim}.holder(ctx)
	if err != nil {
		return nil, err
	}
	if holder != "" {
		return nil, fmt.Errorf("an installer looks after %s on this host and would install it again; delete its DaemonSet, and if it did not end in order, wait %s", o.Role.Unit(), claimAge)
	}
	if installed := readRecord(here.record).Program; path.Base(installed) == path.Base(files.binary) {
		if here.binary, err = root.path(installed); err != nil {
			return nil, err
		}
	}
	if done, err = stop(ctx, o.Systemd, o.Role.Unit()); err != nil {
		return done, fmt.Errorf("%w; nothing was removed", err)
	}
	removed, err := removeFiles(root, here)
	done = append(done, removed...)
	return done, errors.Join(err, o.Systemd.Forget(ctx, o.Role.Unit()))
}

// stop stops the unit if it runs.
func stop(ctx context.Context, systemd Systemd, unit string) (done []string, err error) {
	state, err := systemd.State(ctx, unit)
	if err != nil || state.ActiveState == "inactive" || state.ActiveState == "failed" {
		return nil, err
	}
	if err := systemd.Stop(ctx, unit); err != nil {
		return nil, err
	}
	return []string{"stopped " + unit}, nil
}

// removeFiles removes the files that are there, and then the directories that are
// ours and empty.
func removeFiles(root hostRoot, here layout) (done []string, err error) {
	var errs []error
	remove := func(file string) {
		switch err := os.Remove(file); {
		case err == nil:
			done = append(done, "removed "+file)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY):
			errs = append(errs, err)
		}
	}
	for _, file := range here.files() {
		errs = append(errs, removeLeftovers(*file))
		remove(*file)
	}
	for _, directory := range directories() {
		seen, err := root.path(directory)
		errs = append(errs, err)
		remove(seen)
	}
	return done, errors.Join(errs...)
}
