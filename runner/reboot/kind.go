package reboot

import (
	runnerconfig "github.com/nodemend/nodemend/config/runner"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// Kind is this kind of remedy.
func Kind() remedy.Kind {
	return remedy.Kind{
		Name: v1alpha1.RemedyReboot,
		New: func(h remedy.Host) remedy.Remedy {
			return New(Options{Dialer: h.Systemd, RunDir: h.RunDir, Trigger: h.SysRqPath, Sync: h.Sync, BootIDPath: h.BootIDPath, Clock: h.Clock})
		},
		Describe: func(*v1alpha1.Step) string { return "reboot the node" },
		Vetoed:   func(v *runnerconfig.Veto, _ remedy.Host, _ remedy.Order) string { return v.Reboot() },
		Booted:   Rebooted,
	}
}
