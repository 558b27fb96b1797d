package detector

import "time"

// KubeletCheck is the check that owns the condition KubeletUnhealthy.
type KubeletCheck struct {
	Run `yaml:",inline"`
	// Unit is the systemd unit of the kubelet; empty: the first that is loaded
	// of those that kubeadm, k3s and RKE2 use.
	Unit string `yaml:"unit"`
	// MaxRestarts within RestartWindow are no problem.
	MaxRestarts   int      `yaml:"maxRestarts"`
	RestartWindow Duration `yaml:"restartWindow"`
}

func (k *KubeletCheck) setDefaults() {
	*k = KubeletCheck{Run: defaultRun(), MaxRestarts: 4, RestartWindow: Duration{10 * time.Minute}}
}

func (k *KubeletCheck) problems(found *problems, at func(field ...string) []string) {
	k.problemsWithin(maxCheckInterval, found, at)
	found.count(k.MaxRestarts, 0, at("maxRestarts")...)
	found.within(k.RestartWindow, time.Minute, maxWindow, "", at("restartWindow")...)
}
