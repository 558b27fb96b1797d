package services

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	calico = `{"name": "k8s-pod-network", "cniVersion": "0.3.1", "plugins": [{"type": "calico", "ipam": {"type": "calico-ipam"}}, {"type": "portmap"}]}`
	bridge = `{"name": "bridge", "cniVersion": "1.0.0", "type": "bridge"}`
)

// hostWith makes a root directory with files; those below bin are programs, and what begins
// with -> is a link.
func hostWith(t *testing.T, files map[string]string) root {
	t.Helper()
	dir := t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path, content := filepath.Join(dir, name), files[name]
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if filepath.Base(filepath.Dir(name)) == "bin" {
			mode = 0o755
		}
		var err error
		switch {
		case content == "folder":
			err = os.MkdirAll(path, 0o755)
		case content == "pipe":
			err = unix.Mkfifo(path, 0o644)
		case len(content) > 2 && content[:2] == "->":
			err = os.Symlink(content[2:], path)
		default:
			err = os.WriteFile(path, []byte(content), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root(dir)
}

func TestWhetherAPodNetworkIsConfigured(t *testing.T) {
	const file = "etc/cni/net.d/10-calico.conflist"
	with := func(more map[string]string) map[string]string {
		all := map[string]string{file: calico, "opt/cni/bin/calico": "", "opt/cni/bin/portmap": ""}
		maps.Copy(all, more)
		return all
	}
	for name, tc := range map[string]struct {
		files            map[string]string
		configs, plugins []string
		reason, text     string
	}{
		"as usual":                                   {files: with(nil), text: "pod network k8s-pod-network of /etc/cni/net.d/10-calico.conflist"},
		"a single configuration":                     {files: map[string]string{"etc/cni/net.d/b.conf": bridge, "usr/lib/cni/bin/x": "", "opt/cni/bin/bridge": ""}, text: "pod network bridge"},
		"no such folder":                             {text: "there is no folder of CNI configurations"},
		"no such folder, which is to be there":       {configs: []string{"/srv/cni"}, reason: ReasonNoConfig, text: "no pod network is configured in /srv/cni"},
		"an empty folder":                            {files: map[string]string{"etc/cni/net.d/readme.txt": "", "etc/cni/net.d/old.conf.bak": calico}, reason: ReasonNoConfig, text: "/etc/cni/net.d"},
		"an empty folder, and that of k3s":           {files: map[string]string{"etc/cni/net.d": "folder", "var/lib/rancher/k3s/agent/etc/cni/net.d/10-flannel.conflist": calico}, text: "pod network k8s-pod-network of /var/lib/rancher"},
		"another folder":                             {files: map[string]string{"srv/cni/net.conflist": calico}, configs: []string{"/srv/cni"}, text: "pod network"},
		"half a file":                                {files: with(map[string]string{file: calico[:40]}), reason: ReasonInvalidConfig, text: "10-calico.conflist can't be loaded: unexpected end of JSON input"},
		"an empty file":                              {files: with(map[string]string{file: ""}), reason: ReasonInvalidConfig},
		"a list without plugins":                     {files: with(map[string]string{file: `{"name": "a"}`}), reason: ReasonInvalidConfig, text: "it has no plugins"},
		"a list without a name":                      {files: with(map[string]string{file: `{"plugins": [{"type": "a"}]}`}), reason: ReasonInvalidConfig, text: "it has no name"},
		"a plugin without a type":                    {files: with(map[string]string{file: `{"name": "a", "plugins": [{"type": "a"}, {}]}`}), reason: ReasonInvalidConfig, text: `plugin 2 has the type ""`},
		"a plugin that leads elsewhere":              {files: with(map[string]string{file: `{"name": "a", "plugins": [{"type": "../../tmp/x"}]}`}), reason: ReasonInvalidConfig, text: "no name of a program"},
		"the first file counts":                      {files: with(map[string]string{"etc/cni/net.d/00-broken.conf": "{"}), reason: ReasonInvalidConfig, text: "00-broken.conf"},
		"and no later one":                           {files: with(map[string]string{"etc/cni/net.d/99-broken.conf": "{"}), text: "pod network"},
		"a program is missing":                       {files: map[string]string{file: calico, "opt/cni/bin/calico": ""}, reason: ReasonNoPlugin, text: "/etc/cni/net.d/10-calico.conflist needs the programs portmap, which are not in /opt/cni/bin"},
		"a program may not be executed":              {files: map[string]string{file: calico, "opt/cni/bin/calico": "", "usr/lib/cni/portmap": ""}, reason: ReasonNoPlugin, text: "portmap, which are not in /opt/cni/bin, /usr/lib/cni"},
		"programs are in two folders":                {files: map[string]string{file: calico, "opt/cni/bin/calico": "", "usr/libexec/cni": "->/usr/bin", "usr/bin/portmap": ""}, text: "pod network"},
		"none of the usual folders of programs":      {files: map[string]string{file: calico}, text: "pod network"},
		"programs that are to be in a folder":        {files: map[string]string{file: calico}, plugins: []string{"/srv/bin"}, reason: ReasonNoPlugin, text: "calico, portmap, which are not in /srv/bin"},
		"programs in another folder":                 {files: map[string]string{file: calico, "srv/bin/calico": "", "srv/bin/portmap": ""}, plugins: []string{"/srv/bin"}, text: "pod network"},
		"a link that is absolute leads nowhere else": {files: map[string]string{"etc/cni/net.d": "->/run/cni", "run/cni/a.conflist": calico}, text: "pod network k8s-pod-network of /etc/cni/net.d/a.conflist"},
		"a pipe is not waited for":                   {files: with(map[string]string{"etc/cni/net.d/00.conf": "pipe"}), reason: ReasonNotSeen, text: "is no file"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, hostWith(t, tc.files).cni(tc.configs, tc.plugins), tc.reason, tc.text)
		})
	}
}
