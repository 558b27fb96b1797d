package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// What the stat of a thread says: its state, the kernel's flags, and the signals that wait for it.
const (
	runs     = "S 4194304 0"
	waits    = "D 4194304 0"
	hangs    = "D 4194304 256" // SIGKILL
	ends     = "D 4194308 0"   // PF_EXITING
	signaled = "S 4194304 2"   // SIGINT
	zombie   = "Z 4194308 0"
)

// played makes a proc file system with one process in it, of which the first thread is the first.
func played(t *testing.T, pid int, start string, threads ...string) (proc string) {
	t.Helper()
	proc = t.TempDir()
	for i, thread := range threads {
		var state, flags, pending string
		if _, err := fmt.Sscan(thread, &state, &flags, &pending); err != nil {
			t.Fatal(err)
		}
		content := fmt.Sprintf("%d (a) R ) %s 1 2 3 4 5 %s 7 8 9 10 11 12 13 14 15 16 17 18 %s 20 21 22 23 24 25 26 27 %s 29 30\n", pid+i, state, flags, start, pending)
		write := func(dir string) {
			must(t, os.MkdirAll(dir, 0o700))
			must(t, os.WriteFile(filepath.Join(dir, "stat"), []byte(content), 0o600))
		}
		process := filepath.Join(proc, fmt.Sprint(pid))
		if i == 0 {
			write(process)
		}
		write(filepath.Join(process, "task", fmt.Sprint(pid+i)))
	}
	return proc
}

func TestAProcessIsKilledIfOnlyThreadsOfItAreLeftThatHang(t *testing.T) {
	const pid, start, namespace = 70, "4711", "pid:[1]"
	it := holder{pid, start, namespace}
	for name, test := range map[string]struct {
		holder  holder
		start   string
		threads []string
		want    bool
	}{
		"one hangs":                        {it, start, []string{zombie, hangs}, true},
		"the first one hangs":              {it, start, []string{hangs}, true},
		"one hangs on its way to its end":  {it, start, []string{zombie, ends}, true},
		"it runs":                          {it, start, []string{runs, runs}, false},
		"it waits for a disk":              {it, start, []string{runs, waits}, false},
		"its first thread has ended alone": {it, start, []string{zombie, waits}, false},
		"one thread is ending":             {it, start, []string{runs, ends}, false},
		"it is asked to stop":              {it, start, []string{signaled, signaled}, false},
		"it is over and not reaped":        {it, start, []string{zombie}, false},
		"another process has its PID":      {it, "4712", []string{zombie, hangs}, false},
		"it is gone":                       {holder{pid + 1, start, namespace}, start, []string{zombie, hangs}, false},
		"its PID is of another namespace":  {holder{pid, start, "pid:[2]"}, start, []string{zombie, hangs}, false},
		"an earlier version has the lock":  {holder{}, start, []string{zombie, hangs}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.holder.killed(played(t, pid, test.start, test.threads...), namespace); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestTheLockNamesTheProcessThatHasIt(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(lockFile(dir), []byte(`{"pid":1,"startTime":"of a process whose record is longer"}`+fmt.Sprintf("%200s", "")), 0o600))
	lock, err := Lock(t.Context(), dir, nil)
	must(t, err)
	defer func() { must(t, lock.Close()) }()
	got := holderIn(lock)
	want, err := itself()
	must(t, err)
	if got != want || got.PID != os.Getpid() || got.StartTime == "" {
		t.Errorf("it names %+v, want %+v", got, want)
	}
	if got.killed("/proc", want.Namespace) {
		t.Error("this process was killed")
	}
}

func TestOneAtATimeHasTheLockOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	self, err := itself()
	must(t, err)
	const pid, start = 70, "4711"
	proc := played(t, pid, start, zombie, hangs)
	dead, err := Lock(t.Context(), dir, nil)
	must(t, err)
	must(t, holder{pid, start, self.Namespace}.write(dead))

	var holders atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			lock, err := lockIn(t.Context(), dir, proc, func() {})
			if err != nil {
				t.Error(err)
				return
			}
			if n := holders.Add(1); n != 1 {
				t.Errorf("%d have the lock", n)
			}
			_ = dead.Close() // the hanging thread ends; only the first time this does something
			other, err := tryLock(dir, proc, self)
			if other != nil || err != nil {
				t.Errorf("another has the lock, too: %v", err)
			}
			holders.Add(-1)
			if err := lock.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	left, err := filepath.Glob(filepath.Join(dir, ".lock-*"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
