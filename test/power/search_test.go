package power

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	switches "github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
	"github.com/nodemend/nodemend/runner"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// remoteAPI is the API server, as one remote runner sees it.
type remoteAPI struct{ a *actor }

func get[T client.Object](ctx context.Context, a *actor, name string, into T) (T, error) {
	var none T
	if err := a.call(); err != nil {
		return none, err
	}
	err := a.Get(ctx, client.ObjectKey{Name: name}, into)
	if err != nil {
		return none, client.IgnoreNotFound(err)
	}
	return into, nil
}

func (r remoteAPI) Action(ctx context.Context, name string) (*v1alpha1.NodeAction, error) {
	return get(ctx, r.a, name, &v1alpha1.NodeAction{})
}

func (r remoteAPI) Remediation(ctx context.Context, name string) (*v1alpha1.Remediation, error) {
	return get(ctx, r.a, name, &v1alpha1.Remediation{})
}

func (r remoteAPI) Policy(ctx context.Context, name string) (*v1alpha1.RemedyPolicy, error) {
	return get(ctx, r.a, name, &v1alpha1.RemedyPolicy{})
}

func (r remoteAPI) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return get(ctx, r.a, name, &corev1.Node{})
}

func (r remoteAPI) Budget(ctx context.Context, name string) (*v1alpha1.RemediationBudget, error) {
	return get(ctx, r.a, name, &v1alpha1.RemediationBudget{})
}

func (remoteAPI) Request(context.Context, *v1alpha1.Request) (*v1alpha1.NodemendRemediation, error) {
	return nil, nil //nolint:nilnil // no other program asks for anything here
}

func (r remoteAPI) Lease(context.Context, string) (*coordinationv1.Lease, error) {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: r.a.heard}}}}}, r.a.call()
}

func (r remoteAPI) Twin(context.Context, string, switches.UUID) (string, error) {
	return "", r.a.call()
}

func (remoteAPI) Ready(context.Context, []string, types.UID) (int32, error) {
	return 0, errors.New("no machine is replaced here")
}

func (r remoteAPI) Holds(context.Context, string) (runner.Holds, error) {
	return runner.Holds{}, r.a.call()
}

func (r remoteAPI) UpdateStatus(ctx context.Context, action *v1alpha1.NodeAction) error {
	if err := r.a.call(); err != nil {
		return err
	}
	err := r.a.Status().Update(ctx, action)
	if p := action.Status.Power; err == nil && p != nil {
		r.a.note("%s keeps %s %s %d", r.a.name, p.Phase, p.Outcome, p.Held)
	}
	if err == nil && r.a.events > 0 && r.a.rand.IntN(60) == 0 {
		return errors.New("the answer is lost")
	}
	return err
}

// bmc is the switch, as one remote runner asks it.
type bmc struct{ a *actor }

func (b bmc) Read(context.Context, switches.UUID) (r switches.Reading, err error) {
	if err := b.a.call(); err != nil {
		return r, err
	}
	if b.a.mute() {
		b.a.sleep(proof.CallTimeout)
		return r, switches.ErrNoAnswer
	}
	r = switches.Reading{GUID: b.a.guid, Power: switches.On}
	if !b.a.on || b.a.lies || b.a.now.Before(b.a.blank) {
		r.Power = switches.Off
		b.a.lied = b.a.lied || b.a.on && b.a.lies
	}
	b.a.sleep(time.Duration(b.a.rand.IntN(2000)) * time.Millisecond) // the answer is on its way
	return r, nil
}

func (b bmc) Off(ctx context.Context, _ switches.UUID, still switches.Still) error {
	sent := b.a.now
	if err := b.a.call(); err != nil {
		return err
	}
	if err := still.Holds(ctx); err != nil {
		return err
	}
	switch node := b.a.node(); {
	case b.a.now.Sub(sent) > proof.CallTimeout:
		return switches.ErrNoAnswer
	case node != nil && node.UID == "node-1" && node.Status.NodeInfo.BootID != bootID(1) && b.a.on && !b.a.hung && b.a.now.Sub(b.a.wokeAt()) > proof.Straggle:
		b.a.broken("I11: power is cut, and a newer boot was seen")
	}
	b.a.note("%s sends off", b.a.name)
	if !b.a.mute() && !b.a.lies {
		b.a.cutAt = b.a.now.Add(time.Duration(50+b.a.rand.IntN(9000)) * time.Millisecond)
	}
	return nil
}

