package runner

import (
	"github.com/nodemend/nodemend/runner/command"
	"github.com/nodemend/nodemend/runner/reboot"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/runner/unit"
)

// Kinds are all remedies that a runner executes.
func Kinds() []remedy.Kind {
	return []remedy.Kind{command.Kind(), unit.Kind(), reboot.Kind()}
}

// kindNamed returns the remedy of this name, the zero value if this version does not know it.
func kindNamed(name string) remedy.Kind {
	for _, kind := range Kinds() {
		if kind.Name == name {
			return kind
		}
	}
	return remedy.Kind{}
}

// host is where remedies are executed.
func (o *Options) host() remedy.Host {
	return remedy.Host{
		Systemd: *o.Systemd, Execution: string(o.Execution), RunDir: o.RunDir, Proc: o.Proc, Root: o.HostRoot,
		SysRqPath: o.SysRqPath, Sync: o.sync, BootIDPath: o.BootIDPath, Clock: o.Clock,
	}
}

// remedies are the remedies by their names.
func remedies(opts Options) map[string]remedy.Remedy {
	all := map[string]remedy.Remedy{}
	for _, kind := range Kinds() {
		all[kind.Name] = kind.New(opts.host())
	}
	return all
}

// describe says what an order does, for people: "restart containerd.service".
func describe(order remedy.Order) string {
	if order.Step.Replace != nil {
		return order.Prepared.Note
	}
	kind := kindNamed(order.Step.Remedy())
	if kind.Describe == nil {
		return "do something that this version of the runner does not know"
	}
	what := kind.Describe(&order.Step)
	if by := order.Prepared.Execution; by != "" {
		what += " (" + string(by) + ")"
	}
	return what
}
