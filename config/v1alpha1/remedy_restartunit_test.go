package v1alpha1_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestUnitsThatEndTheSystemAreKnown(t *testing.T) {
	crd, err := os.ReadFile("../../deploy/chart/crds/nodemend.dev_remedypolicies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`self\.matches\(\'+(\^\(emergency[^']+)\'+\)`).FindSubmatch(crd)
	if match == nil {
		t.Fatal("the CRD has no rule about them")
	}
	rule := regexp.MustCompile(string(match[1]))
	for unit, ends := range map[string]struct{ policy, runner bool }{
		"systemd-reboot.service":                 {true, true},
		"systemd-poweroff.service":               {true, true},
		"systemd-halt.service":                   {true, true},
		"systemd-kexec.service":                  {true, true},
		"systemd-soft-reboot.service":            {true, true},
		"systemd-exit.service":                   {true, true},
		"systemd-suspend-then-hibernate.service": {true, true},
		"emergency.service":                      {true, true},
		"rescue.service":                         {true, true},
		"initrd-switch-root.service":             {true, true},
		"reboot.target":                          {false, true}, // which is no name that a policy can say
		"shutdown.target":                        {false, true},
		"runlevel6.target":                       {false, true},
		"containerd.service":                     {},
		"systemd-logind.service":                 {},
		"my-systemd-reboot.service":              {},
		"rescue.service.timer":                   {},
		"runlevel5.target":                       {},
		"multi-user.target":                      {},
	} {
		if got := v1alpha1.EndsSystem(unit); got != ends.runner {
			t.Errorf("%s: EndsSystem is %t", unit, got)
		}
		if got := rule.MatchString(unit); got != ends.policy {
			t.Errorf("%s: the CRD refuses it: %t", unit, got)
		}
	}
}
