package v1alpha1

import "regexp"

// RemedyRestartUnit is the name of the remedy restartUnit.
const RemedyRestartUnit = "restartUnit"

// RestartUnitRemedy restarts one systemd unit of the node.
type RestartUnitRemedy struct {
	// Name of the unit, with its suffix. A unit that ends the system, such as
	// systemd-reboot.service, is refused: that is what the remedy reboot is for. The
	// runner refuses what does so under another name.
	//
	// Example: containerd.service
	// +required
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9:_.\\@-]+\.(service|socket|mount|timer|path)$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(emergency|rescue|initrd-(cleanup|switch-root)|systemd-(exit|factory-reset-reboot|halt|hibernate|hybrid-sleep|kexec|poweroff|reboot|soft-reboot|suspend|suspend-then-hibernate))[.]service$')",message="must not be a unit that ends the system; use the remedy reboot"
	Name string `json:"name"`
}

// endings are the units of systemd that end the system; the services are those of the
// rule above.
var endings = regexp.MustCompile(`^(emergency|rescue|initrd-(cleanup|switch-root)|systemd-(exit|factory-reset-reboot|halt|hibernate|hybrid-sleep|kexec|poweroff|reboot|soft-reboot|suspend|suspend-then-hibernate))[.]service$` +
	`|^(ctrl-alt-del|emergency|exit|factory-reset|final|halt|hibernate|hybrid-sleep|initrd-switch-root|kexec|poweroff|reboot|rescue|runlevel[016]|shutdown|sleep|soft-reboot|suspend|suspend-then-hibernate|umount)[.]target$`)

// EndsSystem reports whether a unit is one of systemd's own, by its name, that stops the
// system: it reboots, halts, sleeps, or leaves no more than a shell.
func EndsSystem(unit string) bool { return endings.MatchString(unit) }

// restartUnitRemedy is the remedy restartUnit.
var restartUnitRemedy = Remedy{
	Name:     RemedyRestartUnit,
	Executor: ExecutorRunner,
	asked:    func(s *Step) bool { return s.RestartUnit != nil },
	describe: func(s *Step) string { return "restart " + s.RestartUnit.Name },
}
