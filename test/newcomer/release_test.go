//go:build integration

package newcomer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/test/helm"
)

var dist = flag.String("dist", "", "try the release that \"make release\" has written into this `directory`, instead of one for this machine alone")

// release is one that was published, as somebody finds it who has no clone.
type release struct {
	*scene
	files    string // the directory of its files
	version  string // v0.1.0
	registry string
	here     string // the directory in which commands are typed
	began    time.Time
}

// As README.md, docs/quickstart.md and docs/verify.md have it, word by word: from the files of a
// release and a registry, without a clone. How long each step takes is printed. A pod can't be
// entered here, so the line is written into the log without it.
func TestANewcomerTriesARelease(t *testing.T) {
	files, version := releaseFiles(t) // its build is not bounded by the scene
	r := &release{scene: newScene(t), files: files, version: version, registry: helm.Registry(t)}
	r.publish()
	r.notesAreForOtherPlaces()
	r.krewFindsTheArchives()

	r.began = time.Now()
	r.unpack()
	r.types(r.files, "sha256sum --check --ignore-missing --quiet SHA256SUMS")
	if got := r.types(r.here, "kubectl nodemend version --kubeconfig=/dev/null"); !regexp.MustCompile(`plugin +` + regexp.QuoteMeta(r.version) + ` `).MatchString(got) {
		t.Errorf("the plugin says of its version: %s", got)
	}
	r.took("the plugin tells its version")
	r.types(r.here, r.ofRelease("docs/quickstart.md", "## 2. Install")...)
	r.took("installed")
	r.hasTheVersion()
	r.healsALine(r.here + "/deploy/quickstart/")
	if got := r.types(r.here, r.ofRelease("docs/quickstart.md", "What was done, and what")...); !strings.Contains(got, "Recovered") || !strings.Contains(got, "| repairing ") {
		t.Errorf("history and describe say %s", got)
	}
	r.took("a node has healed")
	r.types(r.here, "nodemend policy check --strict --condition QuickstartProblem deploy/policies deploy/quickstart/policy.yaml")
	remind := r.cluster.RemindOfCRDs(r.ctx)
	r.types(r.here, r.ofRelease("docs/quickstart.md", "## 4. And back")...)
	r.must(remind())
	r.stopRoles()
	r.forgetConditions()
	r.nothingIsLeft()
	r.took("all is gone again")

	readme := r.ofRelease("README.md", "## Install")
	r.types(r.files, readme[0])
	r.kubectl("--namespace="+namespace, "rollout", "status", "deployment/nodemend-controller")
	r.hasTheVersion()
	r.took("installed as README.md has it")
	r.types(r.files, "helm uninstall nodemend --namespace nodemend-system --wait", "kubectl delete namespace nodemend-system")
	r.types(r.files, readme[1])
	r.types(r.here, "kubectl wait --for=condition=Established --timeout=-1s crd/remediationbudgets.nodemend.dev", "kubectl apply -f deploy/samples/budget.yaml")
	r.kubectl("--namespace="+namespace, "rollout", "status", "deployment/nodemend-controller")
	r.hasTheVersion()
	r.took("installed by install.yaml")
}

// releaseFiles returns the directory with the files of a release, which is built unless -dist has one,
// and its version.
func releaseFiles(t *testing.T) (files, version string) {
	t.Helper()
	if *dist != "" {
		charts, err := filepath.Glob(*dist + "/nodemend-*.tgz")
		if err != nil || len(charts) != 1 {
			t.Fatalf("-dist=%s has %d charts, want one: give the absolute path of what make release has written", *dist, len(charts))
		}
		return *dist, "v" + strings.TrimSuffix(strings.TrimPrefix(filepath.Base(charts[0]), "nodemend-"), ".tgz")
	}
	changes, err := os.ReadFile(helm.Root(t) + "/CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	newest := regexp.MustCompile(`(?m)^## \[(.*)\]`).FindSubmatch(changes)
	if newest == nil {
		t.Fatal("CHANGELOG.md has no version")
	}
	if version = "v" + string(newest[1]); version == "vUnreleased" {
		version = "v0.0.0-trial"
	}
	files = filepath.Join(t.TempDir(), "dist")
	build := exec.CommandContext(t.Context(), helm.Root(t)+"/tools/release/build", "release")
	build.Env = append(os.Environ(), "ONLY_HERE=yes", "VERSION="+version, "DIST="+files, "COSIGN_PRIVATE_KEY=")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building a release: %v: %s", err, output)
	}
	return files, version
}

