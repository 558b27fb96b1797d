package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const (
	fullBuild   = "go build -v -trimpath -buildvcs=false -ldflags FLAGS -o OUT ."
	demoBuild   = "go build -v -trimpath -buildvcs=false -ldflags FLAGS -tags nokubelet -o OUT ."
	kwokBuild   = "go build -trimpath -buildvcs=false -ldflags FLAGS -o OUT ./kwok/cmd"
	fromSource  = "controlplane: building Kubernetes v1.37.1 from source"
	demoSource  = "controlplane: building Kubernetes v1.37.1 without kubelet from source"
	notDownload = "controlplane: not downloaded: "
)

// checkout is a copy of test/controlplane/build, with a go command that compiles
// nothing.
type checkout struct {
	t      *testing.T
	g      Gomega
	dir    string
	mirror string
	env    []string
}

func newCheckout(t *testing.T, mirror string) *checkout {
	for _, program := range []string{"bash", "flock", "sha256sum", "awk"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("test/controlplane/build needs %s: %v", program, err)
		}
	}
	c := &checkout{t: t, g: NewWithT(t), dir: t.TempDir(), mirror: mirror}
	script, err := os.ReadFile("../controlplane/build")
	c.g.Expect(err).NotTo(HaveOccurred())
	c.write("test/controlplane/build", string(script))
	info, err := os.Stat("../controlplane/build")
	c.g.Expect(err).NotTo(HaveOccurred())
	c.g.Expect(info.Mode().Perm()&0o111).NotTo(BeZero(), "make runs it")
	c.write("test/controlplane/go.mod", "module x\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/kubernetes v1.37.1\n\tsigs.k8s.io/kwok v0.8.0\n)\n")
	return c
}

func (c *checkout) path(parts ...string) string {
	return filepath.Join(append([]string{c.dir}, parts...)...)
}

func (c *checkout) write(name, text string) {
	path := c.path(filepath.FromSlash(name))
	c.g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	c.g.Expect(os.WriteFile(path, []byte(text), 0o755)).To(Succeed())
}

// build runs the script and returns what it prints, and whether it succeeds.
func (c *checkout) build(args ...string) (string, bool) {
	c.t.Helper()
	self, err := os.Executable()
	c.g.Expect(err).NotTo(HaveOccurred())
	bin, err := filepath.Abs("testdata/bin")
	c.g.Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(c.path("test", "controlplane", "build"), args...)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBEBUILDER_ASSETS=",
		"GORACE=atexit_sleep_ms=0", "PREBUILT_TEST_BINARY="+self, "PREBUILT_TEST_BUILDS="+c.path("builds"),
		silenceEnv+"=1m", mirrorEnv+"="+c.mirror)
	cmd.Env = append(cmd.Env, c.env...)
	output, err := cmd.CombinedOutput()
	c.t.Logf("%v: %v\n%s", args, err, output)
	return string(output), err == nil
}

// succeeds runs the script, expects these programs to be linked, and returns what
// it prints.
func (c *checkout) succeeds(programs []string, args ...string) string {
	c.t.Helper()
	output, ok := c.build(args...)
	c.g.Expect(ok).To(BeTrue())
	c.g.Expect(names(c.t, c.path("bin", "kubebuilder"))).To(ConsistOf(programs))
	for _, program := range programs {
		c.g.Expect(exec.Command(c.path("bin", "kubebuilder", program)).Run()).To(Succeed(), program)
	}
	c.g.Expect(exec.Command(c.path("bin", "kubectl")).Run()).To(Succeed())
	c.g.Expect(c.path("bin", "prebuilt.new")).NotTo(BeAnExistingFile())
	return output
}

// prints returns what a linked program prints.
func (c *checkout) prints(program string) string {
	c.t.Helper()
	output, err := exec.Command(c.path("bin", "kubebuilder", program)).Output()
	c.g.Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(output))
}

// built returns what was compiled since the last call.
func (c *checkout) built() []string {
	c.t.Helper()
	path := c.path("builds")
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	c.g.Expect(err).NotTo(HaveOccurred())
	c.g.Expect(os.Remove(path)).To(Succeed())
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, line := range lines {
		before, after, _ := strings.Cut(line, "-ldflags ")
		flags := strings.Index(after, " -tags")
		if flags < 0 {
			flags = strings.Index(after, " -o")
		}
		lines[i] = before + "-ldflags FLAGS" + after[flags:]
	}
	return lines
}

var (
	demoPrograms = append([]string{"kwok"}, forDemo...)
	allPrograms  = append([]string{"kwok"}, forAll...)
)

