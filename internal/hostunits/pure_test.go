package hostunits

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLinksMeanWhatTheyMeanOnTheHost(t *testing.T) {
	root := t.TempDir()
	for link, target := range map[string]string{
		"absolute": "/real", "relative": "real/sub", "up": "real/../../../real", "chain": "absolute", "loop": "loop", "deep/absolute": "/real", "real/back": "../relative",
	} {
		link = filepath.Join(root, link)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/deep/absolute/x": "/real/x",
		"/absolute/x":      "/real/x",
		"/relative/x":      "/real/sub/x",
		"/up/x":            "/real/x",
		"/chain/new/x":     "/real/new/x",
		"/real/back/x":     "/real/sub/x",
		"/not/there/x":     "/not/there/x",
		"/absolute":        "/absolute",
		"/../absolute/x":   "/real/x",
		"/loop/x":          "too many symbolic links",
		"/file/x/y":        "not a directory",
	} {
		got, err := hostRoot(root).path(path)
		if err != nil {
			got = err.Error()
		}
		if strings.HasPrefix(want, "/") {
			want = filepath.Join(root, want)
		}
		if !strings.HasSuffix(got, want) && !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if got, err := hostRoot("/").path("/proc/self/x"); err != nil || !strings.HasPrefix(got, "/proc/") {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestCommandLinesAreQuotedForSystemd(t *testing.T) {
	for arg, want := range map[string]string{
		"--metrics-address=:9102": "--metrics-address=:9102",
		"":                        `""`,
		"two words":               `"two words"`,
		`say "no"\n`:              `"say \"no\"\\n"`,
		"100%":                    "100%%",
		"$HOME ${HOME}":           `"$$HOME $${HOME}"`,
		"a\nb\tc":                 `"a\x0ab\x09c"`,
		";":                       `";"`,
		"'":                       `"'"`,
		"grün":                    `"grün"`,
		"#":                       `"#"`,
	} {
		if got, err := commandLine([]string{arg}); err != nil || got != want {
			t.Errorf("%q: got %s, %v, want %s", arg, got, err, want)
		}
	}
}

func TestUnitFilesDependOnNeitherRuntimeNorKubelet(t *testing.T) {
	for _, role := range []Role{Runner, Detector} {
		text, err := unitFile(role, []string{"/bin/x", string(role)})
		if err != nil {
			t.Fatal(err)
		}
		for _, wanted := range []string{
			"\nExecStart=/bin/x " + string(role) + "\n", "\nRestart=always\n", "\nStartLimitIntervalSec=0\n", "\nKillMode=mixed\n",
			"\nWantedBy=multi-user.target\n", "\nOOMScoreAdjust=-997\n", "systemctl edit " + role.Unit() + "\n",
		} {
			if !strings.Contains(string(text), wanted) {
				t.Errorf("%s lacks %q", role.Unit(), wanted)
			}
		}
		for line := range strings.Lines(string(text)) {
			for _, strong := range []string{"Requires=", "BindsTo=", "PartOf=", "Requisite=", "RuntimeDirectory="} {
				if strings.HasPrefix(line, strong) {
					t.Errorf("%s has %s", role.Unit(), line)
				}
			}
			if strings.Contains(line, "=") && (strings.Contains(line, "containerd") || strings.Contains(line, "kubelet")) {
				t.Errorf("%s has %s", role.Unit(), line)
			}
		}
	}
}

func TestTheLifetimeOfATokenIsReadFromIt(t *testing.T) {
	for token, want := range map[string]time.Duration{
		jwt(86400) + "\n": 24 * time.Hour,
		jwt(-1):           0,
		"opaque":          0,
		"a.!.c":           0,
		"a.e30.c":         0,
		"a.W10.c":         0,
	} {
		if got := lifetime(token); got != want {
			t.Errorf("%q: got %s, want %s", token, got, want)
		}
	}
}

func TestPropertiesOfSystemdAreRead(t *testing.T) {
	got := stateOf(map[string]any{
		"LoadState": "loaded", "ActiveState": "activating", "SubState": "auto-restart", "UnitFileState": "enabled",
		"NeedDaemonReload": true, "Result": "exit-code", "ExecMainStatus": int32(203), "MainPID": uint32(7),
	})
	want := State{"loaded", "activating", "auto-restart", "enabled", true, "exit-code", 203, 7}
	if got != want {
		t.Errorf("got %+v", got)
	}
	if text := got.String(); text != "activating (auto-restart), the last result is exit-code, the last exit status 203" {
		t.Errorf("got %q", text)
	}
	if text := (State{LoadState: "not-found", ActiveState: "inactive", SubState: "dead"}).String(); text != "inactive (dead), its file is not-found" {
		t.Errorf("got %q", text)
	}
}
