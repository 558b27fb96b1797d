//go:build integration

package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/runner/remedy"
)

// hostile are arguments that something on the way could change.
var hostile = []string{
	"", " ", "two words", `"`, `'`, `\`, `\n`, "new\nline", "tab\t", "$HOME", "${HOME}", "$$", "$(id)", "`id`", "*", "%n", "%%", "%h/x", "-", "--", ";", "&", "#",
	"\x01\x7f", "ünïcödé €🔧", `\x41`, "@", "+", "!", strings.Repeat("x", 4096),
}

func TestEndingsAreReportedAlikeHoweverACommandIsExecuted(t *testing.T) {
	both(t, func(s *scene) {
		for _, test := range []struct {
			script, reason, message string
			exitCode                *int32
			signal                  string
		}{
			{"exit 0", v1alpha1.ReasonSucceeded, "exit status 0 after ", ptr.To[int32](0), ""},
			{"exit 3", v1alpha1.ReasonFailed, "exit status 3 after ", ptr.To[int32](3), ""},
			{"exit 203", v1alpha1.ReasonFailed, "exit status 203 after ", ptr.To[int32](203), ""},
			{"exit 255", v1alpha1.ReasonFailed, "exit status 255 after ", ptr.To[int32](255), ""},
			{"kill -TERM $$", v1alpha1.ReasonFailed, "ended by signal 15 (terminated) after ", nil, "terminated"},
			{"kill -KILL $$", v1alpha1.ReasonFailed, "ended by signal 9 (killed) after ", nil, "killed"},
			{"kill -ABRT $$", v1alpha1.ReasonFailed, "ended by signal 6 (aborted) after ", nil, "aborted"},
		} {
			got := s.expect(s.run(test.script), test.reason, test.message)
			if !ptr.Equal(got.ExitCode, test.exitCode) || got.Signal != test.signal || string(got.Execution) != string(s.opts.Execution) {
				s.Errorf("%s: got result %+v, want exit code %v and signal %q", test.script, got, test.exitCode, test.signal)
			}
		}
	})
}

func TestAProgramThatTheHostCanNotExecuteHasStartFailed(t *testing.T) {
	both(t, func(s *scene) {
		// /run is another one inside: these are the host's files alone.
		file := func(name, content string, mode os.FileMode) string {
			if err := os.WriteFile(filepath.Join(s.host.RunDir(), name), []byte(content), mode); err != nil {
				s.Fatal(err)
			}
			return "/run/" + name
		}
		noexec := "/run/noexec-" + string(s.opts.Execution)
		if _, err := s.host.Run(t.Context(), "sh", "-c", "mkdir -p "+noexec+" && mount -t tmpfs -o noexec none "+noexec+" && cp /bin/true "+noexec); err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() {
			if _, err := s.host.Run(context.WithoutCancel(t.Context()), "umount", noexec); err != nil {
				s.Error(err)
			}
		})
		for program, message := range map[string]string{
			noexec + "/true":   "permission denied",
			"/no/such/program": "no such file or directory; nothing was executed: install the program",
			file("no-interpreter", "#!/no/such/interpreter\n", 0o755): "",
			file("unlinked", program(t, "/no/ld.so"), 0o755):          "",
			file("data", "#!/bin/sh\n", 0o644):                        "permission denied; nothing was executed: check",
			file("no-first-line", "echo executed\n", 0o755):           "exec format error; nothing was executed: check",
			file("foreign", foreign(t), 0o755):                        "exec format error; nothing was executed: check",
			file("empty", "", 0o755):                                  "exec format error; nothing was executed: check",
		} {
			got := s.run("", words(program))
			if got.Result != nil || got.Reason != v1alpha1.ReasonStartFailed || !strings.HasPrefix(got.Message, "starting "+program+": "+message) || strings.Contains(got.Message, "systemd") {
				s.Errorf("got %+v, want StartFailed with %q", got, message)
			}
		}
		// What can't be received is refused before it is claimed.
		for name, change := range map[string]func(*remedy.Order){
			"environment": func(o *remedy.Order) { o.Env = append(o.Env, "A="+strings.Repeat("x", 140000)) },
			"script":      func(o *remedy.Order) { o.Step.Command.Script = ": " + strings.Repeat("€", 60000) },
		} {
			order := remedy.Order{Action: "refused", Step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: "true"}}}
			change(&order)
			if _, got := s.Prepare(t.Context(), order); got == nil || got.Reason != v1alpha1.ReasonStartFailed {
				s.Errorf("%s: got %+v, want StartFailed", name, got)
			}
		}
		order := remedy.Order{Action: "noncharacter", Env: []string{"A=\ufffe"}, Step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: "true"}}}
		_, got := s.Prepare(t.Context(), order)
		if s.opts.Execution == Direct && got != nil || s.opts.Execution != Direct && (got == nil || got.Message != `the environment variable "A" contains the character U+FFFE, which systemd does not accept; nothing was executed`) {
			s.Errorf("got %+v, want a refusal if systemd would have to take it", got)
		}
	})
}

func TestASystemdsOwnExitStatusIsNotTakenForACertainFailure(t *testing.T) {
	s := newScene(t, TransientUnit)
	for _, status := range []string{"200", "203", "243"} {
		got := s.run("exit " + status)
		s.expect(got, v1alpha1.ReasonFailed, "exit status "+status+" after ")
	}
	path := "/run/corrupt" // for this machine, but with nothing in it
	if err := os.WriteFile(filepath.Join(s.host.RunDir(), "corrupt"), []byte(program(t, "/x")[:64]), 0o755); err != nil {
		t.Fatal(err)
	}
	got := s.run("", words(path))
	if got.Reason != v1alpha1.ReasonFailed || !strings.Contains(got.Message, "what systemd says of a command that it could not execute: see journalctl -u nodemend-action-test.") {
		t.Errorf("got %+v, want a failure that says that the command may not have been executed", got)
	}
}

func TestWordsAndEnvironmentArriveByteForByteAlsoAfterAReload(t *testing.T) {
	both(t, func(s *scene) {
		up, gate := s.fifo("up"), s.fifo("gate")
		argv := append([]string{"/bin/sh", "-c", `echo up >"$UP"; read x <"$GATE"; printf '<%s>' "$@"; printf '[%s]' "$VALUE"; exit 7`, "sh"}, hostile...)
		value := strings.Join(hostile[:len(hostile)-1], "\n")
		outcomes := make(chan *remedy.Outcome, 1)
		order := s.order("", words(argv...), func(o *remedy.Order) {
			o.Env = []string{"UP=" + up.inside, "GATE=" + gate.inside, "VALUE=" + value}
			o.Output = &v1alpha1.OutputPolicy{Redact: []string{"x{100,}"}}
		})
		go func() { outcomes <- s.Execute(s.Context(), order) }()
		up.await()
		s.reload()
		gate.release()
		got := s.expect(<-outcomes, v1alpha1.ReasonFailed, "exit status 7 after ")
		want := ""
		for _, arg := range hostile[:len(hostile)-1] {
			want += "<" + arg + ">"
		}
		want += "<***>[" + value + "]"
		if got.Output != want {
			s.Errorf("got  %q\nwant %q", got.Output, want)
		}
	})
}

func TestAScriptIsHandedToTheShellAsItIs(t *testing.T) {
	both(t, func(s *scene) {
		script := "# '\" %n \\\nprintf '%s|' \"$(echo 'a  b')\" \\$HOME \"`echo c`\" '$$' '%%h' \"$NODEMEND_X\"\nyes | head -1\nprintf '%s' \"$0\""
		order := s.order(script, func(o *remedy.Order) { o.Env = append(o.Env, "NODEMEND_X=% $(x)") })
		got := s.expect(s.Execute(s.Context(), order), v1alpha1.ReasonSucceeded, "exit status 0")
		if want := "a  b|$HOME|c|$$|%%h|% $(x)|y\n" + order.Action; got.Output != want {
			s.Errorf("got %q, want %q", got.Output, want)
		}
	})
}

func TestACommandIsInTheHostsPlaces(t *testing.T) {
	both(t, func(s *scene) {
		t.Setenv("NODEMEND_TEST_SECRET", "leaked")
		got := s.expect(s.run(`pwd; cat; umask; ls /run/systemd/system/node.target; env | grep -v -e ^PWD= -e ^OLDPWD= -e ^SHLVL= -e ^_=`), v1alpha1.ReasonSucceeded, "exit status 0")
		want := "/\n0022\n/run/systemd/system/node.target\nPATH=/usr/bin:/bin:/usr/sbin:/sbin\n"
		if got.Output != want {
			s.Errorf("got %q, want %q", got.Output, want)
		}

		up, gate := s.fifo("up"), s.fifo("gate")
		order := s.order("echo up >" + up.inside + "; read x <" + gate.inside)
		outcomes := make(chan *remedy.Outcome, 1)
		go func() { outcomes <- s.Execute(s.Context(), order) }()
		up.await()
		for _, pid := range s.pids(order) {
			for _, namespace := range []string{"cgroup", "ipc", "uts", "net", "mnt"} {
				got, err := os.Readlink(fmt.Sprintf("/proc/%s/ns/%s", pid, namespace))
				want, wantErr := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", s.host.PID(), namespace))
				if err != nil || wantErr != nil || got != want {
					s.Errorf("the command is in %s (%v), the host in %s (%v)", got, err, want, wantErr)
				}
			}
		}
		own, err := os.Readlink("/proc/self/ns/mnt")
		if host, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", s.host.PID())); err != nil || own == host {
			s.Errorf("the runner itself is in %s (%v), as the host", own, err)
		}
		gate.release()
		s.expect(<-outcomes, v1alpha1.ReasonSucceeded, "exit status 0")
	})
}

func TestHostileOutputIsBounded(t *testing.T) {
	both(t, func(s *scene) {
		for _, test := range []struct {
			name, script, message, suffix string
			size                          int
		}{
			{"invalid UTF-8", `printf 'a\377\376b'`, "exit status 0", "a\uFFFDb", 5},
			{"both streams in order", `echo one; echo two >&2; echo three`, "exit status 0", "one\ntwo\nthree\n", 14},
			{"1 MiB", `head -c 1048576 /dev/zero | tr '\0' x; echo end`, "exit status 0", "xxxend\n", maxOutput},
			{"10,000 tiny writes", `i=0; while [ $i -lt 10000 ]; do echo $i; i=$((i+1)); done`, "exit status 0", "9998\n9999\n", maxOutput},
			{"output that is closed", `echo before; exec >&- 2>&-; exit 4`, "exit status 4", "before\n", 7},
			{"a child that holds the output open", `setsid sleep 1000 & echo done`, "exit status 0", "done\n", 5},
			{"a child that prints on and on", `setsid yes & echo done; exit 0`, "exit status 0", "", -1},
			{"a disk that is full", `d=$(mktemp -d) && mount -t tmpfs -o size=64k none $d && head -c 1048576 /dev/zero >$d/x; s=$?; umount $d; rmdir $d; exit $s`, "exit status 1", "No space left on device\n", -1},
		} {
			got := s.run(test.script)
			if !strings.HasPrefix(got.Message, test.message) || !strings.HasSuffix(got.Result.Output, test.suffix) || len(got.Result.Output) > maxOutput ||
				test.size >= 0 && (len(got.Result.Output) != test.size || got.Result.OutputTruncated != (test.size == maxOutput)) {
				s.Errorf("%s: got %q with %d bytes, truncated %t: …%q", test.name, got.Message, len(got.Result.Output), got.Result.OutputTruncated, got.Result.Output[max(0, len(got.Result.Output)-50):])
			}
		}
		none := s.run("yes | head -c 3000000", func(o *remedy.Order) { o.Output = &v1alpha1.OutputPolicy{Keep: v1alpha1.OutputNone} })
		if s.expect(none, v1alpha1.ReasonSucceeded, "exit status 0").Output != "" {
			s.Errorf("got %q, want no output", none.Result.Output)
		}
	})
}

func TestAnIncompleteLineIsNotShownIfItShouldBeRedacted(t *testing.T) {
	both(t, func(s *scene) {
		redact := func(o *remedy.Order) { o.Output = &v1alpha1.OutputPolicy{Redact: []string{`token=\w{8}`}} }
		ready := s.fifo("ready").inside
		for script, want := range map[string]string{
			"echo one; printf token=s3c; kill -9 $$":                                                "one\n" + cutShort,
			"echo one; printf token=s3c; sleep 1000":                                                "one\n" + cutShort,
			"echo one; printf token=s3cr3t99; exit 3":                                               "one\n***",
			"echo one; echo token=s3cr3t99; kill $$":                                                "one\n***\n",
			"echo one; printf 'last line' & wait":                                                   "one\nlast line",
			"setsid sh -c 'printf token=s3c; echo x >" + ready + "; sleep 1000' & read x <" + ready: cutShort,
		} {
			if got := s.run(script, redact, shortTimeout); got.Result == nil || got.Result.Output != want {
				s.Errorf("%s: got %+v, want the output %q", script, got.Result, want)
			}
		}
	})
}

func TestAtTheTimeoutEverythingIsKilled(t *testing.T) {
	bothAtOnce(t, func(s *scene) {
		for name, script := range map[string]string{
			"sleeps":                     "sleep 1000",
			"prints on and on":           "yes",
			"ignores SIGTERM":            "trap '' TERM; while :; do sleep 1000; done",
			"has children that ignore":   "trap '' TERM; setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) ; sleep 1000",
			"forks as fast as it can":    "trap '' TERM; while :; do (sleep 1000 &); sleep 0.01; done",
			"is stopped by its own hand": "kill -STOP $$",
		} {
			began := time.Now()
			order := s.order(script, shortTimeout)
			got := s.expect(s.Execute(s.Context(), order), v1alpha1.ReasonTimedOut, "killed after ")
			if got.Signal == "" || got.ExitCode != nil {
				s.Errorf("%s: got %+v, want a signal", name, got)
			}
			if took := time.Since(began); took < time.Second || took > order.Step.Timeout.Duration+deadline.EndGrace {
				s.Errorf("%s: it took %s", name, took)
			}
			s.expectNothingLeft(order)
		}
	})
}

func TestACommandThatStopsWhenAskedToAtTheTimeoutHasTimedOut(t *testing.T) {
	both(t, func(s *scene) {
		got := s.run(`trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.1; done`, shortTimeout)
		r := s.expect(got, v1alpha1.ReasonTimedOut, "asked to stop at the timeout, and ended with exit status 0 after ")
		if !strings.HasPrefix(r.Output, "ready\n") || !strings.HasSuffix(r.Output, "asked\n") {
			s.Errorf("got output %q", r.Output)
		}
	})
}

func TestWhatACommandLeavesBehindIsKilledBeforeItsOutcome(t *testing.T) {
	both(t, func(s *scene) {
		for _, script := range []string{
			"sleep 1000 &",
			"(setsid sh -c 'sleep 1000 & sleep 1000' &)",
			"trap '' TERM; setsid sleep 1000 & exit 5",
			"for i in $(seq 100); do setsid sleep 1000 & done",
		} {
			order := s.order(script)
			if got := s.Execute(s.Context(), order); got.Result == nil || got.Result.ExitCode == nil {
				s.Errorf("%s: got %+v, want an exit code", script, got)
			}
			s.expectNothingLeft(order)
		}
	})
}

func TestTheTimeoutHoldsAfterAReload(t *testing.T) {
	s := ownScene(t)
	up := s.fifo("up")
	outcomes := make(chan *remedy.Outcome, 1)
	order := s.order("echo up >"+up.inside+"; trap '' TERM; setsid sleep 1000 & echo '$HOME `'; sleep 1000", shortTimeout)
	go func() { outcomes <- s.Execute(s.Context(), order) }()
	up.await()
	s.reload()
	s.expect(<-outcomes, v1alpha1.ReasonTimedOut, "killed after ")
	s.expectNothingLeft(order)
}
