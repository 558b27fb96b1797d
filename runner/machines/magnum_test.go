package machines

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/test/openstack"
)

const (
	clusterUUID = "2c4c4544-0032-3810-8052-b4c04f4a0000"
	groupUUID   = "3c4c4544-0032-3810-8052-b4c04f4a0000"
)

// serverOf is the ID of the server of a node, w1 to w9.
func serverOf(node string) string {
	return "4c4c4544-0032-3810-8052-b4c04f4a000" + strings.TrimPrefix(node, "w")
}

func addressOf(node string) string { return "10.0.0." + strings.TrimPrefix(node, "w") }

// heat is a cloud with a Magnum cluster, whose Heat does what Magnum is told.
type heat struct {
	*scene
	cloud *openstack.Cloud
	// since Magnum does what it was told last, and how many of that it has taken up.
	since time.Time
	done  int
	// fails: Heat fails. forgets: Magnum never takes it up.
	fails, forgets bool
	// slow is how long Heat takes to begin.
	slow time.Duration
}

// newHeat returns one whose nodes w1 to w3 are servers of a node group.
func newHeat(t *testing.T) *heat {
	t.Helper()
	h := &heat{scene: newScene(t, capi("Cluster", "prod", nil))}
	h.cloud = openstack.Start(t)
	h.cloud.Cluster = &openstack.Cluster{UUID: clusterUUID, Status: "CREATE_COMPLETE", Groups: []*openstack.Group{
		{UUID: "3c4c4544-0032-3810-8052-b4c04f4a0001", Name: "default-master", Role: "master", Status: "CREATE_COMPLETE", Count: 1, Addresses: []string{"10.0.0.9"}},
		{UUID: groupUUID, Name: "default-worker", Role: "worker", Status: "CREATE_COMPLETE", Count: 3},
	}}
	for _, name := range []string{"w1", "w2", "w3"} {
		h.add(name)
	}
	h.config = &remote.Replace{Magnum: &remote.Magnum{Cluster: clusterUUID, OpenStack: remote.OpenStack{CloudsFile: h.cloud.File()}}}
	return h
}

func (h *heat) workers() *openstack.Group { return h.cloud.Cluster.Groups[1] }

// add makes the node of this name one of the group, with its server.
func (h *heat) add(name string) {
	h.Helper()
	h.cloud.Servers[serverOf(name)] = openstack.Active(serverOf(name), name, addressOf(name))
	h.workers().Addresses = append(h.workers().Addresses, addressOf(name))
	node := nodeOf(name)
	known := h.here.Get(h.Context(), client.ObjectKey{Name: name}, node) == nil
	node.Annotations, node.Spec.ProviderID = nil, "openstack://One/"+serverOf(name)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addressOf(name)}}
	status := node.Status
	if known {
		h.must(h.here.Update(h.Context(), node))
	} else {
		h.must(h.here.Create(h.Context(), node))
	}
	node.Status = status
	h.must(h.here.Status().Update(h.Context(), node))
}

// stranger is a node of no group that says that it has an address of one that is: its kubelet writes that.
func (h *heat) stranger(name, providerID string) {
	h.Helper()
	h.cloud.Lock()
	h.cloud.Servers[serverOf(name)] = openstack.Active(serverOf(name), name, "10.0.1.9")
	h.cloud.Unlock()
	node := nodeOf(name)
	node.Annotations, node.Spec.ProviderID = nil, providerID
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addressOf("w2")}}
	status := node.Status
	h.must(h.here.Create(h.Context(), node))
	node.Status = status
	h.must(h.here.Status().Update(h.Context(), node))
}

