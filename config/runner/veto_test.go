package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNoFileDeniesNothing(t *testing.T) {
	var none *Veto
	if got := none.Command("", "/bin/sh") + none.Unit("a.service") + none.Reboot(); got != "" {
		t.Error(got)
	}
}

// newRoot makes the root directory of a node: /bin is /usr/bin, and there are
// links of all kinds.
func newRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"usr/bin", "usr/sbin", "opt/tools/bin", "proc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"usr/bin/dash", "usr/bin/true", "usr/sbin/ipmitool", "opt/tools/bin/clean"} {
		if err := os.WriteFile(filepath.Join(root, program), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"bin": "usr/bin", "sbin": "/usr/sbin", "usr/bin/sh": "dash",
		"usr/bin/clean": "/opt/tools/current/clean", "opt/tools/current": "bin",
		"usr/bin/innocent": "../sbin/ipmitool", "usr/bin/up": "../../../../../../sbin/ipmitool",
		"usr/bin/loop": "loop", "usr/bin/dangling": "/gone/away",
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestNoLinkLeadsAroundACommandsVeto(t *testing.T) {
	root := newRoot(t)
	for name, tc := range map[string]struct {
		file, command string
		denied        string // part of the reason; "" if allowed
	}{
		"no list":                           {"{}", "/bin/sh", ""},
		"denied as written":                 {"deny: [/usr/sbin/ipmitool]", "/usr/sbin/ipmitool", "commands.deny of r.yaml has /usr/sbin/ipmitool, which is this command"},
		"another":                           {"deny: [/usr/sbin/ipmitool]", "/usr/bin/true", ""},
		"denied through a linked directory": {"deny: [/usr/sbin/ipmitool]", "/sbin/ipmitool", "commands.deny of r.yaml has /usr/sbin/ipmitool, which leads to the same file as /sbin/ipmitool"},
		"an entry in a linked directory":    {"deny: [/sbin/ipmitool]", "/usr/sbin/ipmitool", "/sbin/ipmitool"},
		"denied through another name":       {"deny: [/usr/sbin/ipmitool]", "/bin/innocent", "ipmitool"},
		"denied through the root":           {"deny: [/usr/sbin/ipmitool]", "/usr/bin/up", "ipmitool"},
		"denied with dots":                  {"deny: [/usr/sbin/ipmitool]", "/bin/../sbin//./ipmitool", "ipmitool"},
		"a script":                          {"deny: [/bin/sh]", "/bin/sh", "/bin/sh"},
		"what a script runs in":             {"deny: [/bin/sh]", "/usr/bin/dash", "/bin/sh"},
		"a link that is denied":             {"deny: [/usr/bin/innocent]", "/usr/sbin/ipmitool", "innocent"},
		"a denied program that is not here": {"deny: [/usr/bin/reboot]", "/bin/reboot", "/usr/bin/reboot"},
		"a dangling link":                   {"deny: [/gone/away]", "/bin/dangling", "/gone/away"},
		"by its own name, a link":           {"deny: [/usr/bin/innocent]", "/usr/bin/innocent", "innocent, which is this command"},
		"a link without end":                {"deny: [/x]", "/usr/bin/loop", "r.yaml can't tell whether it denies the command: following the links of /usr/bin/loop: /usr/bin/loop: too many levels"},
		"an entry without end":              {"deny: [/usr/bin/loop]", "/bin/true", "can't tell whether it denies /bin/true"},
		"no absolute path":                  {"deny: [/x]", "true", `"true" is not an absolute path`},

		"allowed as written":                {"allow: [/usr/bin/true]", "/usr/bin/true", ""},
		"allowed through a link":            {"allow: [/usr/bin/true]", "/bin/true", ""},
		"allowed by a link":                 {"allow: [/bin/clean]", "/opt/tools/bin/clean", ""},
		"not in the list":                   {"allow: [/usr/bin/true]", "/sbin/ipmitool", "commands.allow of r.yaml does not have /usr/sbin/ipmitool"},
		"a name in the list, another file":  {"allow: [/bin/true/../innocent]", "/usr/bin/clean", "commands.allow"},
		"an empty list":                     {"allow: []", "/usr/bin/true", "commands.allow of r.yaml does not have /usr/bin/true"},
		"an entry of the list without end":  {"allow: [/bin/loop, /bin/true]", "/bin/true", ""},
		"deny wins":                         {"allow: [/bin/true], deny: [/usr/bin/true]", "/bin/true", "commands.deny"},
		"allowed beside something denied":   {"allow: [/bin/true, /bin/sh], deny: [/bin/sh]", "/bin/true", ""},
		"a link inside of what is no place": {"allow: [/usr/bin/true]", "/usr/bin/true/x", "commands.allow"},
	} {
		t.Run(name, func(t *testing.T) {
			file := "commands: {" + tc.file + "}"
			if tc.file == "{}" {
				file = tc.file
			}
			check(t, parse(t, file).Command(root, tc.command), tc.denied)
		})
	}
}

func TestTheKernelsOwnLinksAreNotFollowed(t *testing.T) {
	v := parse(t, "commands: {deny: [/usr/sbin/ipmitool]}")
	for _, command := range []string{"/proc/self/cwd/usr/sbin/ipmitool", "/proc/self/exe"} {
		check(t, v.Command("", command), "links in /proc are not accepted")
	}
}

func TestADeniedUnitIsNotRestartedWithAnother(t *testing.T) {
	const file = `units: {allow: [a.service], deny: ["etcd*.service"]}`
	veto := parse(t, file)
	check(t, veto.Dependents("a.service", []string{"b.service"}), "")
	check(t, veto.Dependents("a.service", []string{"b.service", "etcd-main.service"}),
		"units.deny of r.yaml has etcd*.service, which matches etcd-main.service, and systemd stops or restarts that with a.service")
	var none *Veto
	check(t, none.Dependents("a.service", []string{"etcd.service"}), "")
}

func TestAUnitIsDeniedByAnyOfItsNamesAndAllowedByItsFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		file   string
		names  []string
		denied string
	}{
		"no list":                {"{}", []string{"a.service"}, ""},
		"denied":                 {"deny: [a.service]", []string{"a.service"}, "units.deny of r.yaml has a.service, which matches a.service"},
		"denied by a pattern":    {`deny: ["etcd*.service"]`, []string{"etcd-main.service"}, "units.deny of r.yaml has etcd*.service, which matches etcd-main.service"},
		"another":                {`deny: ["etcd*.service"]`, []string{"containerd.service"}, ""},
		"denied by an alias":     {"deny: [sshd.service]", []string{"ssh.service", "sshd.service"}, "matches sshd.service"},
		"negated as in a shell":  {`deny: ["[!c]*"]`, []string{"etcd.service"}, "[!c]*"},
		"negated, not matched":   {`deny: ["[!c]*"]`, []string{"containerd.service"}, ""},
		"an escaped name":        {`deny: ['a\x2db.mount']`, []string{`a\x2db.mount`}, "units.deny"},
		"allowed":                {"allow: [a.service]", []string{"a.service", "b.service"}, ""},
		"allowed by a pattern":   {`allow: ["*.service"]`, []string{"a.service"}, ""},
		"only an alias allowed":  {"allow: [b.service]", []string{"a.service", "b.service"}, "units.allow of r.yaml does not have a.service"},
		"not in the list":        {"allow: [a.service]", []string{"b.service"}, "units.allow of r.yaml does not have b.service"},
		"an empty list":          {"allow: []", []string{"a.service"}, "units.allow"},
		"deny wins":              {`allow: ["*"], deny: [a.service]`, []string{"a.service"}, "units.deny"},
		"a unit without a name":  {"deny: [a.service]", nil, "without a name"},
		"part of a name matches": {"deny: [a.service]", []string{"aa.service"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := "units: {" + tc.file + "}"
			if tc.file == "{}" {
				file = tc.file
			}
			check(t, parse(t, file).Unit(tc.names...), tc.denied)
		})
	}
}

