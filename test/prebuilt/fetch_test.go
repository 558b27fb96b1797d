package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

var (
	forDemo = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}
	forAll  = append(slices.Clone(forDemo), "kubelet")
)

func wish(t *testing.T, programs []string) (request, *bytes.Buffer) {
	log := &bytes.Buffer{}
	return request{kubernetes: "v1.37.1", platform: platform, programs: programs, dir: filepath.Join(t.TempDir(), "prebuilt"), log: log}, log
}

func TestProgramsAreDownloadedVerifiedAndExecutable(t *testing.T) {
	g := NewWithT(t)
	m := newMirror(t)
	r, log := wish(t, forAll)

	g.Expect(r.fetch(t.Context(), m.source(t))).To(Succeed())

	for _, program := range forAll {
		file := filepath.Join(r.dir, program)
		g.Expect(os.ReadFile(file)).To(BeEquivalentTo(script(program, "v1.37.1")))
		info, err := os.Stat(file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(info.Mode().Perm() & 0o111).NotTo(BeZero())
	}
	g.Expect(names(t, r.dir)).To(ConsistOf(append(slices.Clone(forAll), "release")))
	g.Expect(names(t, filepath.Dir(r.dir))).To(ConsistOf("prebuilt"))
	g.Expect(log.String()).To(ContainSubstring("controlplane: downloaded Kubernetes v1.37.1 ("))
}

func TestWhatIsThereIsNotDownloadedAgain(t *testing.T) {
	g := NewWithT(t)
	m := newMirror(t)
	r, log := wish(t, forDemo)
	g.Expect(r.fetch(t.Context(), m.source(t))).To(Succeed())
	m.requests()
	log.Reset()

	g.Expect(r.fetch(t.Context(), m.source(t))).To(Succeed())
	g.Expect(m.requests()).To(BeEmpty(), "no network is needed for what is there")
	g.Expect(log.String()).To(BeEmpty())

	r.programs = forAll
	g.Expect(r.fetch(t.Context(), m.source(t))).To(Succeed())
	g.Expect(m.requests()).To(Equal([]string{"envtest-releases.yaml", "kubelet.sha256", "kubelet"}))
	g.Expect(names(t, r.dir)).To(ConsistOf(append(slices.Clone(forAll), "release")))

	m.addRelease(t, "v1.38.0")
	m.put(indexURL, indexOf("v1.37.1", "v1.38.0"))
	r.kubernetes, r.programs = "v1.38.0", forDemo
	g.Expect(r.fetch(t.Context(), m.source(t))).To(Succeed())
	g.Expect(names(t, r.dir)).To(ConsistOf(append(slices.Clone(forDemo), "release")), "no program of another release stays")
	g.Expect(os.ReadFile(filepath.Join(r.dir, "etcd"))).To(BeEquivalentTo(script("etcd", "v1.38.0")))
}

func TestANewerPatchReplacesAllThatIsThereWhenOneIsMissing(t *testing.T) {
	g := NewWithT(t)
	m := newMirror(t)
	m.addRelease(t, "v1.37.0")
	m.put(indexURL, indexOf("v1.37.0"))
	r, log := wish(t, forDemo)
	g.Expect(r.fetch(t.Context(), m.source(t))).To(Succeed())
	g.Expect(log.String()).To(ContainSubstring("downloaded Kubernetes v1.37.0, the index has no v1.37.1 ("))

	m.put(indexURL, indexOf("v1.37.0", "v1.37.1"))
	r.programs = forAll
	g.Expect(r.fetch(t.Context(), m.source(t))).To(Succeed())
	for _, program := range forAll {
		g.Expect(os.ReadFile(filepath.Join(r.dir, program))).To(BeEquivalentTo(script(program, "v1.37.1")))
	}
}

func TestAFailedDownloadSaysWhyAndLeavesNothing(t *testing.T) {
	const kubelet = "https://dl.k8s.io/release/v1.37.1/bin/linux/amd64/kubelet"
	for name, test := range map[string]struct {
		spoil    func(*mirror)
		platform string
		want     string
	}{
		"no index":             {func(m *mirror) { m.handle(indexURL, http.NotFound) }, platform, "envtest-releases.yaml: 404 Not Found"},
		"an index of nonsense": {func(m *mirror) { m.put(indexURL, "<html>") }, platform, "is not an index of releases"},
		"an endless index": {
			func(m *mirror) { m.put(indexURL, strings.Repeat("#", maxText+1)) }, platform, "larger than 10485760 bytes",
		},
		"another minor release": {func(m *mirror) { m.put(indexURL, indexOf("v1.36.0")) }, platform, "has no Kubernetes v1.37 for linux/amd64"},
		"another platform":      {func(*mirror) {}, "plan9/386", "has no Kubernetes v1.37 for plan9/386"},
		"no archive":            {func(m *mirror) { m.handle(archiveURL("v1.37.1"), http.NotFound) }, platform, "amd64.tar.gz: 404 Not Found"},
		"another archive":       {func(m *mirror) { m.put(archiveURL("v1.37.1"), "evil") }, platform, "amd64.tar.gz is refused: its checksum is "},
		"an archive that is cut": {
			func(m *mirror) { m.handle(archiveURL("v1.37.1"), cut) }, platform, "amd64.tar.gz: unexpected EOF",
		},
		"no program":        {func(m *mirror) { m.handle(kubelet, http.NotFound) }, platform, "amd64/kubelet: 404 Not Found"},
		"no checksum":       {func(m *mirror) { m.handle(kubelet+".sha256", http.NotFound) }, platform, "amd64/kubelet.sha256: 404 Not Found"},
		"an empty checksum": {func(m *mirror) { m.put(kubelet+".sha256", "") }, platform, kubelet + " is refused"},
		"another program":   {func(m *mirror) { m.put(kubelet, "evil") }, platform, kubelet + " is refused: its checksum is "},
		"a program that is cut": {
			func(m *mirror) { m.handle(kubelet, cut) }, platform, "amd64/kubelet: unexpected EOF",
		},
		"a server that hangs up": {func(m *mirror) { m.handle(indexURL, hangUp) }, platform, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m := newMirror(t)
			test.spoil(m)
			r, log := wish(t, forAll)
			r.platform = test.platform

			g.Expect(r.fetch(t.Context(), m.source(t))).To(MatchError(ContainSubstring(test.want)))

			g.Expect(names(t, filepath.Dir(r.dir))).To(BeEmpty())
			g.Expect(log.String()).NotTo(ContainSubstring("downloaded"))
		})
	}
}

