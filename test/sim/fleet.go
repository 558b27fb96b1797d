package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

// How often nodes of a fleet fall sick, and what helps.
//
// hardwareEvery is from the training of Llama 3 (arXiv 2407.21783, section 3.3.4): 419
// unexpected interruptions in 54 days on 16,384 GPUs, which are 2,048 nodes: one of a node
// in 264 days. Of hung runtimes nobody publishes a rate: hangEvery takes them to be four
// times as frequent.
const (
	hardwareEvery = 264 * 24 * time.Hour
	hangEvery     = hardwareEvery / 4
	// restartHelps is how often in a thousand a restart of the runtime helps.
	restartHelps = 900
	// repairTakes is how long broken hardware is under repair; lookAfter after how long a
	// person mends what no step has.
	repairTakes, lookAfter = 8 * time.Hour, 24 * time.Hour
	reportEvery            = 30 * time.Second
)

const hung, broken = "RuntimeUnhealthy", "HardwareFailure"

// FleetResult is what a time with a fleet has come to.
type FleetResult struct {
	Nodes     int
	Time      time.Duration
	Incidents map[string]int
	Outcomes  map[string]int
	// Requests are those of the controller, by verb and kind.
	Requests map[string]int
	// Memory is what the controller with its cache takes, in bytes of the heap: the
	// objects themselves belong to the API server, but for the nodes.
	Memory uint64
	// Waited is how long healable nodes waited for their first action, sorted.
	Waited []time.Duration
}

// cluster is many nodes with one controller. Their agents are played without any process.
type cluster struct {
	*world
	random *rand.Rand
	result FleetResult
	sick   map[string]*illness
}

// illness is what is wrong with a node.
type illness struct {
	condition string
	since     time.Time
	acted     bool
	healed    bool
}

// Fleet lets a fleet live for a time.
func Fleet(t *testing.T, definitions *apiserver.Definitions, nodes int, lives time.Duration, seed uint64) (result FleetResult) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &world{choices: replayed(nil), ctx: ctx, reached: map[string]int{}, wake: make(chan struct{}, 1), profile: profiles()[0]}
		w.oracles = newOracles(w)
		w.oracles.off = true
		f := &cluster{world: w, random: rand.New(rand.NewPCG(seed, seed)), sick: map[string]*illness{}}
		f.result = FleetResult{Nodes: nodes, Time: lives, Incidents: map[string]int{}, Outcomes: map[string]int{}, Requests: map[string]int{}}
		server, err := apiserver.New(apiserver.Options{Definitions: definitions, Now: time.Now, Trusting: true, Changed: f.changed})
		if err != nil {
			t.Fatal(err)
		}
		w.server, w.admin = server, server.Client("admin", nil)
		w.counted = func(_ *process, r apiserver.Request) { f.result.Requests[r.Verb+" "+r.Kind]++ }
		f.live(nodes, lives)
		if w.oracles.violation != nil {
			t.Fatal(w.oracles.violation)
		}
		for len(w.processes) > 0 {
			w.end(w.processes[0])
		}
		result = f.result
	})
	slices.Sort(result.Waited)
	return result
}

func (f *cluster) live(nodes int, lives time.Duration) {
	f.policies()
	for i := range nodes {
		f.join(fmt.Sprintf("node-%06d", i))
	}
	before := heap()
	f.startController()
	end := time.Now().Add(lives)
	f.after(f.next(nodes, hangEvery), func() { f.fall(nodes, hung, hangEvery) })
	f.after(f.next(nodes, hardwareEvery), func() { f.fall(nodes, broken, hardwareEvery) })
	measured := false
	for f.oracles.violation == nil && time.Now().Before(end) {
		f.step(distant)
		if len(f.calls) == 0 && f.steps%1000 == 0 {
			f.server.Compact(f.processes[0].view.Oldest())
		}
		if !measured && time.Now().After(end.Add(-lives/2)) {
			measured = true
			f.result.Memory = heap() - min(before, heap())
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// next is after how long the next node of the fleet falls sick.
func (f *cluster) next(nodes int, every time.Duration) time.Duration {
	return time.Duration(f.random.ExpFloat64() * float64(every) / float64(nodes))
}

func (f *cluster) policies() {
	policy := func(name, condition string, steps ...v1alpha1.Step) {
		f.must(f.admin.Create(f.ctx, &v1alpha1.RemedyPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.RemedyPolicySpec{
				Match: []v1alpha1.ConditionMatch{{Type: condition, Status: corev1.ConditionTrue}}, Steps: steps,
				Recovery: v1alpha1.Recovery{HealthyFor: duration(time.Minute)}, DelayAfterJoin: ptr.To(duration(0)),
			},
		}))
	}
	policy("runtime", hung, v1alpha1.Step{RestartUnit: &v1alpha1.RestartUnitRemedy{Name: "containerd.service"}, Attempts: 2})
	policy("hardware", broken, v1alpha1.Step{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "broken"}})
	one, five := intstr.FromString("1%"), intstr.FromString("5%")
	f.must(f.admin.Create(f.ctx, &v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Spec:       v1alpha1.RemediationBudgetSpec{MaxConcurrent: &one, MaxUnavailable: &five},
	}))
}

