package runner

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
)

// watchedRack is a rack whose runner learns of what changes by its watch, in the time of a bubble.
type watchedRack struct {
	*rack
	source *cachetesting.FakeControllerSource
	told   map[string]v1alpha1.NodeMaintenance
	// ahead is by how much its time is ahead of that of the bubble.
	ahead time.Duration
	// turn has one in it while somebody uses the rack.
	turn chan struct{}
}

// live has people use a rack while a process of the runner works on it until they are done.
func (r *rack) live(people func(*watchedRack)) {
	r.Helper()
	w := &watchedRack{rack: r, source: cachetesting.NewFakeControllerSource(), told: map[string]v1alpha1.NodeMaintenance{}, ahead: time.Until(r.now), turn: make(chan struct{}, 1)}
	defer w.source.Shutdown()
	r.changed = w.tell
	w.take()
	ctx, cancel := context.WithCancel(r.Context())
	q := newQueue()
	informer, worker := watchMaintenances(w.source, q), r.worker("runner-0")
	var all sync.WaitGroup
	all.Go(func() { informer.RunWithContext(ctx) })
	all.Go(func() {
		eachAgain(ctx, q, func(ctx context.Context, name string) (time.Duration, error) {
			w.take()
			defer func() { <-w.turn }()
			return worker.Work(ctx, name)
		})
	})
	people(w)
	<-w.turn
	cancel()
	q.ShutDown()
	all.Wait()
}

// tell has the watch tell of what was written.
func (w *watchedRack) tell() {
	for i := range w.all {
		if m := w.all[i].DeepCopy(); w.told[m.Name].ResourceVersion != m.ResourceVersion {
			w.told[m.Name] = *m.DeepCopy()
			w.source.Modify(m)
		}
	}
	for name, m := range w.told {
		if w.of(name) == nil {
			delete(w.told, name)
			w.source.Delete(&m)
		}
	}
}

// take waits until nobody else uses the rack.
func (w *watchedRack) take() {
	w.turn <- struct{}{}
	w.now = time.Now().Add(w.ahead)
	w.pass(0)
}

// wait lets the runner work.
func (w *watchedRack) wait(long time.Duration) {
	<-w.turn
	time.Sleep(long) //nolint:forbidigo // the time of a bubble
	w.take()
}

// A BMC that refuses does so in other words each time. That they are kept is no reason to ask it again.
func TestABMCThatRefusesIsAskedNoSoonerForItsWords(t *testing.T) {
	for name, test := range map[string]struct {
		wanted []func(*v1alpha1.NodeMaintenance)
		before func(w *watchedRack)
		fails  error
	}{
		"before anything was switched": {nil, func(*watchedRack) {}, power.ErrNoAnswer},
		"while it is to shut down":     {nil, func(w *watchedRack) { w.listens = false; w.wait(time.Minute) }, power.ErrLogin},
		"while it is proved to be off": {[]func(*v1alpha1.NodeMaintenance){freed}, func(w *watchedRack) { w.wait(3 * time.Minute) }, power.ErrLogin},
		"when it is to come back":      {nil, func(w *watchedRack) { w.wait(3 * time.Minute); w.end("repair"); w.tell() }, power.ErrLogin},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRack(t, append(test.wanted, switchedOff)...)
				r.live(func(w *watchedRack) {
					test.before(w)
					r.happens = func(call int) { r.readErr = fmt.Errorf("%w: from port %d", test.fails, call) }
					reads := r.reads
					w.wait(8*time.Minute + 30*time.Second)
					if reads = r.reads - reads; reads < 8 || reads > 10 {
						t.Errorf("it was asked %d times in 8 minutes and a half\n%s", reads, r.story())
					}
				})
			})
		})
	}
}

// The controller has five minutes to free what a machine that is off has left: maxHeld readings, one a second.
func TestAMachineThatIsKeptOffIsReadOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(t, switchedOff, freed)
		r.live(func(w *watchedRack) {
			for !r.proved() {
				w.wait(time.Second)
			}
			reads, held := r.reads, r.held()
			w.wait(100 * time.Second)
			if reads, held := r.reads-reads, r.held()-held; reads > 100 || held < 60 {
				t.Errorf("it was read %d times, of which %d are kept", reads, held)
			}
		})
	})
}