// mute reports whether the BMC does not answer now.
func (w *world) mute() bool { return w.dumb || w.now.Before(w.silent) }

// silence is how long a BMC says nothing that restarts.
func (w *world) silence() time.Duration { return time.Duration(20+w.rand.IntN(60)) * time.Second }

// restart has the BMC restart, and say nothing for this long.
func (w *world) restart(silence time.Duration) {
	w.note("the BMC restarts")
	w.silent = w.now.Add(silence)
	w.blank = w.silent.Add(time.Duration(w.rand.IntN(110)) * time.Second)
}

// wokeAt is since when the API server hears of the kubelet.
func (w *world) wokeAt() time.Time { return w.heard }

func (b bmc) On(context.Context, switches.UUID, switches.Still) error {
	if err := b.a.call(); err != nil {
		return err
	}
	b.a.switchOn("by " + b.a.name)
	return nil
}

func (bmc) Shutdown(context.Context, switches.UUID, switches.Still) error {
	return switches.ErrUnsupported
}

func (bmc) Identify(context.Context, switches.UUID, bool) (time.Duration, error) {
	return 0, switches.ErrUnsupported
}
func (bmc) String() string { return "ipmi://10.0.0.1:623" }

// people and all else that happens by itself.
func people(_ context.Context, a *actor) {
	w := a.world
	for w.events > 0 && !a.dead {
		a.sleep(time.Duration(w.rand.IntN(40)) * time.Second)
		if a.dead {
			return
		}
		w.events--
		w.happens()
	}
}

func (w *world) happens() {
	update := func(change func(*corev1.Node)) {
		if node := w.node(); node != nil {
			change(node)
			w.must(w.Update(w.Context(), node))
		}
	}
	person := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	switch w.rand.IntN(24) {
	case 0, 1, 2:
		w.switchOn("by somebody")
	case 3:
		w.off("by somebody")
	case 4, 20:
		if w.on && w.boot == 1 {
			w.note("boot 1 answers again")
			w.hung = false
			w.says()
		}
	case 5:
		if w.on {
			w.note("the machine boots by itself")
			w.off("by itself")
			w.switchOn("by itself")
		}
	case 6, 21: // it says off, and switches nothing off
		w.lies = !w.lies
		w.note("the BMC lies: %t", w.lies)
	case 7:
		w.dumb = !w.dumb
		w.note("the BMC is dumb: %t", w.dumb)
	case 22, 23:
		w.restart(w.silence())
	case 8, 9, 10:
		w.replace("remote-runner", remoteRunner)
	case 11, 12, 13:
		w.replace("controller", controller)
	case 14:
		w.note("another controller believes to lead")
		w.lives++
		w.start(fmt.Sprintf("controller-%d", w.lives), controller)
	case 15:
		if node := w.node(); node != nil && !v1alpha1.IsOutOfService(node) {
			w.note("a person sets the taint")
			w.persons = true
			update(func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, person) })
		}
	case 16:
		if node := w.node(); node != nil && v1alpha1.IsOutOfService(node) {
			w.note("a person takes the taint away")
			w.persons = true
			update(func(n *corev1.Node) { n.Spec.Taints = nil })
		}
	case 17:
		update(func(n *corev1.Node) { n.Labels = map[string]string{"a": fmt.Sprint(w.now.Unix())} })
	case 18:
		var r v1alpha1.Remediation
		if w.Get(w.Context(), client.ObjectKey{Name: "incident"}, &r) == nil {
			w.note("the remediation is deleted")
			w.must(w.Delete(w.Context(), &r))
		}
	case 19:
		update(func(n *corev1.Node) {
			if n.Labels[v1alpha1.ExcludeLabel] == "" {
				w.note("the node is excluded")
				n.Labels = map[string]string{v1alpha1.ExcludeLabel: "true"}
			} else {
				n.Labels = nil
			}
		})
	}
}

