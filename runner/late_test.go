//go:build integration

package runner_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/transport"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/faults"
)

// onWrite lets a test play with the writes of a runner, counted from 1. send sends
// the request, now or later, once or several times.
func onWrite(f *fixture, play func(write int32, send func() (*http.Response, error)) (*http.Response, error)) transport.WrapperFunc {
	var writes atomic.Int32
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodPut {
				return next.RoundTrip(req)
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			return play(writes.Add(1), func() (*http.Response, error) {
				again := req.Clone(f.ctx) // it may outlive the request
				again.Body = io.NopCloser(bytes.NewReader(body))
				return next.RoundTrip(again)
			})
		})
	}
}

// commit sends a request whose answer nobody gets. Its effect may end the test before the
// answer comes.
func commit(f *fixture, send func() (*http.Response, error)) {
	response, err := send()
	if err != nil {
		if f.ctx.Err() == nil {
			f.Error(err)
		}
		return
	}
	_ = response.Body.Close()
}

func TestARefusalThatArrivesLateNeverContradictsAnExecution(t *testing.T) {
	f := newFixture(t)
	own, veto := f.owned()
	var refusal func() (*http.Response, error)
	f.start(onWrite(f, func(write int32, send func() (*http.Response, error)) (*http.Response, error) {
		switch write {
		case 1: // The claim is committed, its answer is lost, and meanwhile the owner denies it.
			commit(f, send)
			if err := veto("commands: {deny: [/bin/sh]}\n"); err != nil {
				f.Error(err)
			}
			return nil, errors.New("lost")
		case 2: // The refusal is on its way for long, and the owner allows it again.
			if err := veto("{}\n"); err != nil {
				f.Error(err)
			}
			refusal = send
			return nil, errors.New("lost")
		case 3: // Here it arrives.
			commit(f, refusal)
		}
		return send()
	}), own)
	got := f.finished(f.newAction(0)).Finished()
	if executions := len(f.executions()); executions > 0 && !v1alpha1.Executed(got.Reason) {
		t.Errorf("executed %d times and reported as %s (%s)", executions, got.Reason, got.Message)
	}
}

func TestAnActionIsNotExecutedOnAClaimThatTookTooLong(t *testing.T) {
	f := newFixture(t)
	f.start(onWrite(f, func(write int32, send func() (*http.Response, error)) (*http.Response, error) {
		if write == 1 {
			f.must(f.client.Delete(f.ctx, f.policy))
			enough := time.NewTimer(1500 * time.Millisecond) // the time that it takes is what is tested
			<-enough.C
		}
		return send()
	}))
	f.expect(f.newAction(0), v1alpha1.ReasonSuperseded, 0)
}

func TestAnActionThatCanNotBeEnteredIsNotExecutedAndNotLeft(t *testing.T) {
	for name, test := range map[string]struct {
		lostWrite int
		reason    string
	}{
		"reported":           {99, v1alpha1.ReasonStartFailed},
		"the report is lost": {2, v1alpha1.ReasonNotStarted},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			actions := filepath.Join(f.dir, "run", "actions")
			tr := &faults.Transport{At: test.lostWrite, Mode: faults.Before}
			asked := make(chan struct{})
			once := sync.OnceFunc(func() { close(asked) })
			f.start(func(next http.RoundTripper) http.RoundTripper {
				next = tr.Wrap(next)
				return roundTripper(func(req *http.Request) (*http.Response, error) {
					if strings.Contains(req.URL.Path, "/nodeactions") {
						once()
					}
					return next.RoundTrip(req)
				})
			})
			<-asked // for actions, which it does once it has read its ledger
			f.must(os.RemoveAll(actions))
			f.must(os.WriteFile(actions, nil, 0o600)) // in the way of the directory
			action := f.newAction(0)
			f.expect(action, test.reason, 0)
			f.must(os.Remove(actions))
			f.must(f.client.Delete(f.ctx, action))
			f.expect(f.newAction(0, func(a *v1alpha1.NodeAction) { a.Name = action.Name }), v1alpha1.ReasonSucceeded, 1)
		})
	}
}

func TestADeadFileSystemHoldsUpNothingElse(t *testing.T) {
	f := newFixture(t)
	f.policy = f.newPolicy(f.appends("first"), f.appends("second"))
	own, veto := f.owned()
	deadFileSystem(t, filepath.Join(f.dir, "host", "dead"))
	f.must(veto("commands: {deny: [/dead/program]}\n"))
	f.start(nil, own)
	f.expect(f.newAction(0), v1alpha1.ReasonRefused, 0)
	f.must(veto("{}\n"))
	f.expect(f.newAction(1), v1alpha1.ReasonSucceeded, 1)
}

func TestADeadDiskStopsCommandsAndNoReboot(t *testing.T) {
	f := newFixture(t)
	f.policy.Spec.Steps = append(f.policy.Spec.Steps, v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{}})
	f.must(f.client.Update(f.ctx, f.policy))
	own, veto := f.owned()
	f.must(veto("{}\n"))
	sysrq, err := os.OpenFile(f.fifo("sysrq"), os.O_RDWR|unix.O_NONBLOCK, 0) // so that a read does not end with a writer
	f.must(err)
	defer func() { _ = sysrq.Close() }()
	defer context.AfterFunc(f.ctx, func() { _ = sysrq.Close() })()
	f.start(nil, own)
	f.expect(f.newAction(0), v1alpha1.ReasonSucceeded, 1) // so it has read the file

	deadFileSystem(t, filepath.Join(f.dir, "host", "etc", "nodemend"))
	got := f.expect(f.newAction(0), v1alpha1.ReasonRefused, 1)
	if message := got.Finished().Message; !strings.Contains(message, "no answer from the file system of /etc/nodemend/runner.yaml") {
		t.Errorf("it says %q", message)
	}
	f.newAction(1)
	told := make([]byte, len("sub"))
	if _, err := io.ReadFull(sysrq, told); err != nil || string(told) != "sub" {
		t.Errorf("the kernel was told %q, want sub: %v", told, err)
	}
}

// deadFileSystem mounts one that never answers, as NFS without its server.
func deadFileSystem(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("no file system can be made that does not answer: ", err)
	}
	if err := unix.Mount("dead", dir, "fuse", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0"); err != nil {
		t.Skip("no file system can be mounted that does not answer: ", errors.Join(err, unix.Close(fd)))
	}
	t.Cleanup(func() { // closing it answers all who wait, with an error
		if err := errors.Join(unix.Close(fd), unix.Unmount(dir, unix.MNT_DETACH)); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatACrashHasLeftOnTheNodeIsRemoved(t *testing.T) {
	for _, point := range []string{"before-outcome", "after-outcome", "before-report"} {
		t.Run(point, func(t *testing.T) {
			f := newFixture(t)
			r, host := newCrashRunner(f)
			f.policy = f.newPolicy("echo printed")
			r.Point = point
			p := r.start(f)
			action := f.newAction(0)
			<-p.Exited
			r.Point = ""
			r.start(f)
			f.finished(action)
			f.must(waitFor(f, func() bool {
				units, err := host.Run(f.ctx, "systemctl", "list-units", "--all", "--no-legend", "nodemend-action-"+action.Name+"*")
				f.must(err)
				left, err := filepath.Glob(filepath.Join(r.Dir, "run", "*"+action.Name+"*"))
				f.must(err)
				return len(bytes.TrimSpace(units)) == 0 && len(left) == 0
			}))
		})
	}
}
