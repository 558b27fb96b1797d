package unit

import (
	"context"
	"slices"

	"github.com/coreos/go-systemd/v22/dbus"
	"golang.org/x/sys/unix"
)

// running is the status of a job that does not wait for others any more.
const running = "running"

// isOurs reports whether a job for the unit is that of the restart, as far as can be
// known: an adopted restart is not a stop, which somebody else must have asked for.
func (f *follower) isOurs(ctx context.Context, s state) (bool, error) {
	if s.job == 0 || f.id != 0 {
		return s.job != 0 && s.job == f.id, nil
	}
	job, err := f.findJob(ctx, s.job)
	if err != nil {
		return false, err
	}
	switch job.JobType {
	case "restart", "start": // a restart becomes a start when the unit is stopped
		if job.JobType == "restart" && s.invocation != f.before {
			return false, nil // ours has started the unit already, so this is another one
		}
		f.id = s.job
		return true, nil
	case "": // it has just ended: look again
		return true, nil
	default:
		return false, nil
	}
}

// findJob returns a job that is queued or under way, the zero value if it is not.
func (f *follower) findJob(ctx context.Context, id uint32) (dbus.JobStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, min(f.patience(), answerTime))
	defer cancel()
	jobs, err := f.conn.ListJobsContext(ctx)
	if err != nil {
		f.close()
		return dbus.JobStatus{}, err
	}
	i := slices.IndexFunc(jobs, func(job dbus.JobStatus) bool { return job.Id == id })
	if i < 0 {
		return dbus.JobStatus{}, nil
	}
	return jobs[i], nil
}

// end ends what is left of the restart after its deadline. A stop or a start that hangs
// is killed, after which the unit may become active. A job that waits for others, or
// that is still there then, is cancelled so that it never runs later.
func (f *follower) end(ctx context.Context, s state) (last state, over bool) {
	job, err := f.findJob(ctx, f.id)
	if err == nil && job.Id == 0 { // it has just ended by itself
		f.overdue = false
		return f.waitForJob(ctx)
	}
	begun := job.Status == running
	if begun && s.isMoving() {
		f.wedged = s.active == "deactivating"
		f.deadline = f.Clock.Now().Add(killGrace)
		f.kill(ctx)
		if s, over = f.waitForJob(ctx); over || !f.seen {
			return s, over
		}
	}
	return f.cancel(ctx, s, begun), false
}

// cancel cancels the job. It kills what the job has begun, before or meanwhile.
func (f *follower) cancel(ctx context.Context, s state, begun bool) (last state) {
	f.cancelled = "systemd's job for it was cancelled"
	if !begun {
		f.cancelled = "systemd's job for it still waited for others (see systemctl list-jobs) and was cancelled"
	}
	err := f.connect(ctx)
	if err == nil {
		patience, cancel := context.WithTimeout(ctx, min(f.patience(), answerTime))
		defer cancel()
		err = f.conn.CancelJob(patience, f.id)
	}
	if err != nil {
		f.cancelled = "systemd's job for it could not be cancelled: " + err.Error()
	}
	last, err = f.look(ctx)
	if err == nil && last.isMoving() && (begun || last.changed != s.changed) {
		f.kill(ctx)
		for range 5 { // to die takes a moment
			if err != nil || !last.isMoving() || !f.wait(ctx, pollInterval/5) {
				break
			}
			last, err = f.look(ctx)
		}
	}
	f.seen = err == nil
	return last
}

// kill kills all processes of the unit.
func (f *follower) kill(ctx context.Context) {
	f.killed = "its processes were killed (escalated to kill)"
	ctx, cancel := context.WithTimeout(ctx, min(f.patience(), answerTime))
	defer cancel()
	if err := f.conn.KillUnitWithTarget(ctx, f.unit, dbus.All, int32(unix.SIGKILL)); err != nil {
		f.killed = "its processes could not be killed: " + err.Error()
	}
}
