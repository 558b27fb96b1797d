//go:build e2e

package machine

// detectorConfig is faster than the defaults. What is added to it says which checks run. They
// have the patience that software emulation on a busy machine needs.
const detectorConfig = `
heartbeat: {interval: 2s, problemInterval: 2s}
customPlugins: {problemInterval: 2s}
checks:
`

// Of containerd, and of none.
const (
	runtimeCheck   = "  only: [runtime, hardware]\n  runtime: {interval: 8s, timeout: 8s, startupGrace: 0s}\n"
	noRuntimeCheck = "  only: [runtime, hardware]\n  runtime: {enabled: false}\n"
)

// deadlockMonitor sets KernelDeadlock, as node-problem-detector's kernel-monitor.json
// does, by a plugin.
const deadlockMonitor = `{
  "plugin": "custom",
  "pluginConfig": {"invoke_interval": "2s", "timeout": "1m", "max_output_length": 80, "concurrency": 1},
  "source": "deadlock",
  "conditions": [{"type": "KernelDeadlock", "reason": "KernelHasNoDeadlock", "message": "kernel has no deadlock"}],
  "rules": [{"type": "permanent", "condition": "KernelDeadlock", "reason": "TaskHung", "path": "/usr/lib/e2e/look-for-faults"}]
}`

// deadlock is the condition that it sets while there is one of these files. The first
// does not survive a boot.
const (
	deadlock         = "KernelDeadlock"
	untilBoot        = "/run/deadlock"
	beyondBoot       = "/var/lib/deadlock"
	deadlockPlugin   = "#!/bin/sh\nif [ -e " + untilBoot + " ] || [ -e " + beyondBoot + " ]; then echo a task is stuck; exit 1; fi\n"
	runtimeCondition = "ContainerRuntimeUnhealthy"
	hardware         = "HardwareFailure"
)

// held is what a script does until it is let go on, by removing the file hold.
const (
	hold = "/run/hold"
	held = "while [ -e " + hold + " ]; do sleep 0.1; done"
)

// containerdConfig is where containerd looks for it.
const containerdConfig = "/etc/containerd/config.toml"

// containerdUnit is Debian's, with less patience.
const containerdUnit = `[Service]
Type=notify
ExecStartPre=/bin/sh -c '` + held + `'
ExecStart=/usr/bin/containerd
Restart=always
RestartSec=5
TimeoutStopSec=10
KillMode=process
Delegate=yes
OOMScoreAdjust=-999
`
