package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/exporter"
	config "github.com/nodemend/nodemend/config/detector"
)

// The tests run in a synctest bubble: the real clock is a fake one there.

// server is a played API server with nodes.
type server struct {
	mu    sync.Mutex
	nodes map[string]*corev1.Node
	// writes are those of each node: condition, status and reason.
	writes map[string][]string
	away   bool
}

func newServer(names ...string) *server {
	s := &server{nodes: map[string]*corev1.Node{}, writes: map[string][]string{}}
	for _, name := range names {
		s.nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"cp": ""}}}
	}
	return s
}

// change changes a node, or nil if there is none.
func (s *server) change(name string, change func(*corev1.Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.nodes[name])
}

func (s *server) has(name, conditionType string) (found corev1.NodeCondition) {
	s.change(name, func(n *corev1.Node) {
		for _, c := range n.Status.Conditions {
			if string(c.Type) == conditionType {
				found = c
			}
		}
	})
	return found
}

// written returns and forgets what was written of a node.
func (s *server) written(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(s.writes[name], "; ")
	s.writes[name] = nil
	return all
}

// ofNode is one Node of a server.
type ofNode struct {
	*server
	name string
}

func (n ofNode) Get(context.Context) (*corev1.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away {
		return nil, errors.New("the API server is away")
	}
	return n.nodes[n.name].DeepCopy(), nil
}

