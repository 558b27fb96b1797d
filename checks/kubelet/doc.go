// Package kubelet checks the kubelet itself: that it answers, that its sync loop
// turns, and that systemd does not have to restart it again and again.
//
// A run looks at three things at once:
//
//   - The plain /healthz, :10248. It is no more than a sign of life: no answer,
//     or another one than 200, is a problem.
//   - The /healthz of the authenticated server, :10250, for its check "syncloop",
//     (*Kubelet).SyncLoopHealthCheck. It fails when the last iteration of the
//     sync loop is five minutes old, be it that an iteration hangs, or that they
//     are all skipped since the runtime or PLEG is not healthy. A failing check
//     is a problem. Not being allowed to ask, or to trust the answer, is not: it
//     depends on this detector's permissions, and on the API server, which the
//     kubelet has review tokens. It is mentioned in the message.
//   - The state of its systemd unit and the number of its automatic restarts
//     (NRestarts), over D-Bus. Where there is no D-Bus, or it hangs, that is
//     mentioned, too.
//
// What was a problem when it was last seen and can't be seen any more is Unknown,
// not healthy. So is a sync loop that could not be seen in time.
//
// # Restarts
//
// Restarts are counted while the detector runs, by the growth of NRestarts from
// run to run; those of before are not known. systemd counts only what it does by
// itself, after the kubelet has exited, and sets the counter to 0 when somebody
// starts the unit: a deliberate restart does not count. Between two looks that
// are further apart than the window nothing is counted, as the restarts may be
// older than the window.
package kubelet
