package v1alpha1

// RemedyRestartUnit is the name of the remedy restartUnit.
const RemedyRestartUnit = "restartUnit"

// RestartUnitRemedy restarts one systemd unit of the node.
type RestartUnitRemedy struct {
	// Name of the unit, with its suffix.
	//
	// Example: containerd.service
	// +required
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9:_.\\@-]+\.(service|socket|mount|timer|path)$`
	Name string `json:"name"`
}

// restartUnitRemedy is the remedy restartUnit.
var restartUnitRemedy = Remedy{
	Name:     RemedyRestartUnit,
	Executor: ExecutorRunner,
	asked:    func(s *Step) bool { return s.RestartUnit != nil },
	describe: func(s *Step) string { return "restart " + s.RestartUnit.Name },
}
