//go:build integration

package newcomer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/helm"
)

// As docs/rollout.md and docs/operate.md have it, word by word, from a clone.
func TestTheFirstTwoWeeksAreAsThePageHasThem(t *testing.T) {
	s := newScene(t)
	bin := s.path()
	s.must(os.Symlink(s.build("nodemend", ""), filepath.Join(bin, "nodemend")))
	s.must(os.Symlink(s.build("kubectl-nodemend", ""), filepath.Join(bin, "kubectl-nodemend")))
	stage := func(below string, detectors, runners int) {
		t.Helper()
		s.types(helm.Root(t), s.page("docs/rollout.md", below)...)
		for role, want := range map[string]int{"detector": detectors, "runner": runners} {
			if want > 0 {
				s.kubectl("--namespace="+namespace, "rollout", "status", "daemonset/nodemend-"+role)
			}
			s.waitFor(fmt.Sprintf("%s: %d nodes have a %s", below, want, role), func() (bool, string) {
				pods := s.kubectl("--namespace="+namespace, "get", "pods", "--output=name", "--selector=app.kubernetes.io/component="+role)
				return len(strings.Fields(pods)) == want, pods
			})
		}
	}
	s.types(helm.Root(t), s.page("docs/rollout.md", "# The first two weeks")...)
	stage("## Days 1 to 4", 4, 0)
	stage("## Days 5 to 9", 4, 3)
	s.shows("status", "which 0 act")
	stage("## Days 13 and 14", 4, 4)
	stage("## Later versions", 4, 4)

	for _, occasion := range []string{"## The first day", "## Every day", "## Stop it"} {
		s.types(helm.Root(t), s.page("docs/operate.md", occasion, "worker-17", "worker-1")...)
	}
	s.shows("status", "PAUSED: the cluster: rack move", "PAUSED: budget all-nodes")
	s.shows("why worker-1", "excluded", "all-nodes, group -: 0 of 1 permits taken, PAUSED")
}

// path returns a directory of programs that is in the path of what is typed.
func (s *scene) path() string {
	s.Helper()
	bin := filepath.Join(s.dir, "bin")
	s.must(os.Mkdir(bin, 0o700))
	kubectl, err := cluster.Program("kubectl")
	s.must(err)
	for name, program := range map[string]string{"helm": helm.Program(s), "kubectl": kubectl} {
		s.must(os.Symlink(program, filepath.Join(bin, name)))
	}
	return bin
}

// homes are settings of nobody.
func (s *scene) homes() []string {
	return []string{"HOME=" + s.dir, "HELM_CACHE_HOME=" + s.dir, "HELM_CONFIG_HOME=" + s.dir, "HELM_DATA_HOME=" + s.dir, "GOCACHE=" + s.goEnv("GOCACHE"), "GOMODCACHE=" + s.goEnv("GOMODCACHE")}
}

func (s *scene) goEnv(name string) string {
	s.Helper()
	out, err := exec.CommandContext(s.ctx, "go", "env", name).Output()
	s.must(err)
	return strings.TrimSpace(string(out))
}

// types runs lines in a shell, as the user does, and returns what they print.
func (s *scene) types(dir string, lines ...string) string {
	s.Helper()
	cmd := exec.CommandContext(s.ctx, "sh", "-euc", strings.Join(lines, "\n"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append(s.homes(), "PATH="+s.dir+"/bin:"+os.Getenv("PATH"), "KUBECONFIG="+s.cluster.Kubeconfig)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v: %s", strings.Join(lines, "\n"), err, out)
	}
	return string(out)
}

// page returns the lines of the first block of shell below a text of a page, with the old texts replaced
// by the new ones.
func (s *scene) page(name, below string, oldnew ...string) []string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(helm.Root(s), name))
	s.must(err)
	_, rest, found := strings.Cut(string(text), below)
	_, rest, block := strings.Cut(rest, "```sh\n")
	block = block && found
	lines, _, ended := strings.Cut(rest, "\n```")
	if !block || !ended {
		s.Fatalf("%s has no block of shell below %s", name, below)
	}
	lines = strings.NewReplacer(append([]string{"\\\n", " "}, oldnew...)...).Replace(lines)
	return strings.Split(lines, "\n")
}
