//go:build e2e

package node_test

// faultCondition is one that a plugin of node-problem-detector sets while there is a
// file, for scenarios that are about something else than what is broken.
const (
	faultCondition = "TestFault"
	faultFile      = "/run/e2e-fault"
	// ranFile has a line for each time that a command has run.
	ranFile = "/run/e2e-ran"
	// goOnFile lets a command end that waits for it.
	goOnFile = "/run/e2e-go-on"
)

// faultMonitor brings its own program: there is none in the detector's image. However busy the
// machine, it is not killed: that would be another status.
const faultMonitor = `{
  "plugin": "custom",
  "pluginConfig": {"invoke_interval": "2s", "timeout": "1m", "max_output_length": 80, "concurrency": 1},
  "source": "e2e",
  "conditions": [{"type": "` + faultCondition + `", "reason": "NoFault", "message": "there is no fault"}],
  "rules": [{"type": "permanent", "condition": "` + faultCondition + `", "reason": "Fault", "timeout": "1m",
    "path": "/etc/nodemend/busybox", "args": ["test", "!", "-e", "` + faultFile + `"]}]
}`
