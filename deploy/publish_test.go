//go:build integration

package deploy_test

import (
	"bytes"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/test/helm"
)

// registry is one on loopback, for the test alone.
type registry struct{ host string }

// get returns what the registry answers, and the digest that it names.
func (r registry) get(t *testing.T, path string) (text, digest string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.host+"/v2/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v: %s", path, resp.Status, err, data)
	}
	return string(data), resp.Header.Get("Docker-Content-Digest")
}

func (r registry) publish(t *testing.T, dist string) (string, error) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), helm.Root(t)+"/tools/release/publish")
	cmd.Env = append(os.Environ(), "DIST="+dist, "IMAGE="+r.host+"/nodemend/nodemend", "CHARTS="+r.host+"/nodemend/charts",
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func TestAReleaseIsPublishedToARegistry(t *testing.T) {
	s, r := newSigner(t), registry{helm.Registry(t)}
	dist := s.release(t)
	if _, err := helm.Run(t, "package", helm.Chart, "--destination="+dist, "--version=0.1.0", "--app-version=v0.1.0"); err != nil {
		t.Fatal(err)
	}
	sum(t, dist)
	if output, err := s.sign(t, dist, "COSIGN_PRIVATE_KEY="+pkcs8(t, newKey(t, elliptic.P256()))); err != nil {
		t.Fatalf("signing: %v: %s", err, output)
	}
	for range 2 { // the second changes nothing
		if output, err := r.publish(t, dist); err != nil {
			t.Fatalf("publishing: %v: %s", err, output)
		}
	}

	var index struct {
		Manifests []struct{ Digest string }
	}
	archived, err := exec.CommandContext(t.Context(), "tar", "-xOf", filepath.Join(dist, imageFile), "index.json").Output()
	if err := errors.Join(err, json.Unmarshal(archived, &index)); err != nil {
		t.Fatal(err)
	}
	want := index.Manifests[0].Digest
	if _, got := r.get(t, "nodemend/nodemend/manifests/v0.1.0"); got != want {
		t.Errorf("the image has the digest %s, in the archive it has %s", got, want)
	}
	if tags, _ := r.get(t, "nodemend/nodemend/tags/list"); !strings.Contains(tags, `"`+strings.Replace(want, ":", "-", 1)+`.sig"`) {
		t.Errorf("there is no signature where cosign looks for it: %s", tags)
	}
	r.hasBundles(t, dist, want)
	t.Run("cosign", func(t *testing.T) {
		cosign := findCosign(t)
		image := r.host + "/nodemend/nodemend:v0.1.0"
		for _, verification := range [][]string{{"verify", image}, {"verify-attestation", "--type=slsaprovenance1", image}} {
			if output, err := cosign(t, dist, verification...); err != nil {
				t.Errorf("%q: %v: %s", verification, err, output)
			}
		}
	})
	pulled := t.TempDir()
	if _, err := helm.Run(t, "pull", "oci://"+r.host+"/nodemend/charts/nodemend", "--version=0.1.0", "--plain-http", "--destination="+pulled); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(get(t, filepath.Join(pulled, chartFile)), get(t, filepath.Join(dist, chartFile))) {
		t.Error("the chart is another one than that of the release")
	}

	put(t, filepath.Join(dist, "install.yaml"), []byte("less"))
	if output, err := r.publish(t, dist); err == nil || !strings.Contains(output, "are not those of SHA256SUMS") {
		t.Errorf("a release with a changed file: %v: %s", err, output)
	}
	if output, err := r.publish(t, t.TempDir()); err == nil || !strings.Contains(output, "run make release first") {
		t.Errorf("no release: %v: %s", err, output)
	}
}

// hasBundles makes sure that the bundles of a release are where cosign 3 looks: in the list of
// what refers to the image, which a registry without that API has under a tag.
func (r registry) hasBundles(t *testing.T, dist, digest string) {
	t.Helper()
	const repository, bundleType = "nodemend/nodemend/", "application/vnd.dev.sigstore.bundle.v0.3+json"
	type blob struct{ MediaType, ArtifactType, Digest string }
	var referrers struct{ Manifests []blob }
	list, _ := r.get(t, repository+"manifests/"+strings.Replace(digest, ":", "-", 1))
	if err := json.Unmarshal([]byte(list), &referrers); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, referrer := range referrers.Manifests {
		if referrer.ArtifactType != bundleType {
			t.Errorf("it is listed as %s", referrer.ArtifactType)
		}
		var manifest struct {
			ArtifactType    string
			Config, Subject blob
			Layers          []blob
			Annotations     map[string]string
		}
		content, _ := r.get(t, repository+"manifests/"+referrer.Digest)
		if err := json.Unmarshal([]byte(content), &manifest); err != nil {
			t.Fatal(err)
		}
		if manifest.ArtifactType != bundleType || manifest.Config.MediaType != "application/vnd.oci.empty.v1+json" || manifest.Subject.Digest != digest ||
			len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != bundleType {
			t.Errorf("its manifest is %s", content)
			continue
		}
		found[manifest.Annotations["dev.sigstore.bundle.predicateType"]], _ = r.get(t, repository+"blobs/"+manifest.Layers[0].Digest)
	}
	want := map[string]string{
		"https://sigstore.dev/cosign/sign/v1": string(get(t, filepath.Join(dist, imageBundle))),
		"https://slsa.dev/provenance/v1":      string(get(t, filepath.Join(dist, provenanceBundle))),
	}
	if !maps.Equal(found, want) {
		t.Errorf("to the image refers %v, not %v", found, want)
	}
}

// sum writes the checksums of all files of a release.
func sum(t *testing.T, dist string) {
	t.Helper()
	files := content(t, dist)
	delete(files, "SHA256SUMS")
	sums := ""
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256(get(t, filepath.Join(dist, name))), name)
	}
	put(t, filepath.Join(dist, "SHA256SUMS"), []byte(sums))
}

