package cluster

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestProgramsAreFoundInTheRootModuleFromBelowANestedOne(t *testing.T) {
	g := NewWithT(t)
	t.Setenv(assetsEnv, "")
	root := t.TempDir()
	etcd := filepath.Join(root, "bin", "kubebuilder", "etcd")
	write(t, filepath.Join(root, "go.mod"), "module "+modulePath+"\n\ngo 1.26.5\n")
	write(t, filepath.Join(root, "tools", "go.mod"), "module "+modulePath+"/tools\n")
	write(t, etcd, "")
	t.Chdir(filepath.Join(root, "tools"))

	g.Expect(Program("etcd")).To(Equal(etcd))
	_, err := Program("kwok")
	g.Expect(err).To(MatchError(ContainSubstring(`run "make controlplane" first`)))
}

func TestTheEnvironmentOverridesWhereProgramsAre(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	t.Setenv(assetsEnv, dir)
	write(t, filepath.Join(dir, "etcd"), "")
	g.Expect(Program("etcd")).To(Equal(filepath.Join(dir, "etcd")))
	_, err := Program("kwok")
	g.Expect(err).To(MatchError(ContainSubstring("no kwok in " + dir + ", which " + assetsEnv + " names")))

	t.Setenv(assetsEnv, "bin/assets")
	_, err = Program("etcd")
	g.Expect(err).To(MatchError(ContainSubstring("set it to an absolute path")))
}

func TestOutsideTheModuleTheErrorNamesTheVariableToSet(t *testing.T) {
	t.Setenv(assetsEnv, "")
	t.Chdir(t.TempDir())
	_, err := Program("etcd")
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("set " + assetsEnv)))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
