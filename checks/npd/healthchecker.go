package npd

import (
	"fmt"
	"os/exec"

	"github.com/spf13/pflag"
	npd "k8s.io/node-problem-detector/cmd/healthchecker/options"
	"k8s.io/node-problem-detector/pkg/healthchecker"
	"k8s.io/node-problem-detector/pkg/healthchecker/types"
)

// HealthChecker is NPD's plugin of that name.
type HealthChecker struct{ options *npd.HealthCheckerOptions }

// NewHealthChecker adds the plugin's flags to set, which is to be parsed before Check.
// Unlike NPD's program it repairs nothing unless it is given --enable-repair.
func NewHealthChecker(set *pflag.FlagSet) (*HealthChecker, error) {
	options := npd.NewHealthCheckerOptions()
	if err := options.AddFlags(set); err != nil {
		return nil, err
	}
	options.EnableRepair = false
	set.Lookup("enable-repair").DefValue = "false"
	return &HealthChecker{options}, nil
}

// Check checks the component that the flags name, once. problem says in NPD's words
// that it is unhealthy; empty: it is healthy. An error means that this could not be
// found out.
func (h *HealthChecker) Check() (problem string, err error) {
	h.options.SetDefaults()
	if err := h.options.IsValid(); err != nil {
		return "", err
	}
	for _, program := range h.neededPrograms() {
		// Without it, a healthy component would be found unhealthy, or a log full
		// of failures empty.
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("error checking %v health: %w; install it where this runs", h.options.Component, err)
		}
	}
	checker, err := healthchecker.NewHealthChecker(h.options)
	if err != nil {
		return "", err
	}
	healthy, err := checker.CheckHealth()
	switch {
	case err != nil:
		return "", fmt.Errorf("error checking %v health: %w", h.options.Component, err)
	case healthy:
		return "", nil
	default:
		return fmt.Sprintf("%v:%v was found unhealthy; repair flag : %v", h.options.Component, h.options.Service, h.options.EnableRepair), nil
	}
}

// neededPrograms are those without which nothing can be said.
func (h *HealthChecker) neededPrograms() (needed []string) {
	switch h.options.Component {
	case types.CRIComponent:
		needed = append(needed, h.options.CriCtlPath)
	case types.DockerComponent:
		needed = append(needed, "docker")
	}
	if len(h.options.LogPatterns.GetLogPatternCountMap()) > 0 {
		needed = append(needed, "systemctl", "journalctl")
	}
	return needed
}
