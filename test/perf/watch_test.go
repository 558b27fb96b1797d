//go:build integration

package perf

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const (
	// patience is how long a benchmark waits for what takes a second or two.
	patience = 2 * time.Minute
	// recovery is how long after an action a detector sees that it has helped: what
	// it saw in the second of the action proves nothing.
	recovery = 2100 * time.Millisecond
)

// sightings are the times at which a watch has first shown something of a node.
type sightings struct {
	lock sync.Mutex
	at   map[string]time.Time
	news chan struct{} // closed and replaced with every sighting
}

// see takes notice, and reports whether it is the first time.
func (s *sightings) see(name string) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	if _, known := s.at[name]; known {
		return false
	}
	s.at[name] = time.Now()
	close(s.news)
	s.news = make(chan struct{})
	return true
}

// await waits for a number of sightings, of which the names are some, and returns all.
func (s *scene) await(seen *sightings, count int, names ...string) map[string]time.Time {
	s.b.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		seen.lock.Lock()
		missing := len(seen.at) < count
		for _, name := range names {
			_, known := seen.at[name]
			missing = missing || !known
		}
		all, news := maps.Clone(seen.at), seen.news
		seen.lock.Unlock()
		if !missing {
			return all
		}
		select {
		case <-news:
		case <-limit.C:
			s.b.Fatalf("%d of %d seen within %s", len(all), count, patience)
		}
	}
}

// watch watches a kind, and calls observe with what comes and changes. What observe
// calls a sighting is one.
func (s *scene) watch(list client.ObjectList, observe func(client.Object) (name string)) (seen *sightings, stop func()) {
	s.b.Helper()
	if err := s.client.List(s.ctx, list); err != nil {
		s.b.Fatal(err)
	}
	from := &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}
	w, err := s.client.Watch(s.ctx, list, &client.ListOptions{Raw: from})
	if err != nil {
		s.b.Fatal(err)
	}
	seen = &sightings{at: map[string]time.Time{}, news: make(chan struct{})}
	stop = s.spawn(func(ctx context.Context) error {
		defer w.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case event, ok := <-w.ResultChan():
				if !ok {
					return fmt.Errorf("the watch of %T has ended", list)
				}
				if obj, ok := event.Object.(client.Object); ok && event.Type != watch.Deleted {
					if name := observe(obj); name != "" {
						seen.see(name)
					}
				}
			}
		}
	})
	return seen, stop
}

// watchRemediations sees nodes that have a remediation, or one that has ended.
func (s *scene) watchRemediations(ended bool) (*sightings, func()) {
	return s.watch(&v1alpha1.RemediationList{}, func(obj client.Object) string {
		if r, ok := obj.(*v1alpha1.Remediation); ok && (!ended || r.Ended()) {
			return r.Spec.NodeName
		}
		return ""
	})
}

// runners plays the runners and detectors of all nodes: every action is claimed and
// has succeeded at once, and the next look at the node finds it healthy.
func (s *scene) runners() (seen *sightings, stop func()) {
	var nodes sync.WaitGroup
	ctx, cancel := context.WithCancel(s.ctx)
	started := map[string]bool{}
	seen, stopWatch := s.watch(&v1alpha1.NodeActionList{}, func(obj client.Object) string {
		action := obj.(*v1alpha1.NodeAction)
		if !started[action.Name] {
			started[action.Name] = true
			nodes.Go(func() {
				if err := s.run(ctx, action.Name, action.Spec.NodeName); err != nil && ctx.Err() == nil {
					s.b.Error(err)
				}
			})
		}
		return action.Spec.NodeName
	})
	return seen, func() {
		stopWatch()
		cancel()
		nodes.Wait()
	}
}

func (s *scene) run(ctx context.Context, action, node string) error {
	now := metav1.Now()
	claim := map[string]any{"claim": v1alpha1.Claim{RunnerID: "perf", BootID: "perf", Time: now, Remedy: v1alpha1.RemedyCommand}}
	finished := map[string]any{"conditions": []metav1.Condition{{
		Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded,
		Message: "exit status 0", LastTransitionTime: now,
	}}}
	for _, status := range []any{claim, finished} {
		data, err := json.Marshal(map[string]any{"status": status})
		if err != nil {
			return err
		}
		obj := &v1alpha1.NodeAction{ObjectMeta: metav1.ObjectMeta{Name: action}}
		if err := s.client.Status().Patch(ctx, obj, client.RawPatch(types.MergePatchType, data)); err != nil {
			return err
		}
	}
	if !s.pause(ctx, recovery) {
		return nil
	}
	return s.patch(ctx, node, sick, "False", time.Now())
}

// pause lets time pass, and reports whether all of it has.
func (s *scene) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// watchNodes sees nodes that have the condition other.
func (s *scene) watchNodes() (*sightings, func()) {
	return s.watch(&corev1.NodeList{}, func(obj client.Object) string {
		node := obj.(*corev1.Node)
		for i := range node.Status.Conditions {
			if node.Status.Conditions[i].Type == other && node.Status.Conditions[i].Status == corev1.ConditionTrue {
				return node.Name
			}
		}
		return ""
	})
}
