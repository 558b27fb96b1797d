// Package runner executes NodeActions on the node it runs on.
//
// An action does not say what to execute. It names a RemedyPolicy and the hash
// of one of its steps; the runner reads the policy itself and executes that
// step only, and only while the policy, the node and the fault are still the
// ones that the action was created for.
//
// An action is executed at most once:
//
//   - Right before the first side effect the runner claims the action with a
//     status update that is bound to the resource version on which it decided.
//     It goes on only after it has received, or read back, its own claim.
//   - Between the claim and the side effect it enters the order into a ledger on
//     the node, which outlives the process and knows every name that was
//     executed since the boot.
//   - A claim is never taken over. What an earlier process has entered and not
//     ended is adopted: the remedy finds out how it ended and never repeats it.
//     A claim without an entry was not started; if the ledger itself is lost, or
//     the node has rebooted, nobody knows, and it ends as Interrupted. Only a
//     reboot is proved by another boot.
//
// One runner works on a node at a time, and on one action at a time.
package runner
