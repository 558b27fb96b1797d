package exhaustion

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/checks"
)

// host that is played: the files of its /proc.
type played struct {
	t    *testing.T
	path string
}

const limits = `Limit                     Soft Limit           Hard Limit           Units     
Max open files            1024                 524288               files     
`

// healthy is a host with a kubelet and a runtime.
func healthy(t *testing.T) played {
	p := played{t, t.TempDir()}
	for name, text := range map[string]string{
		"sys/fs/file-nr":                     "2720\t0\t9223372036854775807\n",
		"loadavg":                            "19.84 22.84 30.71 21/189 11055\n",
		"sys/kernel/pid_max":                 "32768\n",
		"sys/kernel/threads-max":             "192730\n",
		"sys/net/netfilter/nf_conntrack_max": "1000\n",
		"1/comm":                             "systemd\n",
		"7/comm":                             "kubelet\n",
		"7/limits":                           limits,
		"7/cgroup":                           "0::/system.slice/kubelet.service\n",
		"8/comm":                             "containerd\n",
		"8/limits":                           limits,
		"8/cgroup":                           "5:cpu:/\n4:pids:/../../system.slice/containerd.service\n0::/x\n",
		"9/comm":                             "sh\n",
		"1/root/sys/fs/cgroup/system.slice/kubelet.service/pids.max":             "max\n",
		"1/root/sys/fs/cgroup/system.slice/kubelet.service/pids.current":         "12\n",
		"1/root/sys/fs/cgroup/system.slice/pids.max":                             "5000\n",
		"1/root/sys/fs/cgroup/system.slice/pids.current":                         "100\n",
		"1/root/sys/fs/cgroup/pids/system.slice/containerd.service/pids.max":     "500\n",
		"1/root/sys/fs/cgroup/pids/system.slice/containerd.service/pids.current": "20\n",
	} {
		p.write(name, text)
	}
	for _, process := range []string{"7", "8", "9"} {
		p.of(process, "0")
	}
	p.connections(100)
	for _, file := range []string{"7/fd/0", "8/fd/0"} {
		p.write(file, "")
	}
	return p
}

func (p played) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// of says whose a process is.
func (p played) of(process, user string) {
	p.t.Helper()
	p.write(process+"/status", "Name:\tx\nUid:\t"+user+"\t"+user+"\t"+user+"\t"+user+"\nGid:\t0\t0\t0\t0\n")
}

func (p played) remove(name string) {
	p.t.Helper()
	if err := os.RemoveAll(filepath.Join(p.path, name)); err != nil {
		p.t.Fatal(err)
	}
}

// connections lets the kernel have so many, in hexadecimal as it shows them.
func (p played) connections(n int) {
	const head = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart\n"
	line := strings.Repeat("00000000 ", 16)
	entries := strings.ToLower(string([]byte{"0123456789abcdef"[n>>12&15], "0123456789abcdef"[n>>8&15], "0123456789abcdef"[n>>4&15], "0123456789abcdef"[n&15]}))
	p.write("1/net/stat/nf_conntrack", head+strings.Repeat("0000"+entries+" "+line+"\n", 2))
}

func (p played) check(watch error) *Check {
	return New(Options{
		MaxUsed: 90, Programs: []string{"kubelet", "containerd"}, Proc: p.path,
		Watch: func() error { return watch },
	})
}