func TestWhatCanBeDownloadedIsNotBuilt(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	c := newCheckout(t, m.URL)

	c.g.Expect(c.succeeds(demoPrograms, "--without-kubelet")).To(And(
		ContainSubstring("controlplane: downloaded Kubernetes v1.37.1"), ContainSubstring("controlplane: building kwok v0.8.0")))
	c.g.Expect(c.built()).To(Equal([]string{kwokBuild}))
	c.g.Expect(c.prints("etcd")).To(Equal("etcd v1.37.1"))
	c.g.Expect(m.requests()).NotTo(ContainElement("kubelet"))

	c.g.Expect(c.succeeds(demoPrograms, "--without-kubelet")).To(BeEmpty(), "the second time")
	c.g.Expect(m.requests()).To(BeEmpty())

	c.g.Expect(c.succeeds(allPrograms)).To(ContainSubstring("downloading Kubernetes v1.37.1: kubelet\n"))
	c.g.Expect(c.prints("kubelet")).To(Equal("kubelet v1.37.1"))
	c.g.Expect(c.succeeds(allPrograms, "--without-kubelet")).To(BeEmpty(), "the kubelet stays")
	c.g.Expect(c.built()).To(BeEmpty())

	c.write("test/controlplane/main.go", "package main\n")
	c.g.Expect(c.succeeds(allPrograms)).NotTo(ContainSubstring("downloading"))
	c.g.Expect(c.built()).To(Equal([]string{kwokBuild}))
}

func TestWhatCannotBeDownloadedIsBuilt(t *testing.T) {
	for name, test := range map[string]struct {
		spoil   func(*mirror)
		silence string
		want    string
	}{
		"offline":                 {func(m *mirror) { m.Close() }, "1m", "connection refused"},
		"a server that is silent": {func(m *mirror) { m.handle(indexURL, silent) }, "300ms", "nothing came for 300ms"},
		"a wrong checksum":        {func(m *mirror) { m.put(programURL("v1.37.1", "kubelet"), "evil") }, "1m", "kubelet is refused: its checksum is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMirror(t)
			test.spoil(m)
			c := newCheckout(t, m.URL)
			c.env = []string{silenceEnv + "=" + test.silence}

			c.g.Expect(c.succeeds(allPrograms)).To(And(
				ContainSubstring(notDownload), ContainSubstring(test.want), ContainSubstring(fromSource)))
			c.g.Expect(c.built()).To(Equal([]string{fullBuild}))
			c.g.Expect(c.path("bin", "prebuilt")).NotTo(BeAnExistingFile())
			c.g.Expect(c.succeeds(allPrograms)).To(BeEmpty(), "the second time")
		})
	}
}

func TestTheDemoIsServedByAFullBuildButBuildsNoKubelet(t *testing.T) {
	t.Parallel()
	c := newCheckout(t, "off")

	c.g.Expect(c.succeeds(demoPrograms, "--without-kubelet")).To(And(
		ContainSubstring(notDownload+"CONTROLPLANE_MIRROR is off"), ContainSubstring(demoSource)))
	c.g.Expect(c.built()).To(Equal([]string{demoBuild}))
	c.g.Expect(c.succeeds(demoPrograms, "--without-kubelet")).To(BeEmpty(), "the second time")

	c.g.Expect(c.succeeds(allPrograms)).To(ContainSubstring(fromSource))
	c.g.Expect(c.built()).To(Equal([]string{fullBuild}))
	c.g.Expect(c.succeeds(allPrograms, "--without-kubelet")).To(BeEmpty())
	c.g.Expect(c.built()).To(BeEmpty())
}

func TestABuildReplacesADownloadThatCannotBeCompleted(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	c := newCheckout(t, m.URL)
	c.succeeds(demoPrograms, "--without-kubelet")
	m.Close()

	c.g.Expect(c.succeeds(allPrograms)).To(And(ContainSubstring(notDownload), ContainSubstring(fromSource)))
	c.g.Expect(c.prints("etcd")).To(HavePrefix("go build"))
	c.g.Expect(c.path("bin", "prebuilt")).NotTo(BeAnExistingFile())
}

func TestTheProgramsThatTheEnvironmentNamesAreTaken(t *testing.T) {
	t.Parallel()
	c := newCheckout(t, "http://127.0.0.1:1")
	assets := t.TempDir()
	for _, program := range demoPrograms {
		c.g.Expect(os.WriteFile(filepath.Join(assets, program), []byte("#!/bin/sh\n"), 0o755)).To(Succeed())
	}
	c.env = []string{"KUBEBUILDER_ASSETS=" + assets}

	output, ok := c.build("--without-kubelet")
	c.g.Expect(ok).To(BeTrue())
	c.g.Expect(output).To(Equal("controlplane: using the programs in " + assets + ", which KUBEBUILDER_ASSETS names\n"))
	c.g.Expect(os.Readlink(c.path("bin", "kubectl"))).To(Equal(filepath.Join(assets, "kubectl")))

	output, ok = c.build()
	c.g.Expect(ok).To(BeFalse())
	c.g.Expect(output).To(HavePrefix("controlplane: no program kubelet in " + assets + ", which KUBEBUILDER_ASSETS names: "))

	c.env = []string{"KUBEBUILDER_ASSETS=assets"}
	output, ok = c.build()
	c.g.Expect(ok).To(BeFalse())
	c.g.Expect(output).To(ContainSubstring("set it to an absolute path"))
	c.g.Expect(c.built()).To(BeEmpty())
}
