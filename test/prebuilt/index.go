package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

// indexURL is setup-envtest's index.
const indexURL = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"

// archive is a .tar.gz of etcd, kube-apiserver and kubectl.
type archive struct {
	Hash string `json:"hash"` // SHA-512 in hexadecimal digits
	URL  string `json:"selfLink"`
}

// index has the archives of each release by their file names.
type index struct {
	Releases map[string]map[string]archive `json:"releases"`
}

func parseIndex(text []byte) (index, error) {
	var x index
	if err := yaml.Unmarshal(text, &x); err != nil {
		return index{}, fmt.Errorf("%s is not an index of releases: %w", indexURL, err)
	}
	return x, nil
}

// pick returns the wanted release, or the newest patch of its minor version
// when the index has no archive of that for the platform, such as linux/amd64.
func (x index) pick(want, platform string) (string, archive, error) {
	wanted, err := version.ParseSemantic(want)
	if err != nil {
		return "", archive{}, fmt.Errorf("%q is not a Kubernetes release: %w", want, err)
	}
	var best *version.Version
	for name := range x.Releases {
		v, err := version.ParseSemantic(name)
		if err != nil || v.PreRelease() != "" || v.Major() != wanted.Major() || v.Minor() != wanted.Minor() {
			continue
		}
		if _, ok := x.Releases[name][archiveName(name, platform)]; !ok {
			continue
		}
		if v.EqualTo(wanted) {
			best = v
			break
		}
		if best == nil || best.LessThan(v) {
			best = v
		}
	}
	if best == nil {
		return "", archive{}, fmt.Errorf("%s has no Kubernetes v%d.%d for %s", indexURL, wanted.Major(), wanted.Minor(), platform)
	}
	release := "v" + best.String()
	return release, x.Releases[release][archiveName(release, platform)], nil
}

func archiveName(release, platform string) string {
	return "envtest-" + release + "-" + strings.ReplaceAll(platform, "/", "-") + ".tar.gz"
}
