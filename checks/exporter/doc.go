// Package exporter writes what checks have seen into the conditions of the Node
// they run on: in words of node-problem-detector (NPD), it is an exporter.
//
// What it promises:
//
//   - A condition is written only after its check has run in this process.
//   - A condition whose status is unchanged keeps the lastTransitionTime that
//     the Node already has, across restarts. For this the Node is read once,
//     before the first write, until the API server answers.
//   - lastHeartbeatTime is the time at which the latest reported run of the
//     check started: the observation was made at or after it. It does not
//     advance for a check that does not run.
//   - A change of status or reason is written at once. All else waits for the
//     heartbeat: one PATCH with everything new.
//   - Only the detector's own conditions are written, by a strategic merge patch
//     of the status subresource; and one annotation, if there is something to say
//     by it: annotation.go.
//   - Of others, those are removed that the configuration names no more and that
//     the detector alone has written: leftover.go.
//   - While the API server can't be reached nothing is lost but intermediate
//     states: the latest state is written when it is back, with the time at
//     which it was first observed.
//
// The rules are in state.go, which is free of goroutines, clocks and I/O;
// exporter.go carries out what it plans.
package exporter
