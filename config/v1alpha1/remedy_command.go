package v1alpha1

import "strings"

// RemedyCommand is the name of the remedy command.
const RemedyCommand = "command"

// CommandRemedy runs one command on the node: a program, or a script.
//
// +kubebuilder:validation:XValidation:rule="[has(self.argv), has(self.script)].exists_one(x, x)",message="exactly one is required: argv or script"
type CommandRemedy struct {
	// Absolute path of the program, and its arguments. There is no shell: no quoting,
	// no expansion, no PATH.
	//
	// Example: ["/usr/local/bin/clean-shims", "--all"]
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self[0].matches('^/[^/]')",message="the first entry must be the absolute path of a program, for example /usr/bin/systemctl"
	// +listType=atomic
	Argv []string `json:"argv,omitempty"`

	// Script for the node's /bin/sh. Its environment describes the incident, for
	// example $NODEMEND_CONDITION_REASON.
	//
	// Example: "set -eu; rm -rf /var/lib/cache/*"
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Script string `json:"script,omitempty"`
}

// commandRemedy is the remedy command.
var commandRemedy = Remedy{
	Name:     RemedyCommand,
	Executor: ExecutorRunner,
	asked:    func(s *Step) bool { return s.Command != nil },
	describe: func(s *Step) string {
		if s.Command.Script != "" {
			return "run its script"
		}
		return "run " + clip(strings.Join(s.Command.Argv, " "))
	},
}

// clip bounds what a policy puts into a message.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
