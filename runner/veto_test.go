package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	runnerconfig "github.com/nodemend/nodemend/config/runner"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// disk plays the file system of the veto.
type disk struct {
	mu    sync.Mutex
	now   state
	reads int
}

// state is how a disk answers.
type state struct {
	content string
	err     error
	dead    chan struct{} // if not nil, it answers once that is closed
}

// become changes how the disk answers from now on.
func (d *disk) become(now state) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = now
}

func (d *disk) load() ([]*runnerconfig.Veto, error) {
	d.mu.Lock()
	now := d.now
	d.reads++
	d.mu.Unlock()
	if now.dead != nil {
		<-now.dead
	}
	if now.err != nil {
		return nil, now.err
	}
	veto, err := runnerconfig.Parse("r.yaml", []byte(now.content))
	return []*runnerconfig.Veto{nil, veto}, err
}

func newDisk(now state) (*disk, *vetoes) {
	d := &disk{now: now}
	return d, &vetoes{load: d.load, host: remedy.Host{Root: "/"}, clock: clock.RealClock{}, loading: make(chan struct{}, 1)}
}

var (
	aReboot  = remedy.Order{Step: v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{}}}
	aRestart = remedy.Order{
		Step:     v1alpha1.Step{RestartUnit: &v1alpha1.RestartUnitRemedy{Name: "containerd.service"}},
		Prepared: remedy.Prepared{UnitNames: []string{"containerd.service"}},
	}
	aCommand = remedy.Order{Step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/true"}}}}
)

func expectVeto(t *testing.T, v *vetoes, order remedy.Order, want string) {
	t.Helper()
	if got := v.vetoed(t.Context(), order); (got == "") != (want == "") || !strings.Contains(got, want) {
		t.Errorf("%s: got %q, want %q", describe(order), got, want)
	}
}

func TestOnADiskThatHasDiedTheVetoCountsAsItWasReadLast(t *testing.T) {
	for name, hangs := range map[string]bool{"it hangs": true, "it refuses": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, v := newDisk(state{content: "units: {deny: [containerd.service]}"})
				ctx, stop := context.WithCancel(t.Context())
				go v.follow(ctx)
				<-time.After(vetoInterval * 3 / 2) // and between two looks from then on
				d.become(state{content: "{}"})
				<-time.After(vetoInterval)
				back := make(chan struct{})
				if hangs {
					d.become(state{dead: back})
				} else {
					d.become(state{err: fmt.Errorf("reading: %w", unix.EIO)})
				}
				<-time.After(time.Hour)
				expectVeto(t, v, aReboot, "")
				expectVeto(t, v, aRestart, "")
				expectVeto(t, v, aCommand, "the node's own configuration can't be asked, so it may forbid this: ")
				stop()
				close(back)
			})
		})
	}
}

func TestWhatTheOwnerDeniedBeforeTheDiskHasDiedStaysDenied(t *testing.T) {
	for name, content := range map[string]string{
		"denied": "units: {deny: [containerd.service]}\nreboots: {deny: true}", "not pinned": "steps: {allow: []}", "broken": "untis: {}",
	} {
		t.Run(name, func(t *testing.T) {
			d, v := newDisk(state{content: content})
			v.read(t.Context())
			d.become(state{err: unix.EIO})
			expectVeto(t, v, aReboot, "r.yaml")
			expectVeto(t, v, aRestart, "r.yaml")
		})
	}
}

func TestNothingIsAllowedIfTheVetoWasNeverRead(t *testing.T) {
	_, v := newDisk(state{err: unix.EIO})
	expectVeto(t, v, aReboot, "and this runner has not read it before")
}

func TestADeadDiskCostsOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := make(chan struct{})
		d, v := newDisk(state{content: "{}", dead: dead})
		for range 10 {
			expectVeto(t, v, aCommand, "no answer from the file system of /etc/nodemend/runner.yaml within 5s")
		}
		synctest.Wait()
		if d.reads != 1 {
			t.Errorf("%d goroutines read it", d.reads)
		}
		close(dead)
		expectVeto(t, v, aCommand, "") // it has come back
	})
}

