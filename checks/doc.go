// Package checks defines what a check is, runs checks, and has the words in which
// monitors report what they see. How they run in node-problem-detector (NPD) is a
// matter of package npd.
//
// A check observes one aspect of the node it runs on and owns one node
// condition, with NPD's polarity: True is a problem, False is healthy, Unknown
// could not tell. [NewMonitor] runs a check again and again.
//
// Three promises hold for every check, whatever its code does:
//
//   - Nothing is reported before a run has ended, and every report carries the
//     time at which its run started.
//   - A run that does not end in time is never reported as healthy.
//   - A run that hangs delays neither other checks nor shutdown.
package checks
