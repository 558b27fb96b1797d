// Command krew writes the manifest by which krew (https://krew.sigs.k8s.io) installs the plugin,
// from the archives of a release.
//
//	krew -version v1.2.3 -url https://github.com/nodemend/nodemend/releases/download/v1.2.3 -o dist/nodemend.yaml dist/kubectl-nodemend-*.tar.gz
package main

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

//go:embed nodemend.yaml.tmpl
var manifest string

// platform is one archive of the plugin.
type platform struct{ OS, Arch, File, SHA256, Suffix string }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

func run() error {
	version := flag.String("version", "", "`version` of the release")
	url := flag.String("url", "", "`where` the files of the release will be")
	output := flag.String("o", "", "`file` to write")
	flag.Parse()
	if *version == "" || *url == "" || *output == "" || flag.NArg() == 0 {
		return errors.New("give -version, -url, -o and the archives")
	}
	var platforms []platform
	for _, archive := range flag.Args() {
		p, err := read(*version, archive)
		if err != nil {
			return err
		}
		platforms = append(platforms, p)
	}
	slices.SortFunc(platforms, func(a, b platform) int { return strings.Compare(a.File, b.File) })
	file, err := os.Create(*output)
	if err != nil {
		return err
	}
	err = template.Must(template.New("krew").Parse(manifest)).Execute(file, map[string]any{"Version": *version, "URL": strings.TrimSuffix(*url, "/"), "Platforms": platforms})
	return errors.Join(err, file.Close())
}

// read tells what an archive is for by its name.
func read(version, archive string) (platform, error) {
	name := filepath.Base(archive)
	middle, found := strings.CutPrefix(name, "kubectl-nodemend-"+version+"-")
	middle, whole := strings.CutSuffix(middle, ".tar.gz")
	system, arch, parts := strings.Cut(middle, "-")
	if !found || !whole || !parts {
		return platform{}, fmt.Errorf("%s: an archive is called kubectl-nodemend-%s-OS-ARCH.tar.gz", archive, version)
	}
	data, err := os.ReadFile(archive)
	if err != nil {
		return platform{}, err
	}
	sum := sha256.Sum256(data)
	p := platform{OS: system, Arch: arch, File: name, SHA256: hex.EncodeToString(sum[:])}
	if system == "windows" {
		p.Suffix = ".exe"
	}
	return p, nil
}
