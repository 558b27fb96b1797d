package command

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/cgroup"
)

func TestACommandIsNotProtectedFromShortMemoryAsItsRunnerIs(t *testing.T) {
	const score = "/proc/self/oom_score_adj"
	before, err := os.ReadFile(score)
	if err != nil {
		t.Fatal(err)
	}
	own := "-997\n"
	if os.WriteFile(score, []byte(own), 0) != nil { // which takes a right that root may lack
		own = "500\n"
		if err := os.WriteFile(score, []byte(own), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := os.WriteFile(score, before, 0); err != nil {
			t.Error(err)
		}
	})
	got := shell(t, "cat "+score+"; (cat "+score+")")
	if got.Reason != v1alpha1.ReasonSucceeded || got.Result.Output != "0\n0\n" {
		t.Errorf("got %s %q with output %q, want the score 0", got.Reason, got.Message, got.Result.Output)
	}
	if text, err := os.ReadFile(score); err != nil || string(text) != own {
		t.Errorf("the runner's own score is %q, error %v", text, err)
	}
}

// A control group is played by a directory, since not every kernel counts processes in
// those of version 2.
func TestTheProcessesOfADirectCommandAreLimited(t *testing.T) {
	root := t.TempDir()
	all := filepath.Join(root, "nodemend")
	g := cgroup.Group(filepath.Join(all, "command"))
	if err := os.MkdirAll(string(g), 0o700); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		filepath.Join(root, "cgroup.subtree_control"): "+pids",
		filepath.Join(all, "cgroup.subtree_control"):  "+pids",
		filepath.Join(string(g), "pids.max"):          strconv.Itoa(maxTasks),
	}
	for file := range want {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := makeLimited(g)
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Close(); err != nil {
		t.Error(err)
	}
	for file, text := range want {
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("%s has %q, error %v, want %q", file, got, err, text)
		}
	}
}

// TestAForkBombLeavesTheNodeItsProcesses forks more than a command may, where the kernel
// counts.
func TestAForkBombLeavesTheNodeItsProcesses(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root to make a control group")
	}
	r := unprivileged(t, nil)
	r.opts.Cgroup = ""
	controllers, err := os.ReadFile(filepath.Join(r.cgroupRoot(), "cgroup.controllers"))
	if err != nil || !strings.Contains(string(controllers), "pids") {
		t.Skipf("this kernel counts no processes in cgroup2: it has %q, error %v", controllers, err)
	}
	order := directOrder(longEnough, "/bin/sh", "-c", `i=0; while [ $i -lt 5000 ]; do sleep 1000 & i=$((i+1)); done; echo all`)
	t.Cleanup(func() {
		if err := r.Clean(context.WithoutCancel(t.Context()), order); err != nil {
			t.Error(err)
		}
	})
	got := r.Execute(t.Context(), order)
	if got.Reason != v1alpha1.ReasonFailed || strings.Contains(got.Result.Output, "all") {
		t.Errorf("got %s %q with output %q, want a fork that fails", got.Reason, got.Message, got.Result.Output)
	}
	if r.directGroup(unitName(order.Action)).Populated() {
		t.Error("some of its processes are left")
	}
}