// What others write is heeded at once, and a phase that was entered is gone on with.
func TestWhatIsWrittenOfAMaintenanceIsHeededAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		// is the maintenance at first, and for how long before it changes.
		is     func(*v1alpha1.NodeMaintenance)
		after  time.Duration
		change func(*v1alpha1.NodeMaintenance)
		phase  v1alpha1.PowerPhase
	}{
		"the controller keeps it": {func(m *v1alpha1.NodeMaintenance) { m.Finalizers = nil }, time.Minute, func(m *v1alpha1.NodeMaintenance) { m.Finalizers = []string{v1alpha1.PowerFinalizer} }, v1alpha1.PowerShuttingDown},
		"its node is drained":     {func(m *v1alpha1.NodeMaintenance) { m.Status.NodeUID = "" }, 95 * time.Second, func(m *v1alpha1.NodeMaintenance) { m.Status.NodeUID = "node-1" }, v1alpha1.PowerShuttingDown},
		"the drain has ended": {func(m *v1alpha1.NodeMaintenance) { m.Status.Conditions[0].Status = metav1.ConditionFalse }, 95 * time.Second, func(m *v1alpha1.NodeMaintenance) {
			m.Status.Conditions[0].Status = metav1.ConditionTrue
		}, v1alpha1.PowerShuttingDown},
		"power off is wanted":       {func(m *v1alpha1.NodeMaintenance) { m.Spec.Power = "" }, time.Minute, switchedOff, v1alpha1.PowerShuttingDown},
		"it is not wanted any more": {switchedOff, 3*time.Minute + 20*time.Second, func(m *v1alpha1.NodeMaintenance) { m.Spec.Power = "" }, v1alpha1.PowerRestoring},
		"it ends":                   {switchedOff, 3*time.Minute + 20*time.Second, func(m *v1alpha1.NodeMaintenance) { m.DeletionTimestamp = &m.CreationTimestamp }, v1alpha1.PowerRestoring},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRack(t, switchedOff, test.is)
				r.live(func(w *watchedRack) {
					w.wait(test.after)
					test.change(w.of("repair"))
					w.of("repair").ResourceVersion += "x"
					w.tell()
					w.wait(time.Second)
					r.power(test.phase, "")
				})
			})
		})
	}
	t.Run("it is to be cut", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRack(t, switchedOff)
			r.listens = false
			r.live(func(w *watchedRack) {
				w.wait(shutdownTime)
				for r.of("repair").Status.Power.Phase == v1alpha1.PowerShuttingDown {
					w.wait(time.Second)
				}
				w.wait(time.Second)
				if len(r.cuts) != 1 {
					t.Errorf("cut were %v\n%s", r.cuts, r.story())
				}
			})
		})
	})
}

// Of a maintenance that is drained thousands of changes are written, which are no matter of its machine.
func TestOnlyWhatIsAMatterOfTheMachineQueuesItsNode(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.NodeMaintenance)
		queues int
	}{
		"how far the drain is":   {func(m *v1alpha1.NodeMaintenance) { m.Status.Drain = &v1alpha1.DrainStatus{} }, 0},
		"why the phase lasts":    {func(m *v1alpha1.NodeMaintenance) { m.Status.Power.Message = "no answer" }, 0},
		"that it is read off":    {func(m *v1alpha1.NodeMaintenance) { m.Status.Power.Held++ }, 0},
		"who goes on with it":    {func(m *v1alpha1.NodeMaintenance) { m.Status.Power.RunnerID = "runner-1" }, 0},
		"what its lamp does":     {func(m *v1alpha1.NodeMaintenance) { m.Status.Identify.State = v1alpha1.LightOn }, 0},
		"its phase":              {func(m *v1alpha1.NodeMaintenance) { m.Status.Power.Phase = v1alpha1.PowerOff }, 1},
		"that its power is none": {func(m *v1alpha1.NodeMaintenance) { m.Status.Power = nil }, 1},
		"its machine":            {func(m *v1alpha1.NodeMaintenance) { m.Status.Machine = nil }, 1},
		"its spec":               {func(m *v1alpha1.NodeMaintenance) { m.Generation++ }, 1},
		"another one instead":    {func(m *v1alpha1.NodeMaintenance) { m.UID = "other" }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRack(t, switchedOff)
				was := r.of("repair")
				was.Status.Machine, was.Status.Identify = &v1alpha1.Machine{UUID: machineUUID}, &v1alpha1.IdentifyStatus{State: v1alpha1.LightUnknown}
				was.Status.Power = &v1alpha1.MaintenancePowerStatus{Phase: v1alpha1.PowerShuttingDown, RunnerID: "runner-0"}
				source, q := cachetesting.NewFakeControllerSource(), newQueue()
				source.Add(was.DeepCopy())
				var all sync.WaitGroup
				ctx, cancel := context.WithCancel(t.Context())
				all.Go(func() { watchMaintenances(source, q).RunWithContext(ctx) })
				first, _ := q.Get()
				q.Done(first)
				synctest.Wait()
				now := was.DeepCopy()
				test.change(now)
				source.Modify(now)
				synctest.Wait()
				if q.Len() != test.queues {
					t.Errorf("%d are queued, want %d", q.Len(), test.queues)
				}
				cancel()
				source.Shutdown()
				q.ShutDown()
				all.Wait()
			})
		})
	}
}
