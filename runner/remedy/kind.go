package remedy

import (
	"time"

	"k8s.io/utils/clock"

	runnerconfig "github.com/nodemend/nodemend/config/runner"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/systemd"
)

// Kind is a remedy that the runner executes: all that the runner needs to know of it. What
// the controller does is in the v1alpha1.Remedy of the same name. All but OnDisk and
// Booted is required.
type Kind struct {
	// Name is the word that a policy uses.
	Name string
	// New returns the remedy for a host, at which it does not look yet.
	New func(Host) Remedy
	// Describe says what the step does, for people and the audit: "restart containerd.service".
	Describe func(*v1alpha1.Step) string
	// Vetoed returns why the node's own configuration forbids an order that was prepared, or "".
	Vetoed func(*runnerconfig.Veto, Host, Order) string
	// OnDisk says that what is executed lies on a file system of the host. If one has died
	// so that the host's veto can't be read, it is not executed, while other remedies go by
	// the veto as it was read last. Vetoed may look at files, and hang.
	OnDisk bool
	// Booted returns the outcome of a claimed execution on a node that runs with another boot
	// ID now, which proves it. The ledger has gone with the boot; step is nil if nobody knows
	// it any more. If Booted is nil, a boot proves nothing.
	Booted func(claim v1alpha1.Claim, step *v1alpha1.Step, bootID string, now time.Time) Outcome
}

// Host is where remedies are executed, as the runner's options say.
type Host struct {
	// Systemd connects to the node's systemd.
	Systemd systemd.Dialer
	// Execution is how commands are executed: a command.Mode.
	Execution string
	// RunDir is the directory of the ledger.
	RunDir string
	// Proc is the proc file system in which process 1 is the node's.
	Proc string
	// Root is the host's root directory.
	Root string
	// SysRqPath is the file that reboots the machine, BootIDPath that which holds the boot ID.
	SysRqPath, BootIDPath string
	// Sync has the disks written; nil: sync(2).
	Sync func()
	// Clock measures timeouts.
	Clock clock.Clock
}