func TestAFailedDownloadLeavesWhatWasThere(t *testing.T) {
	g := NewWithT(t)
	m := newMirror(t)
	r, _ := wish(t, forDemo)
	g.Expect(r.fetch(t.Context(), m.source(t))).To(Succeed())

	m.handle(programURL("v1.37.1", "kubelet"), cut)
	r.programs = forAll
	g.Expect(r.fetch(t.Context(), m.source(t))).NotTo(Succeed())
	g.Expect(names(t, r.dir)).To(ConsistOf(append(slices.Clone(forDemo), "release")))
	g.Expect(names(t, filepath.Dir(r.dir))).To(ConsistOf("prebuilt"))
}

func TestAnArchiveWithoutAProgramIsRefused(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	tarball := filepath.Join(dir, "archive")
	g.Expect(os.WriteFile(tarball, archiveOf(t, "v1.37.1", "etcd", "kubectl"), 0o600)).To(Succeed())
	g.Expect(unpack(tarball, t.TempDir(), archived)).To(MatchError("no kube-apiserver in it"))
}

func TestWithoutAMirrorFilesComeFromWhereTheyArePublished(t *testing.T) {
	g := NewWithT(t)
	m := newMirror(t)
	var asked []string
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.String())
		onMirror, err := http.NewRequestWithContext(r.Context(), r.Method, m.URL+"/"+r.URL.Host+r.URL.Path, nil)
		if err != nil {
			return nil, err
		}
		return m.Client().Transport.RoundTrip(onMirror)
	})}
	r, _ := wish(t, []string{"etcd", "kubelet"})
	g.Expect(r.fetch(t.Context(), source{client: client, silence: time.Minute})).To(Succeed())
	g.Expect(asked).To(Equal([]string{
		"https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml",
		"https://dl.k8s.io/release/v1.37.1/bin/linux/amd64/kubelet.sha256",
		"https://dl.k8s.io/release/v1.37.1/bin/linux/amd64/kubelet",
		archiveURL("v1.37.1"),
	}))
}

func TestAMirrorMayHaveAPathAndAPasswordThatNoErrorShows(t *testing.T) {
	g := NewWithT(t)
	u, err := parseMirror("https://me:secret@mirror.example/k8s/")
	g.Expect(err).NotTo(HaveOccurred())
	s := source{mirror: u, silence: time.Minute, client: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("no route")
	})}}
	_, err = s.text(t.Context(), "https://dl.k8s.io/release/stable.txt")
	g.Expect(err).To(MatchError("GET https://me:xxxxx@mirror.example/k8s/dl.k8s.io/release/stable.txt: no route"))
}

func TestTheMirrorIsAURLOrOff(t *testing.T) {
	g := NewWithT(t)
	g.Expect(parseMirror("")).To(BeNil())
	g.Expect(parseMirror("http://127.0.0.1:1/x")).To(Equal(&url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/x"}))
	_, err := parseMirror("off")
	g.Expect(err).To(MatchError("CONTROLPLANE_MIRROR is off"))
	for _, text := range []string{"mirror.example", "ftp://mirror.example", "https://", "on"} {
		_, err = parseMirror(text)
		g.Expect(err).To(MatchError(ContainSubstring("CONTROLPLANE_MIRROR is not the URL of a mirror")), text)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
