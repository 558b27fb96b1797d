package child

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/nodemend/nodemend/internal/cgroup"
)

// grouped returns groups, and how many processes have escaped.
func grouped(t *testing.T) (*Groups, *atomic.Int64) {
	t.Helper()
	escaped := &atomic.Int64{}
	g, err := NewGroups(func(count int) { escaped.Add(int64(count)) })
	if err != nil {
		t.Skip("no control groups can be made here: ", err)
	}
	g.within = time.Hour // however busy the machine is
	t.Cleanup(func() {
		all := slices.Concat(g.free, g.left)
		g.Close()
		for _, group := range all {
			if _, err := os.Stat(string(group)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left: %v", group, err)
			}
		}
	})
	return g, escaped
}

// escapes are scripts that leave the process noted behind, outside of their process group,
// and how many processes these are.
var escapes = map[string]struct {
	script  string
	escaped int64
}{
	"nobody":       {"sleep 1000 & " + noteChild, 0},
	"by a session": {"setsid sh -c 'echo $$ >$0/pid; exec sleep 1000' $1 & " + awaitNote, 1},
	"twice forked, without an environment, a directory and output": {
		"(env -i setsid sh -c 'cd /; echo $$ >$0/pid; exec sleep 1000 >/dev/null 2>&1' $1 &); " + awaitNote, 1},
	"that blocks signals": {"setsid sh -c 'trap \"\" TERM INT HUP; sleep 1000 & echo $$ >$0/pid; wait' $1 & " + awaitNote, 2},
	"a chain":             {`setsid sh -c 'setsid sh -c "setsid sh -c \"echo \\\$\\\$ >\$0/pid; exec sleep 1000\" \$0 & exec sleep 1000" $0 & exec sleep 1000' $1 & ` + awaitNote, 3},
	"into a group below its own": {
		`own=$(grep '^0::' /proc/self/cgroup | cut -c4-); mount=$(grep ' - cgroup2 ' /proc/self/mountinfo | cut -d' ' -f5); mkdir "$mount$own/below"; ` +
			`setsid sh -c 'echo 0 >"$1"; echo $$ >$0/pid; exec sleep 1000' $1 "$mount$own/below/cgroup.procs" & ` + awaitNote, 1},
}

func TestWhatEscapesIsGoneAtTheEnd(t *testing.T) {
	for name, tc := range escapes {
		t.Run(name, func(t *testing.T) {
			g, escaped := grouped(t)
			cmd, dir := shell(t, tc.script)
			c, err := g.Start(cmd)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			if alive(t, dir) {
				t.Error("it is alive")
			}
			if escaped.Load() != tc.escaped {
				t.Errorf("%d were counted, want %d", escaped.Load(), tc.escaped)
			}
		})
	}
}

func TestWhatEscapesIsGoneAtATimeout(t *testing.T) {
	g, escaped := grouped(t)
	cmd, dir := shell(t, escapes["twice forked, without an environment, a directory and output"].script+"echo; sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	cmd.Stdout = writerFunc(func() { cancel() }) // the script has got there
	c, err := g.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if alive(t, dir) || escaped.Load() != 1 {
		t.Errorf("alive %t, counted %d", alive(t, dir), escaped.Load())
	}
}

type writerFunc func()

func (w writerFunc) Write(data []byte) (int, error) {
	w()
	return len(data), nil
}

// Those who fork as fast as they can are killed all the same.
func TestWhatForksMeanwhileIsGoneToo(t *testing.T) {
	g, _ := grouped(t)
	for range 5 {
		cmd, dir := shell(t, "setsid sh -c 'echo $$ >$0/pid; while :; do setsid sleep 1000 & done' $1 & "+awaitNote)
		c, err := g.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		group := c.group
		if err := c.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if alive(t, dir) || group.Populated() {
			t.Fatalf("alive %t, its group has processes %v", alive(t, dir), group.PIDs())
		}
	}
}

func TestAGroupServesTheNextChildUnlessItWasKilled(t *testing.T) {
	g, _ := grouped(t)
	first := g.free[0]
	for range 3 {
		cmd, _ := shell(t, "exit 0")
		c, err := g.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(t.Context()); err != nil || c.group != first {
			t.Fatalf("got %v in %s, want %s", err, c.group, first)
		}
	}
	cmd, _ := shell(t, escapes["by a session"].script)
	c, err := g.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(string(c.group)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("one that was killed is left: %v", err)
	}
}

// killedEnv is set in a process whose control group was killed before it came there.
const killedEnv = "NODEMEND_TEST_KILLED_GROUP"

func TestNoGroupsAreUsedWhereTheKernelKillsWhatIsStartedInThem(t *testing.T) {
	if os.Getenv(killedEnv) == "" {
		g, _ := grouped(t)
		dir, err := os.MkdirTemp(string(g.own), "nodemend-test-") //nolint:usetesting // it is a control group
		if err != nil {
			t.Fatal(err)
		}
		own := cgroup.Group(dir)
		if err := own.Set("cgroup.kill", "1"); err != nil {
			t.Skip(err)
		}
		cmd := exec.Command("/bin/sh", "-c", `echo 0 >"$1"; exec /proc/$2/exe -test.v -test.run="^$0$"`, t.Name(), filepath.Join(dir, "cgroup.procs"), strconv.Itoa(os.Getpid()))
		cmd.Env = append(os.Environ(), killedEnv+"="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%v: %s", err, out)
		}
		if err := own.Remove(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
		return
	}
	g, err := NewGroups(nil)
	if err != nil {
		t.Log(err)
		return
	}
	defer g.Close()
	cmd, _ := shell(t, "exit 0")
	if c, err := g.Start(cmd); err != nil {
		t.Error(err)
	} else if err := c.Wait(t.Context()); err != nil {
		t.Errorf("nothing can be started in a group, and nobody has said so: %v", err)
	}
}

func TestEachOfSeveralEndsItsOwn(t *testing.T) {
	g, escaped := grouped(t)
	var all sync.WaitGroup
	for range 6 {
		cmd, dir := shell(t, escapes["by a session"].script+"read line; kill -0 $(cat $1/pid)")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for range 5 { // others end meanwhile
				cmd, dir := shell(t, escapes["by a session"].script)
				c, err := g.Start(cmd)
				if err != nil {
					t.Error(err)
					return
				}
				if err := c.Wait(t.Context()); err != nil || alive(t, dir) {
					t.Errorf("%v, alive %t", err, alive(t, dir))
				}
			}
			_ = in.Close()
		})
		c, err := g.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := c.Wait(t.Context()); err != nil || alive(t, dir) {
				t.Errorf("%v, alive %t", err, alive(t, dir))
			}
		})
	}
	all.Wait()
	if want := int64(6 * (5 + 1)); escaped.Load() != want {
		t.Errorf("%d were counted, want %d", escaped.Load(), want)
	}
}