func TestKrewInstallsThePluginOfARelease(t *testing.T) {
	krew, dir := helm.Tool(t, "./krew"), t.TempDir()
	var archives []string
	for _, platform := range []string{"linux-amd64", "darwin-arm64", "windows-amd64"} {
		archive := filepath.Join(dir, "kubectl-nodemend-v0.1.0-"+platform+".tar.gz")
		put(t, archive, []byte(platform))
		archives = append(archives, archive)
	}
	file := filepath.Join(dir, "nodemend.yaml")
	run := func(archives ...string) (string, error) {
		output, err := exec.CommandContext(t.Context(), krew, append([]string{"-version=v0.1.0", "-url=https://example.com/v0.1.0", "-o=" + file}, archives...)...).CombinedOutput()
		return string(output), err
	}
	if output, err := run(archives...); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	var manifest struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version, ShortDescription string
			Platforms                 []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
				Files            []struct{ From, To string }
			}
		}
	}
	if err := yaml.Unmarshal(get(t, file), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Metadata.Name != "nodemend" || manifest.Spec.Version != "v0.1.0" || len(manifest.Spec.Platforms) != len(archives) || len(manifest.Spec.ShortDescription) > 50 {
		t.Errorf("got %+v", manifest)
	}
	for _, p := range manifest.Spec.Platforms {
		platform := p.Selector.MatchLabels["os"] + "-" + p.Selector.MatchLabels["arch"]
		bin := "kubectl-nodemend"
		if p.Selector.MatchLabels["os"] == "windows" {
			bin += ".exe"
		}
		if p.URI != "https://example.com/v0.1.0/kubectl-nodemend-v0.1.0-"+platform+".tar.gz" || p.SHA256 != fmt.Sprintf("%x", sha256.Sum256([]byte(platform))) ||
			p.Bin != bin || len(p.Files) != 2 || p.Files[0].From != "*/"+bin {
			t.Errorf("%s: got %+v", platform, p)
		}
	}
	if output, err := run(filepath.Join(dir, "nodemend-v0.1.0-linux-amd64.tar.gz")); err == nil || !strings.Contains(output, "an archive is called kubectl-nodemend-v0.1.0-OS-ARCH.tar.gz") {
		t.Errorf("another archive: %v: %s", err, output)
	}
}

// Artifact Hub reads annotations as YAML of its own.
func TestTheChartTellsArtifactHubOfItself(t *testing.T) {
	var chart struct {
		Icon        string
		Annotations map[string]string
	}
	if err := yaml.Unmarshal(get(t, "chart/Chart.yaml"), &chart); err != nil {
		t.Fatal(err)
	}
	var links []struct{ Name, URL string }
	if err := yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/links"]), &links); err != nil || len(links) == 0 {
		t.Errorf("links: %v: %+v", err, links)
	}
	const repository = "https://github.com/nodemend/nodemend/"
	urls := []string{strings.Replace(chart.Icon, "https://raw.githubusercontent.com/nodemend/nodemend/main/", repository+"blob/main/", 1)}
	for _, link := range links {
		urls = append(urls, link.URL)
	}
	for _, url := range urls {
		path, here := strings.CutPrefix(strings.Replace(url, "/tree/main/", "/blob/main/", 1), repository+"blob/main/")
		if _, err := os.Stat(filepath.Join(helm.Root(t), path)); !here || err != nil {
			t.Errorf("%s leads to nothing here: %v", url, err)
		}
	}
}