func TestRebootsAreDeniedOnlyIfTheFileSaysSo(t *testing.T) {
	check(t, parse(t, "reboots: {deny: true}").Reboot(), "reboots.deny of r.yaml is true")
	check(t, parse(t, "reboots: {deny: false}").Reboot(), "")
	check(t, parse(t, "{}").Reboot(), "")
}

func TestOnlyTheStepsOfTheListAreAllowed(t *testing.T) {
	known, unknown := strings.Repeat("a", 64), strings.Repeat("b", 64)
	pinned := parse(t, "steps: {allow: ["+known+"]}")
	check(t, pinned.Step(known), "")
	check(t, pinned.Step(unknown), "steps.allow of r.yaml does not have the step with hash "+unknown)
	check(t, parse(t, "steps: {allow: []}").Step(known), "steps.allow")
	check(t, parse(t, "steps: {}").Step(known), "")
	check(t, (*Veto)(nil).Step(known), "")
}

func parse(t *testing.T, file string) *Veto {
	t.Helper()
	v, err := Parse("r.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// check compares a reason with a part of it, or with none.
func check(t *testing.T, got, want string) {
	t.Helper()
	if (got == "") != (want == "") || !strings.Contains(got, want) {
		t.Errorf("reason %q, want %q", got, want)
	}
}
