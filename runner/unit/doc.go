// Package unit restarts a systemd unit and sees that it is active again.
//
// The proof is the unit's invocation ID, which changes with every start: it holds
// also for a runner that comes back after its own container was restarted along
// with the unit, as it is by a restart of the container runtime.
package unit