// goesOn lets Magnum, Heat, and the cloud-controller-manager do their work.
func (h *heat) goesOn() {
	h.Helper()
	h.cloud.Lock()
	defer h.cloud.Unlock()
	cluster := h.cloud.Cluster
	switch {
	case cluster.Status != "UPDATE_IN_PROGRESS" && len(h.cloud.Resized) > h.done && !h.forgets:
		h.workers().Status = "UPDATE_IN_PROGRESS" // the conductor writes that, and asks Heat, which is slow
		h.since = h.clock.Now()
		h.done++
	case h.workers().Status == "UPDATE_IN_PROGRESS" && cluster.Status != "UPDATE_IN_PROGRESS":
		if h.clock.Now().Sub(h.since) >= h.slow {
			cluster.Status, h.since = "UPDATE_IN_PROGRESS", h.clock.Now()
		}
	case cluster.Status != "UPDATE_IN_PROGRESS" || h.clock.Now().Sub(h.since) < 30*time.Second:
	case h.fails:
		cluster.Status, h.workers().Status = "UPDATE_FAILED", "UPDATE_FAILED"
	default:
		cluster.Status, h.workers().Status = "UPDATE_COMPLETE", "UPDATE_COMPLETE"
		asked := h.cloud.Resized[h.done-1]
		for _, id := range asked.NodesToRemove {
			server := h.cloud.Servers[id]
			delete(h.cloud.Servers, id)
			h.workers().Addresses = slices.DeleteFunc(h.workers().Addresses, func(a string) bool { return a == server.Addresses[0] })
			h.must(client.IgnoreNotFound(h.here.Delete(h.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: server.Name}})))
		}
		for n := 4; len(h.workers().Addresses) < asked.NodeCount && !h.barren; n++ {
			h.add(fmt.Sprint("w", n))
		}
	}
}

// lives lets time pass until the action has ended, or so long.
func (h *heat) lives(long time.Duration, at map[time.Duration]func()) *v1alpha1.NodeAction {
	h.Helper()
	h.lazy = true // nobody of Cluster API is there
	const tick = 10 * time.Second
	for passed := time.Duration(0); passed <= long; passed += tick {
		if do := at[passed]; do != nil {
			do()
		}
		h.look()
		if a := h.action(); a.Finished() != nil {
			return a
		}
		h.goesOn()
		h.clock.Step(tick)
	}
	return h.action()
}

func (h *heat) marked() string {
	h.cloud.Lock()
	defer h.cloud.Unlock()
	if server := h.cloud.Servers[serverOf("w1")]; server != nil {
		return server.Metadata[markMetadata]
	}
	return ""
}

func TestAServerOfMagnumIsReplaced(t *testing.T) {
	h := newHeat(t)
	h.ended(h.lives(time.Hour, nil), v1alpha1.ReasonReplaced, "NodeGroup "+clusterUUID+"/default-worker has 3 Ready nodes")
	if want := []string{"mark w1", "resize default-worker to 3 without " + serverOf("w1")}; !slices.Equal(h.cloud.Calls(), want) {
		t.Errorf("got %v, want %v", h.cloud.Calls(), want)
	}
	if is := h.action().Status.Replace; is.Machine.UID != types.UID(serverOf("w1")) || is.Owner.UID != groupUUID {
		t.Errorf("got %+v", is)
	}
}

func TestAServerThatIsNotRemovedIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		set        func(*heat)
		at         map[time.Duration]func(*heat)
		ends, says string
		// calls that were made, w1's mark among them, and whether it was taken back.
		calls []string
	}{
		"Heat fails": {
			set: func(h *heat) { h.fails = true }, ends: v1alpha1.ReasonTimedOut, says: "its Magnum cluster is UPDATE_FAILED",
			calls: []string{"mark w1", "resize default-worker to 3 without " + serverOf("w1"), "unmark w1"},
		},
		"Magnum forgets it": {
			set: func(h *heat) { h.forgets = true }, ends: v1alpha1.ReasonTimedOut, says: "has not begun with it within 30m0s",
			calls: []string{"mark w1", "resize default-worker to 3 without " + serverOf("w1"), "unmark w1"},
		},
		"Magnum forgets it, and people pause": {
			set:  func(h *heat) { h.forgets = true },
			at:   map[time.Duration]func(*heat){time.Minute: func(h *heat) { h.policy(func(p *v1alpha1.RemedyPolicy) { p.Spec.Paused = true }) }},
			ends: v1alpha1.ReasonRefused, says: "paused",
			calls: []string{"mark w1", "resize default-worker to 3 without " + serverOf("w1"), "unmark w1"},
		},
		"a pause is too late once Magnum is at work": {
			at:    map[time.Duration]func(*heat){20 * time.Second: func(h *heat) { h.policy(func(p *v1alpha1.RemedyPolicy) { p.Spec.Paused = true }) }},
			ends:  v1alpha1.ReasonReplaced,
			calls: []string{"mark w1", "resize default-worker to 3 without " + serverOf("w1")},
		},
		"nor before Heat has begun": {
			set:   func(h *heat) { h.slow = 20 * time.Minute },
			at:    map[time.Duration]func(*heat){5 * time.Minute: func(h *heat) { h.policy(func(p *v1alpha1.RemedyPolicy) { p.Spec.Paused = true }) }},
			ends:  v1alpha1.ReasonReplaced,
			calls: []string{"mark w1", "resize default-worker to 3 without " + serverOf("w1")},
		},
		"a person takes the mark back": {
			set: func(h *heat) { h.forgets = true },
			at: map[time.Duration]func(*heat){5 * time.Minute: func(h *heat) {
				h.cloud.Lock()
				delete(h.cloud.Servers[serverOf("w1")].Metadata, markMetadata)
				h.cloud.Unlock()
			}},
			ends: v1alpha1.ReasonFailed, says: "somebody has taken the mark of Server w1 back",
			calls: []string{"mark w1", "resize default-worker to 3 without " + serverOf("w1")},
		},
		"no new one comes up": {
			set: func(h *heat) { h.barren = true }, ends: v1alpha1.ReasonNotReplaced, says: "has 2 Ready nodes, not 3",
			calls: []string{"mark w1", "resize default-worker to 3 without " + serverOf("w1")},
		},
		"no new one comes up, and another node says that it has the address of one": {
			set: func(h *heat) { h.barren = true },
			at: map[time.Duration]func(*heat){time.Minute: func(h *heat) {
				h.stranger("w5", "openstack:///"+serverOf("w5"))
				h.stranger("w6", "openstack:///"+serverOf("w2"))
				h.stranger("w7", "")
			}},
			ends: v1alpha1.ReasonNotReplaced, says: "has 2 Ready nodes, not 3",
			calls: []string{"mark w1", "resize default-worker to 3 without " + serverOf("w1")},
		},
		"Magnum refuses": {
			set: func(h *heat) {
				h.cloud.Before = func(request string) int {
					if strings.HasSuffix(request, "/actions/resize") {
						return http.StatusBadRequest
					}
					return 0
				}
			},
			ends: v1alpha1.ReasonNotStarted, says: "not begun later than",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeat(t)
			if test.set != nil {
				test.set(h)
			}
			at := map[time.Duration]func(){}
			for when, do := range test.at {
				at[when] = func() { do(h) }
			}
			h.ended(h.lives(2*time.Hour, at), test.ends, test.says)
			if got := h.cloud.Calls(); test.calls != nil && !slices.Equal(got, test.calls) {
				t.Errorf("got %v, want %v", got, test.calls)
			}
			if by := h.marked(); by != "" {
				t.Errorf("it is still marked: %s", by)
			}
		})
	}
}

// The API server's clock says when Magnum was asked, and how long ago that is.
func TestTheRunnersOwnClockSaysNothingOfMagnum(t *testing.T) {
	for _, ahead := range []time.Duration{-3 * time.Hour, -time.Minute, 3 * time.Minute, 3 * time.Hour} {
		for name, forgets := range map[string]bool{"Magnum forgets it": true, "Magnum is late": false} {
			t.Run(fmt.Sprint(name, ", ahead by ", ahead), func(t *testing.T) {
				h := newHeat(t)
				h.ahead, h.forgets = ahead, true
				h.restart()
				at := map[time.Duration]func(){
					time.Minute: func() { h.forgets = forgets },
				}
				if forgets {
					h.ended(h.lives(time.Hour, at), v1alpha1.ReasonTimedOut, "has not begun with it within 30m0s")
					return
				}
				at[20*time.Second] = func() { h.policy(func(p *v1alpha1.RemedyPolicy) { p.Spec.Paused = true }) }
				h.ended(h.lives(time.Hour, at), v1alpha1.ReasonReplaced, "")
			})
		}
	}
}

func TestAServerThatNobodyWouldReplaceIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*heat, *corev1.Node)
		says   string
	}{
		"no magnum in remote.yaml":  {func(h *heat, _ *corev1.Node) { h.config.Magnum, h.config.Karpenter = nil, true }, "does not have replace.magnum"},
		"a providerID of nobody":    {func(_ *heat, n *corev1.Node) { n.Spec.ProviderID = "openstack:///w1" }, "accepted is openstack:///ID of a server"},
		"a server that is gone":     {func(h *heat, _ *corev1.Node) { delete(h.cloud.Servers, serverOf("w1")) }, "there is no server " + serverOf("w1")},
		"another node's server":     {func(_ *heat, n *corev1.Node) { n.Spec.ProviderID = "openstack:///" + serverOf("w2") }, `has the name "w2": is it of another node?`},
		"no such cluster":           {func(h *heat, _ *corev1.Node) { h.cloud.Cluster.UUID = groupUUID }, "there is no Magnum cluster " + clusterUUID},
		"a cluster at work":         {func(h *heat, _ *corev1.Node) { h.cloud.Cluster.Status = "UPDATE_IN_PROGRESS" }, "is UPDATE_IN_PROGRESS"},
		"a cluster that failed":     {func(h *heat, _ *corev1.Node) { h.cloud.Cluster.Status = "UPDATE_FAILED" }, "is UPDATE_FAILED"},
		"a cluster that is deleted": {func(h *heat, _ *corev1.Node) { h.cloud.Cluster.Status = "DELETE_COMPLETE" }, "is DELETE_COMPLETE"},
		"a group at work":           {func(h *heat, _ *corev1.Node) { h.workers().Status = "UPDATE_IN_PROGRESS" }, "node group default-worker of Magnum cluster " + clusterUUID + " is UPDATE_IN_PROGRESS"},
		"a control plane":           {func(h *heat, _ *corev1.Node) { h.cloud.Servers[serverOf("w1")].Addresses = []string{"10.0.0.9"} }, "which is of the control plane"},
		"a server of no group":      {func(h *heat, _ *corev1.Node) { h.cloud.Servers[serverOf("w1")].Addresses = []string{"10.0.0.8"} }, "no node group of Magnum cluster " + clusterUUID + " has an address of server " + serverOf("w1") + " (10.0.0.8)"},
		"addresses of two groups": {func(h *heat, _ *corev1.Node) {
			h.cloud.Servers[serverOf("w1")].Addresses = []string{"10.0.0.9", "10.0.0.1"}
		}, "both have an address"},
		"a group that shrinks":     {func(h *heat, _ *corev1.Node) { h.workers().Count = 2 }, "node group default-worker has 3 nodes, and wants 2"},
		"a server that goes":       {func(h *heat, _ *corev1.Node) { h.cloud.Servers[serverOf("w1")].TaskState = "deleting" }, "is being deleted"},
		"a mark of another action": {func(h *heat, _ *corev1.Node) { h.cloud.Servers[serverOf("w1")].Metadata[markMetadata] = "x" }, "openstack server unset --property nodemend-replace " + serverOf("w1")},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeat(t)
			h.node(func(n *corev1.Node) { test.change(h, n) })
			h.ended(h.lives(time.Minute, nil), v1alpha1.ReasonRefused, test.says)
			if calls := h.cloud.Calls(); len(calls) > 0 {
				t.Errorf("got %v", calls)
			}
		})
	}
}

// What changes between the last look and the request is seen, as far as Magnum's API has something to
// compare: it takes no version.
func TestAGroupThatIsResizedMeanwhileIsReadAgain(t *testing.T) {
	h := newHeat(t)
	gets := 0
	h.cloud.Before = func(request string) int {
		if strings.HasSuffix(request, "/nodegroups/"+groupUUID) {
			gets++
			if gets == 4 { // that of send
				h.cloud.Lock()
				h.workers().Count = 4
				h.cloud.Unlock()
			}
		}
		return 0
	}
	h.lives(time.Minute, nil)
	if want := "resize default-worker to 4 without " + serverOf("w1"); gets < 4 || !slices.Contains(h.cloud.Calls(), want) {
		t.Errorf("%d readings: got %v, want %s", gets, h.cloud.Calls(), want)
	}
}

