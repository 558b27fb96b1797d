package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// assetsEnv overrides the directory that holds the programs; the name is
	// the one that envtest made common.
	assetsEnv = "KUBEBUILDER_ASSETS"

	modulePath = "github.com/nodemend/nodemend"
)

// Program returns the path of one of the control plane's programs: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl or
// kwok. They are looked for in the directory named by KUBEBUILDER_ASSETS, an
// absolute path, else in bin/kubebuilder of the module that the working directory
// is in.
func Program(name string) (string, error) {
	dir, err := assetsDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv(assetsEnv) != "" {
			return "", fmt.Errorf("no %s in %s, which %s names: put it there or unset %s: %w", name, dir, assetsEnv, assetsEnv, err)
		}
		return "", fmt.Errorf("no %s in %s, run \"make controlplane\" first or set %s: %w", name, dir, assetsEnv, err)
	}
	return path, nil
}

func assetsDir() (string, error) {
	if dir := os.Getenv(assetsEnv); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", fmt.Errorf("%s is %s: set it to an absolute path, as each test runs in a directory of its own", assetsEnv, dir)
		}
		return dir, nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		root, err := isModuleRoot(dir)
		if err != nil {
			return "", err
		}
		if root {
			return filepath.Join(dir, "bin", "kubebuilder"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside module %s: set %s to the directory of the control plane's programs", wd, modulePath, assetsEnv)
		}
	}
}

// isModuleRoot tells whether dir is the root of the product's module, not of one
// of the other modules in its tree.
func isModuleRoot(dir string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(first) == "module "+modulePath, err
}