func TestWhatIsUsedUpIsAProblemAndNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(p played)
		watch  error
		want   checks.Result
	}{
		"nothing": {want: checks.Healthy(ReasonHealthy, "none of 10 limits is near")},
		"file handles": {
			change: func(p played) { p.write("sys/fs/file-nr", "950\t0\t1000\n") },
			want:   checks.Problem(ReasonFileHandles, "950 of 1000 file handles (fs.file-max)"),
		},
		"not quite": {
			change: func(p played) { p.write("sys/fs/file-nr", "899\t0\t1000\n") },
			want:   checks.Healthy(ReasonHealthy, "none of 10 limits is near"),
		},
		"processes": {
			change: func(p played) { p.write("loadavg", "1 1 1 1/29492 5\n") },
			want:   checks.Problem(ReasonProcesses, "29492 of 32768 processes and threads (kernel.pid_max)"),
		},
		"connections": {
			change: func(p played) { p.connections(1000) },
			want:   checks.Problem(ReasonConntrack, "1000 of 1000 connections (net.netfilter.nf_conntrack_max)"),
		},
		"no connections at all": {
			change: func(p played) { p.remove("1/net"); p.remove("sys/net") },
			want:   checks.Healthy(ReasonHealthy, "none of 9 limits is near"),
		},
		"open files": {
			change: func(p played) { p.write("7/limits", strings.ReplaceAll(limits, "1024", "1   ")) },
			want:   checks.Problem(ReasonOpenFiles, "kubelet (process 7): 1 of 1 open files (LimitNOFILE of its unit)"),
		},
		"tasks of a unit, cgroup v1": {
			change: func(p played) {
				p.write("1/root/sys/fs/cgroup/pids/system.slice/containerd.service/pids.current", "500\n")
			},
			want: checks.Problem(ReasonTasks, "containerd.service: 500 of 500 tasks (TasksMax)"),
		},
		"tasks of its slice": {
			change: func(p played) { p.write("1/root/sys/fs/cgroup/system.slice/pids.current", "4990\n") },
			want:   checks.Problem(ReasonTasks, "system.slice: 4990 of 5000 tasks (TasksMax)"),
		},
		"a program that has just ended": {
			change: func(p played) { p.remove("7/limits") },
			want:   checks.Healthy(ReasonHealthy, "none of 7 limits is near"),
		},
		"inotify instances": {watch: unix.EMFILE, want: checks.Problem(ReasonInotify, "root can make no more inotify instances (fs.inotify.max_user_instances)")},
		"inotify watches":   {watch: unix.ENOSPC, want: checks.Problem(ReasonInotify, "root can watch no more files by inotify (fs.inotify.max_user_watches)")},
		"inotify fails":     {watch: unix.EPERM, want: checks.CannotTell(ReasonNotSeen, "inotify: operation not permitted")},
		"a file that can't be read": {
			change: func(p played) { p.write("sys/kernel/pid_max", "many\n") },
			want:   checks.CannotTell(ReasonNotSeen, `error parsing file: field 0 in sysctl kernel.pid_max is not a valid int: strconv.ParseInt: parsing "many": invalid syntax`),
		},
		"an empty file": {
			change: func(p played) { p.write("sys/kernel/pid_max", "") },
			want:   checks.CannotTell(ReasonNotSeen, "kernel.pid_max has 0 numbers, want 1"),
		},
		"two at once, the gravest first": {
			change: func(p played) { p.connections(1000); p.write("loadavg", "1 1 1 1/32768 5\n") },
			want: checks.Problem(ReasonProcesses,
				"32768 of 32768 processes and threads (kernel.pid_max); 1000 of 1000 connections (net.netfilter.nf_conntrack_max)"),
		},
		"and a doubt besides": {
			change: func(p played) { p.connections(1000) }, watch: unix.EPERM,
			want: checks.Problem(ReasonConntrack, "1000 of 1000 connections (net.netfilter.nf_conntrack_max); inotify: operation not permitted"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := healthy(t)
			if tc.change != nil {
				tc.change(p)
			}
			got := p.check(tc.watch).Run(t.Context())
			got.Message = strings.ReplaceAll(got.Message, p.path, "/proc")
			if got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestAProgramThatStartsAnewIsFoundAtOnceAndANewOneAfterAWhile(t *testing.T) {
	p := healthy(t)
	p.remove("8")
	c := p.check(nil)
	run := func() checks.Status { return c.Run(t.Context()).Status }
	if got := run(); got != checks.False {
		t.Errorf("at first: %s", got)
	}
	p.write("8/comm", "containerd\n")
	p.write("8/cgroup", "0::/\n")
	p.write("8/limits", strings.ReplaceAll(limits, "1024", "1   "))
	p.write("8/fd/0", "")
	p.of("8", "0")
	runs := 0
	for ; run() != checks.True; runs++ {
		if runs > looksAtAll {
			t.Fatal("a program that was started is never found")
		}
	}
	p.remove("8")
	if got := run(); got != checks.False {
		t.Errorf("after its end: %s", got)
	}
	p.write("7/comm", "sh\n") // the kubelet is another process by now
	p.write("10/comm", "kubelet\n")
	p.write("10/cgroup", "0::/\n")
	p.write("10/limits", strings.ReplaceAll(limits, "1024", "1   "))
	p.write("10/fd/0", "")
	p.of("10", "0")
	if got := run(); got != checks.True {
		t.Errorf("after the kubelet was started anew: %s", got)
	}
}

// Anybody may give a process its name.
func TestAProcessOfAPodOrOfAUserIsNoneOfTheHosts(t *testing.T) {
	for name, other := range map[string]func(p played){
		"of the host":          func(played) {},
		"of another user":      func(p played) { p.of("8", "65534") },
		"of another namespace": func(p played) { p.link("8/ns/pid", "pid:[2]") },
	} {
		p := healthy(t)
		p.link("1/ns/pid", "pid:[1]")
		p.link("7/ns/pid", "pid:[1]")
		if name != "of another namespace" {
			p.link("8/ns/pid", "pid:[1]")
		}
		other(p)
		p.write("8/limits", strings.ReplaceAll(limits, "1024", "1   "))
		want := checks.False
		if name == "of the host" {
			want = checks.True
		}
		if got := p.check(nil).Run(t.Context()); got.Status != want {
			t.Errorf("%s: got %+v, want %s", name, got, want)
		}
	}
}

func (p played) link(name, target string) {
	p.t.Helper()
	path := filepath.Join(p.path, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink(target, path)); err != nil {
		p.t.Fatal(err)
	}
}

func TestAMessageIsBounded(t *testing.T) {
	var many []finding
	for range 9 {
		many = append(many, finding{Reason: ReasonOpenFiles, Text: "x"})
	}
	if got := verdict(many, []error{errors.New("y")}, 9).Message; got != "x; x; x; x; x; and 5 more" {
		t.Errorf("got %q", got)
	}
}
