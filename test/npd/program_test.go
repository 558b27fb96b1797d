//go:build integration

package npd

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

const (
	upstreamModule = "k8s.io/node-problem-detector"
	ours           = "nodemend"
)

// program is one of the two that are compared.
type program struct {
	name     string
	path     string
	upstream bool
	// repairs lets the detector's health-checker repair.
	repairs bool
	// args come before those that both have in common.
	args func(s *scene) []string
}

// programsDir is where programs are built.
func programsDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("nodemend-npd-%d", os.Getpid()))
}

// build builds all programs, once. It is a package variable since tests have
// nothing else in common.
var build = sync.OnceValue(func() error {
	// TestMain removes what is built: it serves more than the test that asks first.
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-tags=disable_stackdriver_exporter", "-o", programsDir()+"/",
		upstreamModule+"/cmd/nodeproblemdetector",
		upstreamModule+"/cmd/healthchecker",
		"github.com/nodemend/nodemend/cmd/nodemend",
	)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	err := os.MkdirAll(programsDir(), 0o700)
	if err == nil {
		var output []byte
		if output, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, output)
		}
	}
	if err == nil {
		// The name by which configuration files call it.
		err = os.Rename(filepath.Join(programsDir(), "healthchecker"), filepath.Join(programsDir(), "health-checker"))
	}
	if err != nil {
		return errors.Join(errors.New("building the programs"), err)
	}
	return nil
})

// programs returns node-problem-detector and the detector.
func programs(t *testing.T) []program {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return []program{
		{
			name: "node-problem-detector", path: filepath.Join(programsDir(), "nodeproblemdetector"), upstream: true,
			args: func(*scene) []string { return nil },
		},
		detectorProgram(t),
	}
}

// detectorProgram is the detector without checks of its own.
func detectorProgram(t *testing.T) program {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return program{
		name: "detector", path: filepath.Join(programsDir(), ours),
		args: func(s *scene) []string { return []string{"detector", "--config=" + s.detectorConfig()} },
	}
}

// finding is a defect that a scenario looks for.
type finding struct {
	defect   string
	seen     bool
	evidence string
}

// expectOfUpstreamOnly observes each program in a scene of its own. What it
// looks for must be seen of node-problem-detector and must not be seen of the
// detector.
func expectOfUpstreamOnly(t *testing.T, observe func(s *scene) []finding) {
	t.Helper()
	for _, p := range programs(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, f := range observe(newScene(t, p)) {
				switch {
				case f.seen && !p.upstream:
					t.Errorf("it has the defect that %s: %s", f.defect, f.evidence)
				case !f.seen && p.upstream:
					t.Errorf("this does not show the defect that %s: %s", f.defect, f.evidence)
				default:
					t.Logf("%s: %t: %s", f.defect, f.seen, f.evidence)
				}
			}
		})
	}
}