// A read that has begun before an edit may not have seen it.
func TestAnEditActsEvenIfTheFileIsJustBeingRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		d, v := newDisk(state{content: "{}", dead: slow})
		go v.read(t.Context())
		synctest.Wait()
		d.become(state{content: "reboots: {deny: true}"})
		time.AfterFunc(time.Second, func() { close(slow) })
		expectVeto(t, v, aReboot, "reboots.deny of r.yaml")
		if d.reads != 2 {
			t.Errorf("it was read %d times", d.reads)
		}
	})
}

func TestTheConfigurationAndTheOwnersFileAddUp(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the files have to belong to root")
	}
	host := t.TempDir()
	must(t, os.Chmod(host, 0o755))
	must(t, os.MkdirAll(filepath.Join(host, "etc", "nodemend"), 0o755))
	own := filepath.Join(host, runnerconfig.Path)
	config, err := os.MkdirTemp("/run", "nodemend-test-") //nolint:usetesting // /tmp, where all may write, is no place for it
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(config)) })
	options, err := Options{NodeName: "worker-1", HostRoot: host, Config: filepath.Join(config, "runner.yaml")}.withDefaults()
	must(t, err)
	v := newVetoes(options)
	hash, err := aReboot.Step.Hash()
	must(t, err)

	for name, test := range map[string]struct {
		own, config string
		order       remedy.Order
		want        string
	}{
		"neither denies":             {"{}", "{}", aReboot, ""},
		"the owner denies":           {"reboots: {deny: true}", "{}", aReboot, "reboots.deny of /etc/nodemend/runner.yaml"},
		"the configuration denies":   {"{}", "reboots: {deny: true}", aReboot, "reboots.deny of " + config},
		"the owner does not allow":   {"units: {allow: []}", "units: {allow: [containerd.service]}", aRestart, "units.allow of /etc"},
		"only the owner allows":      {"units: {allow: [containerd.service]}", "units: {allow: [kubelet.service]}", aRestart, "units.allow of " + config},
		"both allow":                 {"units: {allow: [containerd.service]}", `units: {allow: ["*"]}`, aRestart, ""},
		"one of them denies":         {"units: {deny: [containerd.service]}", `units: {allow: ["*"]}`, aRestart, "units.deny of /etc"},
		"commands, too":              {"{}", "commands: {deny: [/bin/true]}", aCommand, "commands.deny of " + config},
		"not pinned by the owner":    {"steps: {allow: []}", "{}", aReboot, "steps.allow of /etc"},
		"pinned by the owner":        {"steps: {allow: [" + hash + "]}", "{}", aReboot, ""},
		"pinned and denied":          {"steps: {allow: [" + hash + "]}", "reboots: {deny: true}", aReboot, "reboots.deny"},
		"the configuration is wrong": {"{}", "reboot: {deny: true}", aReboot, "reboot: is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, os.WriteFile(own, []byte(test.own+"\n"), 0o600))
			must(t, os.WriteFile(options.Config, []byte(test.config+"\n"), 0o600))
			expectVeto(t, v, test.order, test.want)
		})
	}
	must(t, os.Remove(options.Config))
	expectVeto(t, v, aReboot, "there is no such file")
}

func TestANodeThatCanNotBeLookedAtIsLeftAlone(t *testing.T) {
	options, err := Options{NodeName: "worker-1", Proc: t.TempDir()}.withDefaults()
	must(t, err)
	expectVeto(t, newVetoes(options), aReboot, "the node's root directory "+options.Proc+"/1/root can't be looked at")
}

func TestAFileSystemIsDeadWhateverItAnswers(t *testing.T) {
	for err, want := range map[error]bool{
		errNoAnswer: true, unix.EIO: true, unix.EUCLEAN: true, unix.EBADMSG: true,
		unix.ENOENT: false, unix.EACCES: false, nil: false,
	} {
		if err != nil {
			err = fmt.Errorf("reading: %w", err)
		}
		if got := dead(err); got != want {
			t.Errorf("with %v: got %t, want %t", err, got, want)
		}
	}
}
