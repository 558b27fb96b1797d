package v1alpha1

// Remedy is one kind of fix: all that controller, gates, budgets and plugin need to know of
// it. What executes it on the node is in package runner, under the same name.
//
// +kubebuilder:object:generate=false
type Remedy struct {
	// Name is the word that a policy uses: that of the remedy's field in Step.
	Name string
	// Executor carries out its attempts, unless Step.Executor says otherwise.
	Executor Executor
	// Disruptive: the node is out of service while it is executed.
	Disruptive bool
	// Reboots: the node boots anew. Another boot ID proves it even if nobody has reported on it.
	Reboots bool
	// CountsAsReboot: the node boots anew, or may: it counts towards maxReboots.
	CountsAsReboot bool
	// Final: the node stays out of service until it has recovered, so that nothing follows.
	// It is served first, and held in every storm.
	Final bool

	// Replaces: the machine under the node is deleted, and the Node with it, for a new one. So
	// nothing follows, and every storm holds it.
	Replaces bool

	// asked reports whether the step asks for it.
	asked func(*Step) bool
	// executor returns who carries out the step's attempts; nil: Executor, for all steps.
	executor func(*Step) Executor
	// drain returns how the node is drained for the step; nil: it never is.
	drain func(*Step) *Drain
	// describe says what the step does, after "would".
	describe func(*Step) string
	// why says why the node is out of service for the step; nil: the name says it.
	why func(*Step) string
}

// Executor is who carries out the attempts of a remedy.
type Executor string

const (
	// ExecutorRunner is the runner of the node, by a NodeAction.
	ExecutorRunner Executor = "Runner"
	// ExecutorRemote is the remote runner, by a NodeAction: it acts on the machine from outside.
	ExecutorRemote Executor = "Remote"
	// ExecutorMaintenance is the controller of maintenances, by a NodeMaintenance.
	ExecutorMaintenance Executor = "Maintenance"
	// ExecutorExternal is another program, by an object of its own, which the controller creates
	// and follows for a NodeAction.
	ExecutorExternal Executor = "External"
)

// Remedies returns the remedies that this version knows, gentlest first. They must not be
// changed.
func Remedies() []*Remedy {
	return []*Remedy{
		&commandRemedy,
		&restartUnitRemedy,
		&rebootRemedy,
		&externalRemedy,
		&replaceRemedy,
		&maintenanceRemedy,
	}
}

// unknownRemedy is one of a later version, of which this one knows nothing.
var unknownRemedy = Remedy{Executor: ExecutorRunner, describe: func(*Step) string { return "act" }}

// RemedyNamed returns the remedy of this name, or one without a name if this version does
// not know it.
func RemedyNamed(name string) *Remedy {
	for _, r := range Remedies() {
		if r.Name == name {
			return r
		}
	}
	return &unknownRemedy
}

// Drains reports whether a step may say how the node is drained for it.
func (r *Remedy) Drains() bool { return r.drain != nil }

// takeOut says how a node is taken out of service.
func takeOut(drain *Drain) string {
	if drain == nil {
		return "cordon"
	}
	return "cordon and drain"
}