// replace ends the processes of a kind, and starts one.
func (w *world) replace(kind string, act func(context.Context, *actor)) {
	for _, a := range w.actors {
		if strings.HasPrefix(a.name, kind) && !a.ended {
			a.dead, a.wake = true, w.now
			a.kill()
		}
	}
	w.lives++
	w.note("%s-%d takes over", kind, w.lives)
	w.start(fmt.Sprintf("%s-%d", kind, w.lives), act)
}

// calm has all go as it should, but for what can't be taken back.
func (w *world) calm() {
	w.events, w.lies, w.dumb = 0, false, false
	if node := w.node(); node != nil {
		node.Labels = nil
		w.must(w.Update(w.Context(), node))
	}
	w.note("calm")
	w.replace("remote-runner", remoteRunner)
	w.replace("controller", controller)
}

// play plays a seed, and returns what it has reached. events false: nothing happens.
func play(t *testing.T, seed uint64, events bool) map[string]int {
	t.Helper()
	w := newWorld(t, seed)
	if !events {
		w.events = 0
	}
	w.start("kubernetes", kubernetes)
	w.start("remote-runner-0", remoteRunner)
	w.start("controller-0", controller)
	w.start("people", people)
	finished := func() bool { a := w.action(); return a != nil && a.Finished() != nil }
	w.run(40*time.Minute, func() bool { return finished() && w.events == 0 })
	w.calm()
	w.run(2*time.Hour, finished)
	if w.on && w.hung && w.kubelet.IsZero() { // it hangs again, or was left alone: a person reboots it
		w.off("by a person in the end")
	}
	w.switchOn("by a person in the end")
	back := func() bool {
		node := w.node()
		_, marked := v1alpha1.OutOfServiceMarkOf(node)
		return !marked && readyOf(node).Status == corev1.ConditionTrue
	}
	w.run(time.Hour, back)
	action := w.action()
	switch node := w.node(); {
	case w.bad != "":
	case action == nil || action.Finished() == nil:
		w.broken("the action does not end")
	case !back():
		w.broken("the taint stays: %v %v", node.Annotations, node.Spec.Taints)
	}
	w.stop()
	if action != nil && action.Finished() != nil {
		w.reached(action.Finished().Reason)
	}
	if w.bad != "" {
		t.Errorf("seed %d: %s\n%s", seed, w.bad, strings.Join(w.story, "\n"))
	}
	return w.seen
}

func TestIfNothingHappensPodsMoveBeforeThePowerComesBack(t *testing.T) {
	seen := play(t, 0, false)
	for _, what := range []string{"set", "detached", "moved", "taken away", v1alpha1.ReasonSucceeded} {
		if seen[what] != 1 {
			t.Errorf("%s: %d times", what, seen[what])
		}
	}
}

// The seeds of a run of the tests are few. Others: go test ./test/power -seeds 1000 -first 5000.
var (
	seeds = flag.Uint64("seeds", 40, "how many seeds are played")
	first = flag.Uint64("first", 0, "the first of them")
)

func TestWhateverHappensNothingIsFreedOfABootThatRuns(t *testing.T) {
	seen := map[string]int{}
	for seed := range *seeds {
		for what, n := range play(t, *first+seed, true) {
			seen[what] += min(n, 1)
		}
		if t.Failed() {
			return
		}
	}
	t.Log(seen)
	for _, what := range []string{"set", "detached", "moved", "taken away", v1alpha1.ReasonSucceeded, v1alpha1.ReasonNotBack} {
		if seen[what] == 0 {
			t.Errorf("never %s: %v", what, slices.Sorted(maps.Keys(seen)))
		}
	}
}