func (n ofNode) PatchStatus(_ context.Context, data []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away {
		return errors.New("the API server is away")
	}
	var patch struct {
		Status struct {
			Conditions []struct {
				corev1.NodeCondition
				Patch string `json:"$patch"`
			}
		}
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		return err
	}
	node := n.nodes[n.name]
	for _, c := range patch.Status.Conditions {
		node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(old corev1.NodeCondition) bool { return old.Type == c.Type })
		if c.Patch == "delete" {
			n.writes[n.name] = append(n.writes[n.name], "-"+string(c.Type))
			continue
		}
		node.Status.Conditions = append(node.Status.Conditions, c.NodeCondition)
		n.writes[n.name] = append(n.writes[n.name], fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	var fields []string
	for _, c := range node.Status.Conditions {
		fields = append(fields, fmt.Sprintf(`"k:{\"type\":\"%s\"}":{}`, c.Type))
	}
	node.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: FieldManager, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{` + strings.Join(fields, ",") + `}}}`),
	}}
	return nil
}

// fakeLook finds what a test says, of nodes with the label cp.
type fakeLook struct {
	condition string
	run       config.RemoteRun
	mu        sync.Mutex
	finds     checks.Result
	looks     int
	hang      bool
}

func (l *fakeLook) String() string             { return "fake" }
func (l *fakeLook) settings() config.RemoteRun { return l.run }
func (l *fakeLook) set(r checks.Result)        { l.mu.Lock(); l.finds = r; l.mu.Unlock() }
func (l *fakeLook) types(n node) []string {
	if _, is := n.labels["cp"]; !is {
		return nil
	}
	return []string{l.condition}
}

func (l *fakeLook) look(ctx context.Context, nodes []node) found {
	if l.hang {
		<-ctx.Done()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks++
	f := found{}
	for _, n := range nodes {
		f.add(n.name, l.condition, l.finds)
	}
	return f
}

// process is one of the remote detector's.
type process struct {
	*detector
	end  context.CancelFunc
	done chan struct{}
}

var bad, well = checks.Problem("Bad", "it is bad"), checks.Healthy("Well", "it is well")

func newLook(r checks.Result) *fakeLook {
	return &fakeLook{condition: "Sick", finds: r, run: config.DefaultRemote().ControlPlaneEndpoint.RemoteRun}
}

// begin starts a process that knows these nodes.
func begin(t *testing.T, s *server, l look, names ...string) *process {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	half := func() float64 { return 0.5 }
	d := newDetector([]look{l}, m, clock.RealClock{}, half)
	d.nodes = newFleet(fleetOptions{
		looks: []look{l}, heartbeat: config.DefaultRemote().Heartbeat, clock: clock.RealClock{}, rand: half, metrics: m.exporter,
		export: func(o exporter.Options) (*exporter.Exporter, error) { return exporter.NewFor(ofNode{s, o.NodeName}, o) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{d, cancel, make(chan struct{})}
	for _, name := range names {
		s.meet(ctx, d, name)
	}
	go func() {
		defer close(p.done)
		d.repeat(ctx, l)
		d.nodes.close()
	}()
	return p
}

// meet tells a process of a node as it is.
func (s *server) meet(ctx context.Context, d *detector, name string) {
	s.change(name, func(n *corev1.Node) {
		slim, _ := d.nodes.needed(n.DeepCopy())
		d.nodes.put(ctx, d.nodes.known(slim.(*corev1.Node)))
	})
}

func (p *process) stop() {
	p.end()
	<-p.done
}

func expect(t *testing.T, s *server, name, want string) {
	t.Helper()
	synctest.Wait()
	if got := s.written(name); got != want {
		t.Errorf("of %s was written %q, want %q", name, got, want)
	}
}

func TestAStatusChangesAfterSoManyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newServer("a", "b"), newLook(well)
		p := begin(t, s, l, "a", "b")
		defer p.stop()
		time.Sleep(time.Second)
		expect(t, s, "a", "Sick=False Well")
		expect(t, s, "b", "Sick=False Well")
		l.set(bad)
		time.Sleep(80 * time.Second) // two looks
		if got := s.has("a", "Sick").Status; got != "False" {
			t.Errorf("it is %s", got)
		}
		time.Sleep(10 * time.Second)
		if got := s.has("a", "Sick"); got.Status != "True" || got.Reason != "Bad" || got.Message != "it is bad" {
			t.Errorf("it is %+v", got)
		}
		l.set(well)
		time.Sleep(time.Minute)
		if got := s.has("a", "Sick"); got.Status != "False" {
			t.Errorf("it is %+v", got)
		}
	})
}

func TestNoRestartResetsWhatNoLookHasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("a")
		p := begin(t, s, newLook(bad), "a")
		time.Sleep(2 * time.Minute)
		before := s.has("a", "Sick")
		if before.Status != "True" {
			t.Fatalf("it is %+v", before)
		}
		p.stop()
		s.written("a")

		hangs := newLook(well)
		hangs.hang = true
		p = begin(t, s, hangs, "a")
		time.Sleep(10 * time.Minute)
		expect(t, s, "a", "") // no look, no write
		p.stop()

		p = begin(t, s, newLook(well), "a")
		time.Sleep(time.Second)
		expect(t, s, "a", "") // one look is not enough
		p.stop()

		p = begin(t, s, newLook(bad), "a")
		defer p.stop()
		time.Sleep(time.Second)
		after := s.has("a", "Sick")
		if after.Status != "True" || !after.LastTransitionTime.Equal(&before.LastTransitionTime) || !after.LastHeartbeatTime.After(before.LastHeartbeatTime.Time) {
			t.Errorf("before it was %+v, now %+v", before, after)
		}
	})
}

func TestANodeThatCannotBeReadIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("a")
		p := begin(t, s, newLook(bad), "a")
		time.Sleep(2 * time.Minute)
		since := s.has("a", "Sick").LastTransitionTime
		p.stop()
		s.written("a")
		s.away = true
		l := newLook(well)
		p = begin(t, s, l, "a")
		defer p.stop()
		time.Sleep(time.Second) // its only look at health
		l.set(bad)
		time.Sleep(time.Minute)
		s.mu.Lock()
		s.away = false
		s.mu.Unlock()
		time.Sleep(time.Minute)
		if got := s.has("a", "Sick"); got.Status != "True" || !got.LastTransitionTime.Equal(&since) {
			t.Errorf("it is %+v, and was True since %s", got, since)
		}
	})
}

func TestAHeartbeatIsWhenTheLookBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("a")
		p := begin(t, s, newLook(bad), "a")
		defer p.stop()
		for range 20 {
			time.Sleep(time.Minute)
			c := s.has("a", "Sick")
			if age := time.Since(c.LastHeartbeatTime.Time); c.Status == "True" && (age > 90*time.Second || age < 0) {
				t.Errorf("a heartbeat is %s old: the controller takes one of two minutes for outdated", age)
			}
		}
	})
}

func TestConditionsOfAFormerConfigurationAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("a", "b")
		p := begin(t, s, newLook(bad), "a", "b")
		time.Sleep(2 * time.Minute)
		p.stop()
		s.change("b", func(n *corev1.Node) { n.Labels = nil }) // no node of the control plane any more
		s.written("a")
		s.written("b")
		l := newLook(well)
		l.condition = "Other"
		p = begin(t, s, l, "a", "b")
		defer p.stop()
		time.Sleep(14 * time.Minute)
		if s.has("a", "Sick").Status != "True" || s.has("b", "Sick").Status != "True" {
			t.Error("it was removed at once: a configuration that was wrong can't be put right")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s.has("a", "Sick").Status != "" || s.has("b", "Sick").Status != "" || s.has("a", "Other").Status != "False" {
			t.Errorf("left is %+v", s.nodes)
		}
		expect(t, s, "b", "-Sick")
	})
}

func TestNodesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newServer("a", "b"), newLook(well)
		p := begin(t, s, l, "a")
		defer p.stop()
		time.Sleep(time.Minute)
		expect(t, s, "b", "")
		s.meet(t.Context(), p.detector, "b")
		time.Sleep(time.Minute)
		if got := s.has("b", "Sick").Status; got != "False" {
			t.Errorf("of a new node it is %q", got)
		}
		p.nodes.remove("a")
		l.set(bad)
		time.Sleep(10 * time.Minute)
		if a, b := s.has("a", "Sick").Status, s.has("b", "Sick").Status; a != "False" || b != "True" {
			t.Errorf("of the node that is gone it is %s, of the other one %s", a, b)
		}
		s.change("b", func(n *corev1.Node) { n.Labels = nil })
		s.meet(t.Context(), p.detector, "b")
		synctest.Wait()
		s.written("b")
		time.Sleep(5 * time.Minute)
		expect(t, s, "b", "") // nobody looks at it any more
		if nodes := p.nodes.of(l); len(nodes) != 0 {
			t.Errorf("looked at are %v", nodes)
		}
	})
}

func TestALookThatDoesNotEndIsNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLook(well)
		l.hang = true
		p := begin(t, newServer("a"), l, "a")
		defer p.stop()
		time.Sleep(time.Minute)
		if err := p.healthy(); err != nil {
			t.Errorf("after a minute: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if err := p.healthy(); err == nil || !strings.Contains(err.Error(), "fake has not begun to look for 3m0s") {
			t.Errorf("after three: %v", err)
		}
	})
}

func TestTheWorstOfALookIsCounted(t *testing.T) {
	f := found{}
	if got := f.worst(); got != checks.False {
		t.Errorf("of nothing: %s", got)
	}
	f.add("a", "A", well)
	f.add("b", "A", checks.CannotTell("Odd", ""))
	if got := f.worst(); got != checks.Unknown {
		t.Errorf("got %s", got)
	}
	f.add("b", "B", bad)
	f.add("c", "A", checks.CannotTell("Odd", ""))
	if got := f.worst(); got != checks.True {
		t.Errorf("got %s", got)
	}
}

// An alert that names all nodes at once: each is written once, and then as often as a problem is.
func TestAStormIsOneWriteForEachNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 5000
		var names []string
		for i := range all {
			names = append(names, fmt.Sprintf("n%d", i))
		}
		s, l := newServer(names...), newLook(well)
		p := begin(t, s, l, names...)
		defer p.stop()
		time.Sleep(time.Second)
		count := func(status string) (n int) {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, of := range s.writes {
				for _, write := range of {
					if strings.HasPrefix(write, "Sick="+status) {
						n++
					}
				}
			}
			clear(s.writes)
			return n
		}
		if got := count(""); got != all {
			t.Errorf("at the start there were %d writes", got)
		}
		l.set(bad)
		time.Sleep(85 * time.Second) // the third look at it is after 84.5 s
		if got := count("True"); got != all {
			t.Errorf("of a storm there were %d writes", got)
		}
		time.Sleep(time.Minute)
		if got := count("True"); got > 3*all {
			t.Errorf("in the minute after it there were %d writes", got)
		}
	})
}
