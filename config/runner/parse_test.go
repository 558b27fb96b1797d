package runner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const example = `commands:
  allow: [/usr/local/bin/clean-shims, /usr/sbin/ipmitool]
  deny: [/usr/sbin/ipmitool]
units:
  allow: ["containerd.service", etcd*]
  deny: ["etcd*.service"]
reboots:
  deny: true
steps:
  allow: [0123456789012345678901234567890123456789012345678901234567890123, 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08]
`

func TestAFileIsReadAsPeopleWriteIt(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want Veto
	}{
		"all": {example, Veto{
			commands: list{allow: []string{"/usr/local/bin/clean-shims", "/usr/sbin/ipmitool"}, deny: []string{"/usr/sbin/ipmitool"}},
			units:    list{allow: []string{"containerd.service", "etcd*"}, deny: []string{"etcd*.service"}},
			reboots:  true,
			steps: []string{
				"0123456789012345678901234567890123456789012345678901234567890123", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
			},
		}},
		"nothing":       {"{}\n", Veto{}},
		"allow nothing": {"commands: {allow: []}", Veto{commands: list{allow: []string{}}}},
		"allow no step": {"steps: {allow: []}", Veto{steps: []string{}}},
		"section alone": {"commands:\nreboots: {deny: false}", Veto{}},
		"with an alias": {"commands: {allow: &a [/bin/x], deny: *a}", Veto{commands: list{allow: []string{"/bin/x"}, deny: []string{"/bin/x"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse("r.yaml", []byte(tc.file))
			if err != nil {
				t.Fatal(err)
			}
			tc.want.file = "r.yaml"
			if diff := cmp.Diff(&tc.want, got, cmp.AllowUnexported(Veto{}, list{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryMistakeIsNamedWithLineAndField(t *testing.T) {
	const (
		paths  = "accepted are absolute paths of programs, such as /usr/sbin/ipmitool, no patterns"
		units  = "accepted are names or patterns of units with their suffix, such as containerd.service, etcd*.service or getty@*.service"
		hashes = "accepted are hashes of steps, as nodemend policy hash FILE prints them"
	)
	for name, tc := range map[string]struct {
		file string
		want []string
	}{
		"all at once": {
			`commands:
  allow: /bin/x
  deny:
  - ipmitool
  - 7
  - ~
  - /usr/sbin/
  - /usr/sbin/*
  denied: [/bin/y]
units:
  allow:
  deny: [containerd, "[.service", a/b.service, system.slice, "", {}, "?.path", [a.service]]
reboots:
  deny: yes
  allow: true
reboot: {}
`,
			[]string{
				"r.yaml: line 2: commands.allow: is not a list: " + paths + ", or [] for none",
				`r.yaml: line 4: commands.deny.0: "ipmitool" is not accepted: ` + paths,
				`r.yaml: line 5: commands.deny.1: "7" is not accepted: ` + paths,
				`r.yaml: line 6: commands.deny.2: "~" is not accepted: ` + paths,
				`r.yaml: line 7: commands.deny.3: "/usr/sbin/" is not accepted: ` + paths,
				`r.yaml: line 8: commands.deny.4: "/usr/sbin/*" is not accepted: ` + paths,
				"r.yaml: line 11: units.allow: is not a list: " + units + ", or [] for none",
				`r.yaml: line 12: units.deny.0: "containerd" is not accepted: ` + units,
				`r.yaml: line 12: units.deny.1: "[.service" is not accepted: ` + units,
				`r.yaml: line 12: units.deny.2: "a/b.service" is not accepted: ` + units,
				`r.yaml: line 12: units.deny.3: "system.slice" is not accepted: ` + units,
				`r.yaml: line 12: units.deny.4: "" is not accepted: ` + units,
				`r.yaml: line 12: units.deny.5: "" is not accepted: ` + units,
				`r.yaml: line 12: units.deny.7: "" is not accepted: ` + units,
				`r.yaml: line 14: reboots.deny: "yes" is not accepted: accepted are true and false, without quotes`,
				"r.yaml: line 9: commands.denied: is not known: accepted is allow or deny",
				"r.yaml: line 16: reboot: is not known: accepted are commands, units, reboots and steps",
				"r.yaml: line 15: reboots.allow: is not known: accepted is deny",
			},
		},
		"steps": {
			"steps:\n  deny: []\n  allow: [9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08, reboot]",
			[]string{
				`r.yaml: line 3: steps.allow.0: "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08" is not accepted: ` + hashes,
				`r.yaml: line 3: steps.allow.1: "reboot" is not accepted: ` + hashes,
				"r.yaml: line 2: steps.deny: is not known: accepted is allow",
			},
		},
		"a quoted flag":     {"reboots: {deny: \"true\"}", []string{`r.yaml: line 1: reboots.deny: "true" is not accepted: accepted are true and false, without quotes`}},
		"no flag":           {"reboots: {deny: }", []string{`r.yaml: line 1: reboots.deny: "" is not accepted: accepted are true and false, without quotes`}},
		"a list":            {"- commands", []string{"r.yaml: line 1: fields with values are expected here, as name: value"}},
		"a section of text": {"units: {}\ncommands: none", []string{"r.yaml: line 2: fields with values are expected here, as name: value"}},
		"a field twice":     {"units:\n  deny: []\n  deny: []", []string{`r.yaml: line 3: mapping key "deny" already defined at line 2`}},
		"two documents":     {"{}\n---\n{}\n", []string{"r.yaml: line 2: only one YAML document is accepted in this file"}},
		"no YAML":           {"units: [\n", []string{"r.yaml: line 1: did not find expected node content"}},
		"empty":             {"", []string{"r.yaml: is empty: write {} to deny nothing"}},
		"only a comment":    {"# reboots: {deny: true}\n", []string{"r.yaml: is empty: write {} to deny nothing"}},
		"merge of nothing":  {"a:\n<<:", []string{"r.yaml: line 2: map merge requires map or sequence of maps as the value"}},
		"null":              {"---\n~\n", []string{"r.yaml: is empty: write {} to deny nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse("r.yaml", []byte(tc.file))
			if err == nil || got != nil {
				t.Fatalf("got %v and error %v, want an error alone", got, err)
			}
			if diff := cmp.Diff(tc.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("{}"))
	f.Add([]byte("commands: {allow: &a [/bin/../x], deny: *a}\n"))
	f.Add([]byte("units: {deny: ['a\\x2db[!c-d].mount']}\n"))
	f.Add([]byte("<<: {commands: 1}\n"))
	f.Add([]byte("a:\n<<:"))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Parse("r.yaml", data)
		if err != nil {
			if v != nil || err.Error() == "" {
				t.Errorf("got %v and error %q", v, err)
			}
			return
		}
		const nowhere = "/nonexistent"
		for _, program := range v.commands.deny {
			if v.Command(nowhere, program) == "" {
				t.Errorf("%q is in commands.deny and not denied", program)
			}
		}
		if v.commands.allow != nil && v.Command(nowhere, "/not/in/the/list/at/all") == "" {
			t.Errorf("a command that is not in %q is allowed", v.commands.allow)
		}
	})
}
