//go:build integration

package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/systemlog"
)

// patience bounds every wait.
const patience = time.Minute

// machine is this one, if its driver has a GPU, with a program in the place of nvidia-smi, which
// changes what the real one says. Nothing of the GPU is changed.
type machine struct {
	*testing.T
	dir string
	gpu gpu
	smi place
}

func newReal(t *testing.T) *machine {
	t.Helper()
	all := files{"/sys", "/proc"}.look()
	for _, g := range all.gpus {
		if g.driver != driver || g.leftOut {
			continue
		}
		where, err := (&program{}).find()
		if err != nil || where.path == "" {
			t.Skipf("needs nvidia-smi: %v", err)
		}
		if where.root != "" {
			t.Skipf("nvidia-smi is in another root, %s, and is not changed there", where.root)
		}
		r := &machine{t, t.TempDir(), g, where}
		r.say("")
		return r
	}
	t.Skip("this machine has no GPU of NVIDIA that its driver uses")
	return nil
}

// say lets the program execute lines of a shell before nvidia-smi, which is "$real", would be run.
func (r *machine) say(lines string) {
	r.Helper()
	script := "#!/bin/sh\nexport " + strings.Join(r.smi.env(), " ") + "\nreal=" + r.smi.path + "\n" + lines + "\nexec $real \"$@\"\n"
	next := filepath.Join(r.dir, "next")
	if err := errors.Join(os.WriteFile(next, []byte(script), 0o700), os.Rename(next, filepath.Join(r.dir, "nvidia-smi"))); err != nil { //nolint:gosec // it is to be run
		r.Fatal(err)
	}
}

// check is one of a detector that has just started.
func (r *machine) check(limit time.Duration) *Check {
	r.Helper()
	c, err := New(Options{
		Health: true, MaxWait: limit, MaxSlowdown: time.Hour, Program: filepath.Join(r.dir, "nvidia-smi"),
		StateFile: filepath.Join(r.dir, "gpu.json"), Timeout: patience, Clock: clock.RealClock{},
	})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(c.Close)
	return c
}

// finds runs a check of a detector that was running, and one that has just started.
func (r *machine) finds(c *Check, status checks.Status, reason string, words ...string) {
	r.Helper()
	for name, c := range map[string]*Check{"running": c, "started anew": r.check(c.options.MaxWait)} {
		got := c.Run(r.Context())
		r.Logf("%s: %s %s: %s", name, got.Status, got.Reason, got.Message)
		if got.Status != status || got.Reason != reason {
			r.Errorf("%s: want %s %s", name, status, reason)
		}
		for _, word := range append(words, r.gpu.address) {
			if !strings.Contains(got.Message, word) {
				r.Errorf("%s: the message does not have %q", name, word)
			}
		}
	}
}

func TestARealGPUIsWellAndItsFaultsAreFoundAndOver(t *testing.T) {
	r := newReal(t)
	c := r.check(patience)
	well := func() {
		t.Helper()
		r.say("")
		r.finds(c, checks.False, ReasonHealthy, "nothing is wrong")
	}
	well()
	for _, tc := range []struct {
		says   string
		status checks.Status
		reason string
	}{
		{`$real "$@" | sed "s/, None,/, Reset,/"; exit`, checks.True, ReasonReset},
		{`$real "$@" | sed "s/, None,/, Reboot,/"; exit`, checks.True, ReasonReboot},
		{`$real "$@" | sed "s/, None,/, Dance,/"; exit`, checks.Unknown, ReasonNotSeen},
		{`$real "$@" | sed "s/, No, No,/, No, Yes,/"; exit`, checks.True, ReasonRemappingFailed},
		{`echo "No devices were found"; exit 6`, checks.True, ReasonNotAnswering},
		{`echo "Unable to determine the device handle for GPU0: ` + r.gpu.address + `: GPU is lost"; exit 15`, checks.True, ReasonFellOff},
		{`echo "Failed to initialize NVML: Driver/library version mismatch"; exit 18`, checks.Unknown, ReasonNotSeen},
	} {
		r.say(tc.says)
		r.finds(c, tc.status, tc.reason)
		well()
	}
	// The field as a driver refuses it that does not know it.
	r.say(`case "$1" in *gpu_recovery_action*) $real --query-gpu=nosuch --format=csv | sed s/nosuch/gpu_recovery_action/; exit 2 ;; esac`)
	r.finds(c, checks.False, ReasonHealthy, "does not tell gpu_recovery_action")
}

