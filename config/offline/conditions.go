package offline

import (
	"slices"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Known is what Check is told beside the files. The zero Known knows Kubernetes and the files
// of node-problem-detector alone.
type Known struct {
	// Conditions are the types of condition that something reports, with the interval at which
	// its check runs; 0 if that is not known.
	Conditions map[string]time.Duration
	// Policies are those of the cluster, with which those of the files may overlap. One that
	// is in the files as well is replaced by it.
	Policies []v1alpha1.RemedyPolicy
}

// reportedElsewhere are the types of condition that Kubernetes reports, and those of the
// files in the folder config of node-problem-detector that report any.
func reportedElsewhere() []string {
	return []string{
		"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable",
		"KernelDeadlock", "ReadonlyFilesystem", "XfsShutdown", "CperHardwareErrorFatal", "CorruptDockerOverlay2",
		"FrequentUnregisterNetDevice", "FrequentKubeletRestart", "FrequentDockerRestart", "FrequentContainerdRestart",
		"KubeletUnhealthy", "ContainerRuntimeUnhealthy", "NTPProblem",
	}
}

// doubt says what makes a type of condition doubtful; "" if something reports it.
func (k *Known) doubt(conditionType string) string {
	types := reportedElsewhere()
	for t := range k.Conditions {
		types = append(types, t)
	}
	if slices.Contains(types, conditionType) {
		return ""
	}
	slices.Sort(types)
	for _, t := range types {
		if nearly(conditionType, t) {
			return "nothing known reports " + conditionType + "; did you mean " + t + "?"
		}
	}
	return "neither Kubernetes nor a check of Nodemend nor a file that node-problem-detector comes with reports " + conditionType +
		": make sure that something on the nodes does"
}