func TestWhatIsSlowToGoDelaysNothingAndIsGoneAfterLaterRuns(t *testing.T) {
	g, escaped := grouped(t)
	g.within = 0
	cmd, dir := shell(t, escapes["that blocks signals"].script)
	runs := 0
	for ; runs == 0 || len(g.left) > 0; runs++ {
		if c, err := g.Start(cmd); err != nil {
			t.Fatal(err)
		} else if err := c.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		cmd, _ = shell(t, "true")
	}
	if alive(t, dir) || escaped.Load() != 2 {
		t.Errorf("after %d runs: alive %t, counted %d", runs, alive(t, dir), escaped.Load())
	}
}

// As ipmitool: a child of this process with a session of its own.
func TestOtherChildrenAreLeftAlone(t *testing.T) {
	g, escaped := grouped(t)
	for name, attributes := range map[string]*syscall.SysProcAttr{
		"of our process group":      nil,
		"of a group of their own":   {Setpgid: true},
		"of a session of their own": {Setsid: true},
		"started by this package":   {},
	} {
		t.Run(name, func(t *testing.T) {
			other, _ := shell(t, "(setsid sleep 1000 & echo $! >$1/pid); read line; kill $(cat $1/pid); exit 7")
			in, err := other.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			wait := other.Wait
			if attributes != nil && !attributes.Setsid && !attributes.Setpgid {
				c, err := Start(other)
				if err != nil {
					t.Fatal(err)
				}
				wait = func() error { return c.Wait(t.Context()) }
			} else {
				other.SysProcAttr = attributes
				if err := other.Start(); err != nil {
					t.Fatal(err)
				}
			}
			for _, tc := range escapes {
				cmd, _ := shell(t, tc.script)
				if c, err := g.Start(cmd); err != nil {
					t.Fatal(err)
				} else if err := c.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
				t.Errorf("it has not ended by itself: %v", err)
			}
		})
	}
	if escaped.Load() == 0 {
		t.Error("nothing has escaped: this shows nothing")
	}
}

// firstEnv is set in the first process of a PID namespace.
const firstEnv = "NODEMEND_TEST_FIRST_PROCESS"

// In a container this process can be the first one, and the next parent of all that lose
// theirs, also of what "kubectl exec" has left.
func TestTheFirstProcessOfAContainerReapsItsOwnOnly(t *testing.T) {
	if os.Getenv(firstEnv) == "" {
		grouped(t)
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), firstEnv+"="+rand.String(8))
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	if _, err := NewGroups(nil); err == nil {
		t.Error("the /proc of another namespace was taken for one's own")
	}
	if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("proc", "/proc", "proc", 0, "")); err != nil {
		t.Fatal(err)
	}
	g, escaped := grouped(t)
	// A stranger, who runs, and one who has ended and was not waited for.
	other, dir := shell(t, "(setsid sleep 1000 & echo $! >$1/pid); (setsid sleep 1000 & echo $! >$1/dead); exit 7")
	if err := other.Run(); other.ProcessState.ExitCode() != 7 {
		t.Fatal(err)
	}
	dead, err := os.ReadFile(filepath.Join(dir, "dead"))
	if err != nil {
		t.Fatal(err)
	}
	zombie, err := strconv.Atoi(strings.TrimSpace(string(dead)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(zombie, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitExit(zombie)

	want := int64(0)
	for name, tc := range escapes {
		script := tc.script + "(setsid true &); " // one that has ended by then
		cmd, dir := shell(t, script)
		c, err := g.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(t.Context()); err != nil {
			t.Error(name, err)
		}
		want += tc.escaped
		if alive(t, dir) {
			t.Error(name, "it is alive")
		}
	}
	if escaped.Load() < want { // of those that are about to end some are counted
		t.Errorf("%d were counted, want %d", escaped.Load(), want)
	}
	if !alive(t, dir) {
		t.Error("the stranger was killed")
	}
	if got := len(children()); got != 2 {
		t.Errorf("%d children are left, want the two strangers", got)
	}
	if got, err := syscall.Wait4(zombie, nil, syscall.WNOHANG, nil); got != zombie || err != nil {
		t.Errorf("the stranger who has ended was reaped: %d, %v", got, err)
	}
}
