package main

import (
	"os"
	"strings"
	"testing"
)

func TestWrongUseOfHostUnitsSaysWhatIsAccepted(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for line, want := range map[string]string{
		"instal":                             `unknown command "instal"; accepted are install and remove`,
		"install":                            "accepted by --role are runner and detector",
		"install --role=controller":          `unknown role "controller"; accepted are runner and detector`,
		"install --role=runner":              "give it with --server",
		"install --role=runner -v=1 x":       `unexpected argument "x"; flags of the role come after --`,
		"install --role=runner x -- -v=4":    `unexpected argument "x"`,
		"remove":                             "accepted by --role are runner and detector",
		"remove --role=kubelet":              `unknown role "kubelet"`,
		"remove --role=runner x":             `unknown command "x"`,
		"install --role=runner --metrics=:1": "unknown flag: --metrics",
	} {
		t.Run(line, func(t *testing.T) {
			root := newRootCommand(newLineWriter(os.Stderr))
			root.SetArgs(append([]string{"host-units"}, strings.Fields(line)...))
			checkError(t, root.ExecuteContext(t.Context()), want, true)
		})
	}
}

func TestTheServerIsTakenFromTheEnvironment(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_PORT", "6443")
	for host, want := range map[string]string{"10.0.0.1": "https://10.0.0.1:6443", "fd00::1": "https://[fd00::1]:6443"} {
		t.Setenv("KUBERNETES_SERVICE_HOST", host)
		if got, err := serverFromEnvironment(); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}
