package reboot

import (
	"context"
	"fmt"

	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner/remedy"
)

// target is what systemd reboots by.
const target = "reboot.target"

// bySystemd asks systemd for the reboot.
func (r *Reboot) bySystemd(ctx context.Context, order remedy.Order) *remedy.Outcome {
	conn, err := r.opts.Dialer.Dial(ctx)
	if err != nil {
		return startFailed(err.Error())
	}
	defer conn.Close()
	remedy.Reached(ctx, "before-reboot")

	// The answer is awaited until the timeout: who gives up before that does not
	// know whether systemd is going to read the question.
	asking, stop := context.WithCancel(ctx)
	defer stop()
	answer := make(chan error, 1)
	timer := r.opts.Clock.NewTimer(max(r.left(order), patience))
	defer timer.Stop()
	go func() {
		_, err := conn.StartUnitContext(asking, target, "replace-irreversibly", nil)
		answer <- err
	}()
	asked := "systemd was asked to reboot"
	select {
	case err = <-answer:
	case <-timer.C():
		stop()
		err = <-answer
	}
	remedy.Reached(ctx, "after-reboot")
	switch {
	case systemd.Refused(err):
		return startFailed(fmt.Sprintf("systemd refuses to start %s: %v: see systemctl status %[1]s and systemctl list-jobs", target, err))
	case err != nil:
		asked += fmt.Sprintf(" and did not say whether it does (%v)", err)
	}
	return r.awaitEnd(ctx, order, asked)
}
