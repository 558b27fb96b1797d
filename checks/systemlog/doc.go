// Package systemlog watches a log for known problems. It takes the configuration
// files of node-problem-detector's (NPD's) system-log monitor and reads the same
// logs: the kernel's ring buffer, text files and the systemd journal.
//
// It differs from NPD's monitor in what a condition's report stands for:
//
//   - False is reported only with proof that the log has been read up to the time
//     that the report carries. A log that can't be read, or that is silent without
//     that proof, leaves its conditions unreported, so that their heartbeats age.
//   - A log that ends or can't be opened is opened again, for as long as the
//     detector runs, and what was read before is not reported anew.
//   - A condition that a rule has made True stays so whatever other rules do. One
//     that no rule can make True is not reported.
//
// None of NPD's watchers is used, as none can tell how far it has read. Besides,
// the one for text files loses an inotify instance, of which a user has 128 by
// default, each time that it is opened again, and the one for the journal needs
// cgo.
package systemlog