// join creates a healthy node.
func (f *cluster) join(name string) {
	at := metav1.NewTime(time.Now())
	healthy := func(condition string, status corev1.ConditionStatus) corev1.NodeCondition {
		return corev1.NodeCondition{Type: corev1.NodeConditionType(condition), Status: status, LastTransitionTime: at, LastHeartbeatTime: at}
	}
	f.must(f.admin.Create(f.ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{BootID: name},
			Conditions: []corev1.NodeCondition{healthy("Ready", "True"), healthy(hung, "False"), healthy(broken, "False")},
		},
	}))
}

// fall lets some node fall sick, and later another one.
func (f *cluster) fall(nodes int, condition string, every time.Duration) {
	f.after(f.next(nodes, every), func() { f.fall(nodes, condition, every) })
	name := fmt.Sprintf("node-%06d", f.random.IntN(nodes))
	if f.sick[name] != nil {
		return
	}
	f.result.Incidents[condition]++
	i := &illness{condition: condition, since: time.Now()}
	f.sick[name] = i
	f.report(name, i, 0)
	mended := lookAfter
	if condition == broken {
		mended = repairTakes
	}
	f.after(mended, func() { i.healed = true })
}

// report writes the condition again and again until it has been well for ten minutes.
func (f *cluster) report(name string, i *illness, well int) {
	var node corev1.Node
	f.must(f.admin.Get(f.ctx, client.ObjectKey{Name: name}, &node))
	c := v1alpha1.FindNodeCondition(&node, i.condition)
	status := corev1.ConditionTrue
	if i.healed {
		status = corev1.ConditionFalse
		well++
	}
	now := metav1.NewTime(time.Now())
	if c.Status != status {
		c.Status, c.LastTransitionTime = status, now
	}
	c.LastHeartbeatTime = now
	f.must(f.admin.Status().Update(f.ctx, &node))
	if time.Duration(well)*reportEvery > 10*time.Minute {
		delete(f.sick, name)
		return
	}
	f.after(reportEvery, func() { f.report(name, i, well) })
}

// changed plays the runner of whatever node an action is for.
func (f *cluster) changed(c apiserver.Change) {
	switch updated := c.New.(type) {
	case *v1alpha1.NodeAction:
		if c.Old == nil {
			f.after(time.Second, func() { f.claim(updated.Name) })
		}
	case *v1alpha1.NodeMaintenance:
		if c.Old == nil {
			f.acted(updated.Spec.NodeName)
		}
	case *v1alpha1.Remediation:
		if old, ok := c.Old.(*v1alpha1.Remediation); ok && !old.Ended() && updated.Ended() {
			f.result.Outcomes[updated.State()]++
		}
	}
}

// acted notes how long a node has waited for its first action.
func (f *cluster) acted(name string) {
	if i := f.sick[name]; i != nil && !i.acted {
		i.acted = true
		f.result.Waited = append(f.result.Waited, time.Since(i.since))
	}
}

func (f *cluster) claim(name string) {
	var a v1alpha1.NodeAction
	if f.admin.Get(f.ctx, client.ObjectKey{Name: name}, &a) != nil || a.Finished() != nil {
		return
	}
	f.acted(a.Spec.NodeName)
	a.Status.Claim = &v1alpha1.Claim{RunnerID: "played", BootID: a.Spec.NodeName, Time: metav1.NewTime(time.Now()), Remedy: v1alpha1.RemedyRestartUnit}
	f.must(f.admin.Status().Update(f.ctx, &a))
	f.after(2*time.Second, func() { f.finish(name) })
}

func (f *cluster) finish(name string) {
	var a v1alpha1.NodeAction
	if f.admin.Get(f.ctx, client.ObjectKey{Name: name}, &a) != nil {
		return
	}
	if i := f.sick[a.Spec.NodeName]; i != nil && f.random.IntN(1000) < restartHelps {
		i.healed = true
	}
	meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, LastTransitionTime: metav1.NewTime(time.Now()),
	})
	f.must(f.admin.Status().Update(f.ctx, &a))
}
