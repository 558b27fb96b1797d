package detector

import "time"

// PLEG is the check that owns the condition PLEGUnhealthy.
type PLEG struct {
	Run `yaml:",inline"`
	// MaxLastSeen is how old the kubelet's last relist of its pods may be.
	MaxLastSeen Duration `yaml:"maxLastSeen"`
	// KubeletGrace is how long after the kubelet has started it may lack a
	// first relist.
	KubeletGrace Duration `yaml:"kubeletGrace"`
}

func (p *PLEG) setDefaults() {
	*p = PLEG{Run: defaultRun(), MaxLastSeen: Duration{time.Minute}, KubeletGrace: Duration{2 * time.Minute}}
}

func (p *PLEG) problems(found *problems, at func(field ...string) []string) {
	p.problemsWithin(maxCheckInterval, found, at)
	found.within(p.MaxLastSeen, 10*time.Second, 3*time.Minute, ", when the kubelet itself reports it", at("maxLastSeen")...)
	found.within(p.KubeletGrace, 0, maxGrace, "", at("kubeletGrace")...)
}