// Wherever the remote runner dies, and whichever answer of the cloud is lost, Magnum is asked once at
// most, for this server, and the action says what has become of it.
func TestMagnumIsAskedOnceWhereverTheRunnerDies(t *testing.T) {
	whole := newHeat(t)
	requests := 0
	whole.cloud.Before = func(string) int { requests++; return 0 }
	whole.ended(whole.lives(time.Hour, nil), v1alpha1.ReasonReplaced, "")
	if requests < 20 {
		t.Fatalf("there were %d requests", requests)
	}
	for request := 1; request <= requests; request++ {
		if request > 24 && request%9 > 0 { // it only looks by then
			continue
		}
		for _, lost := range []bool{false, true} {
			h := newHeat(t)
			now := 0
			h.cloud.Before = func(string) int {
				now++
				if now == request && !lost {
					h.died = true
				}
				if h.died {
					return http.StatusBadGateway
				}
				return 0
			}
			h.cloud.Lost = func(string) bool {
				if now == request && lost {
					h.died = true
				}
				return now == request && lost
			}
			a := h.lives(2*time.Hour, nil)
			what := fmt.Sprintf("request %d of %d, its answer lost %t", request, requests, lost)
			f := a.Finished()
			resized := len(h.cloud.Resized)
			switch {
			case f == nil:
				t.Errorf("%s: not ended: %+v", what, a.Status.Replace)
			case resized > 1:
				t.Errorf("%s: Magnum was asked %d times", what, resized)
			case resized == 1 && f.Reason != v1alpha1.ReasonReplaced:
				t.Errorf("%s: ended as %+v, and Magnum was asked", what, f)
			case resized == 0 && (f.Reason == v1alpha1.ReasonReplaced || h.marked() != ""):
				t.Errorf("%s: ended as %+v, marked %q, and Magnum was not asked", what, f, h.marked())
			}
		}
	}
}

// Whoever sends again does not know of the first time, such as one whose look came before it.
func TestMagnumIsNotAskedForAServerThatIsMarked(t *testing.T) {
	h := newHeat(t)
	m := magnum{nodes: h.here, config: *h.config.Magnum}
	var node corev1.Node
	h.must(h.here.Get(t.Context(), client.ObjectKey{Name: "w1"}, &node))
	machine, refusal, err := m.of(t.Context(), &node, nil)
	if err != nil || refusal != "" {
		t.Fatal(refusal, err)
	}
	for range 2 {
		h.must(m.send(t.Context(), &machine, "action"))
	}
	if err := m.send(t.Context(), &machine, "another"); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	h.cloud.Lock()
	defer h.cloud.Unlock()
	want := []openstack.Resize{{NodeCount: 3, NodesToRemove: []string{serverOf("w1")}, NodeGroup: groupUUID}}
	if diff := cmp.Diff(want, h.cloud.Resized); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAMarkStaysWhileMagnumIsAtWork(t *testing.T) {
	h := newHeat(t)
	m := magnum{nodes: h.here, config: *h.config.Magnum}
	var node corev1.Node
	h.must(h.here.Get(t.Context(), client.ObjectKey{Name: "w1"}, &node))
	machine, _, err := m.of(t.Context(), &node, nil)
	h.must(err)
	h.must(m.send(t.Context(), &machine, "action"))
	of := &v1alpha1.ReplaceStatus{Machine: machine.Object, Owner: machine.Owner}
	for _, at := range []*string{&h.workers().Status, &h.cloud.Cluster.Status} {
		before := *at
		*at = "UPDATE_IN_PROGRESS"
		if err := m.takeBack(t.Context(), of, runner.MachineSeen{}); !apierrors.IsConflict(err) || h.marked() != "action" {
			t.Errorf("got %v, marked by %q", err, h.marked())
		}
		*at = before
	}
	h.must(m.takeBack(t.Context(), of, runner.MachineSeen{}))
	if by := h.marked(); by != "" {
		t.Errorf("it is still marked by %s", by)
	}
}
