package v1alpha1

// RemedyReplace is the name of the remedy replace.
const RemedyReplace = "replace"

// ReplaceRemedy has the machine under the node replaced by the program that owns it, told
// by what the node carries: a Machine of Cluster API, which the controller that owns it
// makes anew, or a NodeClaim of Karpenter. The remote runner deletes it, or marks the
// Machine with cluster.x-k8s.io/remediate-machine where a MachineHealthCheck has its owner
// remediate it. A machine that nobody would replace is left as it is. The step is done
// when as many other nodes of the group are Ready as before, and one more, or its
// timeout is over.
//
// What is on the disks of the machine is lost. It needs the remote runner, with replace in
// its configuration.
type ReplaceRemedy struct {
	// How the node is drained before. If it is left out, the node is only cordoned, and
	// the owner of the machine drains it: Cluster API and Karpenter do.
	// +optional
	Drain *Drain `json:"drain,omitempty"`
}

// replaceRemedy is the remedy replace.
var replaceRemedy = Remedy{
	Name:       RemedyReplace,
	Executor:   ExecutorRemote,
	Disruptive: true,
	Replaces:   true,
	// A machine of the same name may take its place.
	CountsAsReboot: true,
	asked:          func(s *Step) bool { return s.Replace != nil },
	drain:          func(s *Step) *Drain { return s.Replace.Drain },
	describe: func(s *Step) string {
		return takeOut(s.Replace.Drain) + " the node, and have its machine deleted and replaced by its owner"
	},
	why: func(*Step) string { return "its machine is to be replaced" },
}