// publish does what make publish does.
func (r *release) publish() {
	r.Helper()
	cmd := exec.CommandContext(r.ctx, helm.Root(r)+"/tools/release/publish")
	cmd.Env = append(os.Environ(), append(r.homes(), "DIST="+r.files, "IMAGE="+r.registry+"/nodemend/nodemend", "CHARTS="+r.registry+"/nodemend/charts")...)
	if output, err := cmd.CombinedOutput(); err != nil {
		r.Fatalf("publishing: %v: %s", err, output)
	}
	manifest, err := http.Get("http://" + r.registry + "/v2/nodemend/nodemend/manifests/" + r.version)
	r.must(err)
	body, err := io.ReadAll(manifest.Body)
	r.must(errors.Join(err, manifest.Body.Close()))
	if manifest.StatusCode != http.StatusOK || !strings.Contains(string(body), `"architecture":"`+runtime.GOARCH+`"`) {
		r.Errorf("the registry has no image %s of this machine: %s %s", r.version, manifest.Status, body)
	}
}

// notesAreForOtherPlaces makes sure that links of the release notes lead somewhere where they are read.
func (r *release) notesAreForOtherPlaces() {
	r.Helper()
	notes, err := os.ReadFile(r.files + "/release-notes.md")
	r.must(err)
	for _, link := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllSubmatch(notes, -1) {
		if !strings.HasPrefix(string(link[1]), "https://") {
			r.Errorf("the release notes have the link %s", link[1])
		}
	}
}

// krewFindsTheArchives makes sure that the manifest names the plugin's archives, their checksums and
// what is in them.
func (r *release) krewFindsTheArchives() {
	r.Helper()
	text, err := os.ReadFile(r.files + "/nodemend.yaml")
	r.must(err)
	var manifest struct {
		Spec struct {
			Version   string
			Platforms []struct {
				URI, SHA256, Bin string
				Files            []struct{ From string }
			}
		}
	}
	r.must(yaml.Unmarshal(text, &manifest))
	archives, err := filepath.Glob(r.files + "/kubectl-nodemend-*.tar.gz")
	r.must(err)
	if manifest.Spec.Version != r.version || len(manifest.Spec.Platforms) != len(archives) || len(archives) == 0 {
		r.Errorf("of %d archives of %s the manifest is %s", len(archives), r.version, text)
	}
	for _, p := range manifest.Spec.Platforms {
		data, err := os.ReadFile(filepath.Join(r.files, path.Base(p.URI)))
		r.must(err)
		if sum := sha256.Sum256(data); p.SHA256 != hex.EncodeToString(sum[:]) || !strings.Contains(p.URI, "/releases/download/"+r.version+"/") {
			r.Errorf("of %s the manifest has another checksum or place", p.URI)
		}
		members := strings.Fields(r.types(r.files, "tar -tzf "+path.Base(p.URI)))
		for _, f := range append(p.Files, struct{ From string }{"*/" + p.Bin}) {
			if !slices.ContainsFunc(members, func(name string) bool { ok, err := path.Match(f.From, name); return ok && err == nil }) {
				r.Errorf("%s has no %s: %q", p.URI, f.From, members)
			}
		}
	}
}

// unpack does what the pages say of the archives: the samples become the directory to be in, and the
// programs are in the path.
func (r *release) unpack() {
	r.Helper()
	bin := r.path()
	platform := r.version + "-" + runtime.GOOS + "-" + runtime.GOARCH
	for _, archive := range []string{"kubectl-nodemend-" + platform, "nodemend-" + platform} {
		r.types(r.files, "tar -xzf "+archive+".tar.gz --strip-components=1 -C "+bin)
	}
	r.types(r.dir, "tar -xzf "+r.files+"/nodemend-"+r.version+"-samples.tar.gz")
	r.here = filepath.Join(r.dir, "nodemend-"+r.version+"-samples")
	r.programs, r.plugin = bin, filepath.Join(bin, "kubectl-nodemend")
	r.took("unpacked")
}

// ofRelease returns the lines of a page for this release and registry, instead of a clone.
func (r *release) ofRelease(name, below string) []string {
	r.Helper()
	chart := "oci://" + r.registry + "/nodemend/charts/nodemend --plain-http --version " + r.version[1:]
	return r.page(name, below, "oci://ghcr.io/nodemend/charts/nodemend --version 0.1.0", chart, "deploy/chart", chart, "image.tag=v0.1.0", "image.tag="+r.version)
}

// hasTheVersion makes sure that what runs is of the release.
func (r *release) hasTheVersion() {
	r.Helper()
	got := r.types(r.here, "kubectl nodemend version")
	for _, role := range []string{"plugin", "controller", "detector", "runner"} {
		if !regexp.MustCompile(`(?m)^` + role + ` +` + regexp.QuoteMeta(r.version) + ` `).MatchString(got) {
			r.Errorf("%s is not of version %s:\n%s", role, r.version, got)
		}
	}
}

// took prints for how long the user has tried.
func (r *release) took(what string) {
	r.Helper()
	r.Logf("%6.1f s  %s", time.Since(r.began).Seconds(), what)
}
