package runner

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/utils/clock"
)

func TestTheIDOfTheMachineIsReadAsItsKubeletDoes(t *testing.T) {
	const etc, dbus = "etc/machine-id", "var/lib/dbus/machine-id"
	for name, test := range map[string]struct {
		files, links map[string]string
		want         string
	}{
		"there is one":     {files: map[string]string{etc: "0123\n", dbus: "4567\n"}, want: "0123"},
		"that of D-Bus":    {files: map[string]string{dbus: "4567\n"}, want: "4567"},
		"there is none":    {},
		"it is empty":      {files: map[string]string{etc: "", dbus: "4567\n"}},
		"a link":           {files: map[string]string{"run/id": "0123\n"}, links: map[string]string{etc: "/run/id"}, want: "0123"},
		"a link to itself": {links: map[string]string{etc: "machine-id"}},
		"a directory":      {files: map[string]string{etc + "/id": "0123"}},
	} {
		root := t.TempDir()
		for path, content := range test.files {
			must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755))
			must(t, os.WriteFile(filepath.Join(root, path), []byte(content), 0o600))
		}
		for path, to := range test.links {
			must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755))
			must(t, os.Symlink(to, filepath.Join(root, path)))
		}
		if got := machineIDOf(Options{HostRoot: root, Clock: clock.RealClock{}}); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
