//go:build integration

package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/test/containerd"
	"github.com/nodemend/nodemend/test/helm"
)

func TestContainerdImportsTheImage(t *testing.T) {
	runtimeSocket := strings.TrimPrefix(containerd.Start(t).Endpoint, "unix://")
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "nodemend"), []byte("#!"), 0o700); err != nil {
		t.Fatal(err)
	}
	const name = "registry.example.com:5000/nodemend:v1"
	write := func(file string) []byte {
		tool := exec.CommandContext(t.Context(), "go", "run", "-C", helm.Root(t)+"/tools/release", "./image",
			"-name="+name, "-version=v1", "-o="+file, runtime.GOARCH+"="+root, "other="+root)
		tool.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
		if output, err := tool.CombinedOutput(); err != nil {
			t.Fatalf("writing the image: %v: %s", err, output)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	archive := filepath.Join(dir, "image.tar")
	if !bytes.Equal(write(archive), write(archive+".2")) {
		t.Error("the same files give another image")
	}
	ctr := func(args ...string) string {
		output, err := exec.CommandContext(t.Context(), "ctr", append([]string{"--address=" + runtimeSocket}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("ctr %q: %v: %s", args, err, output)
		}
		return string(output)
	}
	ctr("images", "import", "--snapshotter=native", archive)
	if list := ctr("images", "ls"); !strings.Contains(list, name) || !strings.Contains(list, "linux/"+runtime.GOARCH) {
		t.Errorf("imported %s", list)
	}
	mounted := filepath.Join(dir, "mounted")
	if err := os.Mkdir(mounted, 0o700); err != nil {
		t.Fatal(err)
	}
	ctr("images", "mount", "--snapshotter=native", name, mounted)
	defer ctr("images", "unmount", mounted)
	info, err := os.Stat(filepath.Join(mounted, "nodemend"))
	if err != nil || info.Mode() != 0o755 || info.ModTime().Unix() != 1700000000 {
		t.Errorf("the program in the image: %v, %v", info, err)
	}
}
