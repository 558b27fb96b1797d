package reboot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodemend/nodemend/internal/atomicfile"
	"github.com/nodemend/nodemend/internal/bounded"
	"github.com/nodemend/nodemend/runner/remedy"
)

const (
	// patience is how long each call may take that could hang.
	patience = 5 * time.Second
	// pause is how long the kernel gets for syncing and for making file systems
	// read-only, which it does in the background.
	pause = 2 * time.Second
)

// errHangs says that a call did not return.
var errHangs = fmt.Errorf("it did not return within %s", patience)

// bySysRq syncs the disks, makes them read-only and resets the machine. What fails
// on the way to the reset is no reason not to reset, but that its beginning can't be noted
// down. If begun, another runner has done so.
func (r *Reboot) bySysRq(ctx context.Context, order remedy.Order, begun bool) *remedy.Outcome {
	remedy.Reached(ctx, "before-reboot")
	var trouble []string
	if err := r.bounded(func() error { r.opts.Sync(); return nil }); err != nil {
		trouble = append(trouble, fmt.Sprintf("syncing the disks: %v", err))
	}
	var readOnly bool
	for _, command := range []byte{'s', 'u'} {
		if command == 'u' && !begun {
			if err := r.noteBegun(order); err != nil {
				return startFailed(fmt.Sprintf("no later runner would know that the reboot has to be brought to its end: %v", err))
			}
		}
		err := r.bounded(func() error { return r.write(command) })
		if err != nil {
			trouble = append(trouble, fmt.Sprintf("writing %q: %v", command, err))
		}
		readOnly = err == nil || errors.Is(err, errHangs)
		<-r.opts.Clock.After(pause)
	}
	remedy.Reached(ctx, "before-reset")
	err := r.bounded(func() error { return r.write('b') })
	remedy.Reached(ctx, "after-reboot")

	// Only a node that was not reset gets here.
	after := ""
	if readOnly {
		after = " (its file systems may be read-only now)"
	}
	if len(trouble) > 0 {
		after += fmt.Sprintf(" (before that: %s)", strings.Join(trouble, ", "))
	}
	if err != nil && !errors.Is(err, errHangs) {
		return r.notObserved(order, fmt.Sprintf("the kernel could not be asked to reset the machine: writing 'b': %v%s, so", err, after))
	}
	return r.awaitEnd(ctx, order, "the kernel was asked to reset the machine"+after)
}

// mark is the file that says which reboot has begun to make the disks read-only. It lies
// where the ledger does, so it goes with the boot.
func (r *Reboot) mark() string { return filepath.Join(r.opts.RunDir, "reboot-begun") }

func (r *Reboot) noteBegun(order remedy.Order) error {
	return atomicfile.Replace(r.mark(), []byte(order.UID))
}

// begun says whether the reboot of an order that marks it has begun to make the disks
// read-only, as far as can be known.
func (r *Reboot) begun(order remedy.Order) bool {
	uid, err := os.ReadFile(r.mark())
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return string(uid) == string(order.UID)
}

// write gives the kernel one command.
func (r *Reboot) write(command byte) error {
	file, err := os.OpenFile(r.opts.Trigger, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.Write([]byte{command})
	return errors.Join(err, file.Close())
}

// bounded calls f and does not wait for it for longer than its patience: on a
// node that is to be reset disks and consoles hang.
func (r *Reboot) bounded(f func() error) error {
	err, late := bounded.Within(r.opts.Clock, patience, f)
	if late != nil {
		return errHangs
	}
	return err
}
