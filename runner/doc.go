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
//   - A claim of another runner process is never taken over. The action is
//     finished as Interrupted: nobody knows whether the remedy was executed.
//   - What this process has started is remembered until the action is deleted,
//     so that an API server that is away or answers late leads to a late
//     report, never to a second execution.
//
// One action runs at a time.
package runner
