// Package command is the remedy that runs a program or a script on the node.
//
// It runs as a transient unit of the node's systemd, which gives it the host's
// namespaces and a control group of its own, ends it at its timeout even when no
// runner lives, and remembers its exit status for a runner that comes later. Where
// systemd does not answer, it runs as a child of the runner: in the namespaces and
// in a control group of the host as well, but it ends with the runner.
//
// What it prints goes through a named pipe, never to a disk: the pipe is held open
// by systemd, so a command whose runner dies is neither killed by that nor loses
// what it has printed; it waits when the pipe is full. (systemd lets go of the pipe
// when it has ended a command at its timeout. What was printed and not read is lost
// if no runner lived then.) A runner that is stopped leaves what it has read already to
// the next one, in a small file beside the pipe; of one that is killed it is lost, which
// the result says.
//
// The pipe is also the permit to start: systemd starts the unit only while the pipe
// is there. Before a runner says that it does not know what has become of a start,
// it removes the pipe, so that a request that a hung systemd reads late has no
// effect.
package command