func TestARealGPUWhoseDriverDoesNotAnswerIsFound(t *testing.T) {
	r := newReal(t)
	c := r.check(time.Second)
	r.say("exec sleep 1000")
	if got := c.Run(t.Context()); got.Status != checks.Unknown {
		t.Errorf("it never answered: got %v", got)
	}
	r.say("")
	if got := r.check(patience).Run(t.Context()); got.Status != checks.False {
		t.Errorf("got %v", got)
	}
	r.say("exec sleep 1000")
	c = r.check(time.Second)
	r.finds(c, checks.True, ReasonNotAnswering, "has not answered within 1s")
	c.options.Ask = (&program{path: filepath.Join(r.dir, "nvidia-smi"), limit: patience}).ask
	r.say("")
	if got := c.Run(t.Context()); got.Status != checks.False {
		t.Errorf("got %v", got)
	}
}

func TestARealGPUThatTheNodeHadBeforeIsMissed(t *testing.T) {
	r := newReal(t)
	state := `{"gpus":[{"address":"0000:d8:00.0","model":"NVIDIA H200","serial":"1650000000002","uuid":"GPU-2","told":true}, {"address":"` + r.gpu.address + `"}]}`
	if err := os.WriteFile(filepath.Join(r.dir, "gpu.json"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	got := r.check(patience).Run(t.Context())
	if got.Status != checks.True || got.Reason != ReasonMissing || !strings.Contains(got.Message, "0000:d8:00.0 NVIDIA H200 serial 1650000000002") {
		t.Errorf("got %v", got)
	}
}

// fault writes where it may not, by CUDA, for which the driver ends it with Xid 31.
const fault = `import cupy
f = cupy.RawKernel('extern "C" __global__ void f(long long a){*(int*)a=1;}', 'f')
f((1,), (1,), (0x7000000000000,))
cupy.cuda.Device().synchronize()`

func TestAProgramThatARealGPUEndsIsAnEventAndNoFault(t *testing.T) {
	r := newReal(t)
	if out, err := exec.CommandContext(t.Context(), "python3", "-c", "import cupy").CombinedOutput(); err != nil {
		t.Skipf("needs python3 with cupy: %v %s", err, out)
	}
	rules, err := systemlog.Load(systemlog.BuiltinPrefix + "gpu")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeoutCause(t.Context(), patience, errors.New("no Xid 31 was seen"))
	defer stop()
	seen := make(chan string, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- systemlog.New(rules, systemlog.Options{Clock: clock.RealClock{}}).Run(ctx, func(report *checks.Report) bool {
			for _, o := range report.Observations {
				if o.Status == checks.True {
					seen <- fmt.Sprintf("condition %s: %s", o.Type, o.Message)
				}
			}
			for _, e := range report.Events {
				seen <- e.Message
			}
			return true
		})
	}()
	out, err := exec.CommandContext(t.Context(), "python3", "-c", fault).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "llegal") {
		t.Fatalf("the program was not ended: %v\n%s", err, out)
	}
	for found := false; !found; {
		select {
		case what := <-seen:
			t.Log(what)
			if strings.HasPrefix(what, "condition") {
				t.Error("a fault of a program is one of the GPU")
			}
			found = strings.Contains(what, "): 31, ")
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	r.finds(r.check(patience), checks.False, ReasonHealthy, "nothing is wrong")
}
