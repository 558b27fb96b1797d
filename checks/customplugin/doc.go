// Package customplugin runs custom plugins: programs that judge one aspect of
// the node by their exit code, configured by the JSON files of
// node-problem-detector's (NPD) custom-plugin monitor, whose place it takes.
//
// What a plugin is has not changed: exit code 0 means no problem, 1 a problem,
// all others that it could not tell; standard output is the message. What is
// reported has:
//
//   - A condition is reported only from results of its own rules, all run in
//     this round, with the time at which the oldest of these runs started.
//     There is no initial status, so skip_initial_status has no effect.
//   - If several rules are for one condition, any of them that finds a problem
//     makes it True; it is False only if none of them does and all could tell.
//   - A plugin that could not tell, did not end in time or did not start is
//     Unknown with a reason that says so, never with the healthy one.
//   - Rules of different conditions wait for each other only where the
//     configured concurrency makes them.
//   - Condition-change events are left to the exporter. It also writes changes
//     of a message alone, with its heartbeat, whatever
//     enable_message_change_based_condition_update says.
//
// A plugin runs in a process group of its own and, where they can be made, in a control
// group of its own. When it has ended, and at its time-out, SIGKILL ends what is left of
// both. Without control groups a descendant that has left the process group survives, but
// delays nothing. So does a process that SIGKILL does not end since it hangs in the kernel:
// its rule is not run again before it is gone.
package customplugin
