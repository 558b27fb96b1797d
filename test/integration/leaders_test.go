//go:build integration

package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/faults"
)

// A fleet is a scene of sick nodes of which so many are healed at once.
const (
	fleetNodes = 30
	fleetLimit = 2
)

func TestTwoControllersThatBothBelieveTheyLeadStayWithinTheBudget(t *testing.T) {
	t.Parallel()
	s, record := newFleet(t, "leaders", fleetNodes)
	s.startController()
	s.startController()
	s.Eventually(s.limit).Should(BeEquivalentTo(fleetLimit))
	s.fallSick()
	s.expectFleetHealed(record)
}

// One controller's watches go silent; it believes that it leads, and that all is as
// it was. Another one works beside it.
func TestAControllerWhoseCacheHasStoppedStaysWithinTheBudget(t *testing.T) {
	for _, test := range []struct {
		name, silent string
		early        bool // before the nodes fall sick
	}{
		{name: "everything", silent: "/"},
		{name: "budgets", silent: "/remediationbudgets", early: true},
		{name: "nodes", silent: "/nodes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, record := newFleet(t, "stopped-"+test.name, fleetNodes)
			stopped := make(chan struct{})
			cfg := rest.CopyConfig(s.cfg)
			cfg.Wrap(silence(test.silent, stopped))
			s.startControllerOn(cfg)
			s.Eventually(s.limit).Should(BeEquivalentTo(fleetLimit))
			if !test.early {
				s.fallSick()
				s.Eventually(func() int { return len(s.permits()) }).Should(Equal(fleetLimit))
			}
			close(stopped)
			s.startController()
			if test.early {
				s.fallSick()
			}
			s.expectFleetHealed(record)
		})
	}
}

// Controllers die one after the other, each a few writes later than the one before,
// before one is sent or after it was committed.
func TestControllersThatDieAgainAndAgainStayWithinTheBudget(t *testing.T) {
	t.Parallel()
	s, record := newFleet(t, "mortal", fleetNodes/2)
	s.fallSick()
	deaths := 0
	s.Eventually(func() int { // each try is the life of a controller
		mode := faults.Before
		if deaths%2 == 1 {
			mode = faults.After
		}
		transport := &faults.Transport{At: 5 + 4*deaths, Mode: mode, Dead: true}
		cfg := rest.CopyConfig(s.cfg)
		cfg.Wrap(transport.Wrap)
		stop := s.startControllerOn(cfg)
		s.Eventually(func() bool { return transport.Faults() > 0 || s.healed() == len(s.nodes) }).Should(BeTrue())
		stop()
		deaths++
		return s.healed()
	}).Should(Equal(len(s.nodes)))
	t.Logf("%d controllers", deaths)
	s.startController() // the last may have died before it gave the last permit back
	s.expectFleetHealed(record)
}

// newFleet creates the nodes, and starts their runners and detectors. What is
// returned has every version of the budget and the actions.
func newFleet(t *testing.T, name string, nodes int) (*scene, *record) {
	t.Helper()
	s := newSceneApart(t, name, nodes, fmt.Sprint(fleetLimit))
	step := shell("true")
	step.Attempts = 2
	s.policy(step)
	r := s.record()
	s.playFleet(300 * time.Millisecond)
	return s, r
}

// fallSick makes all nodes sick.
func (s *scene) fallSick() {
	s.t.Helper()
	s.touch("fallen")
	now := time.Now()
	for _, node := range s.nodes {
		s.Expect(s.report(s.ctx, node, sick, corev1.ConditionTrue, now, now)).To(Succeed())
	}
}

// healed counts the nodes whose remediation has ended well.
func (s *scene) healed() (n int) {
	var list v1alpha1.RemediationList
	s.Expect(s.client.List(s.ctx, &list, s.mine)).To(Succeed())
	for i := range list.Items {
		if list.Items[i].State() == v1alpha1.ReasonRecovered {
			n++
		}
	}
	return n
}

// expectFleetHealed waits until all nodes are healed, and expects that each was acted
// on once, and never more at once than the budget allows.
func (s *scene) expectFleetHealed(r *record) {
	s.t.Helper()
	began := time.Now()
	s.Eventually(s.healed).Should(Equal(len(s.nodes)))
	s.Eventually(s.permits).Should(BeEmpty())
	s.t.Logf("healed after %s", time.Since(began).Round(time.Second))
	for _, node := range s.nodes {
		s.Expect(s.remediations(node)).To(HaveLen(1))
		s.Expect(s.lines("runs-"+node)).To(Equal(1), "executions on "+node)
	}
	most, versions := r.replay(s)
	s.Expect(most).To(Equal(fleetLimit), "most at once")
	s.Expect(versions).To(BeNumerically(">", 4*len(s.nodes)))
}

// playFleet plays all runners and detectors: an action is claimed, takes this long,
// and helps.
func (s *scene) playFleet(lasts time.Duration) {
	actions, err := s.client.Watch(s.ctx, &v1alpha1.NodeActionList{}, s.mine)
	s.Expect(err).NotTo(HaveOccurred())
	s.spawn("runners and detectors", func(ctx context.Context) error {
		defer actions.Stop()
		running, since := map[string]*v1alpha1.NodeAction{}, map[string]time.Time{}
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		fell := time.Now()
		for reported, all := fell, fell; ; {
			select {
			case <-ctx.Done():
				return nil
			case event := <-actions.ResultChan():
				a, ok := event.Object.(*v1alpha1.NodeAction)
				if !ok || event.Type == watch.Deleted || a.Status.Claim != nil || a.Finished() != nil || time.Now().After(a.Spec.ExpiresAt.Time) {
					continue
				}
				if err := s.claim(ctx, a); err != nil {
					continue // it was cancelled
				}
				s.append("runs-" + a.Spec.NodeName)
				running[a.Name] = a
			case now := <-tick.C:
				var errs []error
				for name, a := range running {
					if now.Sub(a.Status.Claim.Time.Time) > lasts {
						since[a.Spec.NodeName] = now
						errs = append(errs, s.report(ctx, a.Spec.NodeName, sick, corev1.ConditionFalse, now, now), s.finish(ctx, a))
						delete(running, name)
					}
				}
				if now.Sub(reported) > time.Second {
					reported = now
					for node, healed := range since {
						if now.Sub(healed) < 5*time.Second {
							errs = append(errs, s.report(ctx, node, sick, corev1.ConditionFalse, now, healed))
						}
					}
				}
				if now.Sub(all) > 30*time.Second { // a detector repeats what it has seen
					all = now
					for _, node := range s.nodes {
						if at, healed := since[node]; healed {
							errs = append(errs, s.report(ctx, node, sick, corev1.ConditionFalse, now, at))
						} else if s.exists("fallen") {
							errs = append(errs, s.report(ctx, node, sick, corev1.ConditionTrue, now, fell))
						}
					}
				}
				if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
					return err
				}
			}
		}
	})
}

// record has every version of the scene's budget and actions.
type record struct {
	mu     sync.Mutex
	events []watch.Event
}

func (s *scene) record() *record {
	r := &record{}
	for _, list := range []client.ObjectList{&v1alpha1.RemediationBudgetList{}, &v1alpha1.NodeActionList{}} {
		watcher, err := s.client.Watch(s.ctx, list, s.mine)
		s.Expect(err).NotTo(HaveOccurred())
		s.spawn("recorder", func(ctx context.Context) error {
			defer watcher.Stop()
			for {
				select {
				case <-ctx.Done():
					return nil
				case event, open := <-watcher.ResultChan():
					if !open {
						return s.ctx.Err() // nil, and logged by who misses it, unless the test ends
					}
					r.mu.Lock()
					r.events = append(r.events, event)
					r.mu.Unlock()
				}
			}
		})
	}
	return r
}

// replay goes through all versions in the order in which they were written, and
// expects that whatever may run has one of the permits. It returns how many there
// were at once at most, and the number of versions.
func (r *record) replay(s *scene) (most, versions int) {
	s.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	version := func(e watch.Event) uint64 {
		v, err := strconv.ParseUint(e.Object.(client.Object).GetResourceVersion(), 10, 64)
		s.Expect(err).NotTo(HaveOccurred())
		return v
	}
	slices.SortStableFunc(r.events, func(a, b watch.Event) int { return cmp.Compare(version(a), version(b)) })
	var permits map[string]v1alpha1.Permit
	running := map[string]*v1alpha1.NodeAction{}
	for _, e := range r.events {
		switch o := e.Object.(type) {
		case *v1alpha1.RemediationBudget:
			permits = o.Status.Groups[v1alpha1.UngroupedNodes].Permits
		case *v1alpha1.NodeAction:
			delete(running, o.Name)
			if e.Type != watch.Deleted && o.Finished() == nil && o.Spec.ExpiresAt.After(o.CreationTimestamp.Time) {
				running[o.Name] = o
			}
		}
		for name, a := range running {
			s.Expect(permits).To(HaveKeyWithValue(a.Spec.NodeName, HaveField("Remediation", a.Spec.Remediation)), name+" may run")
		}
		most = max(most, len(permits), len(running))
	}
	return most, len(r.events)
}

// silence is a transport whose watches of what has this in its path deliver nothing
// any more once the channel is closed, without an error.
func silence(path string, since <-chan struct{}) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			if err == nil && req.URL.Query().Get("watch") == "true" && strings.Contains(req.URL.Path, path) {
				resp.Body = &silent{ReadCloser: resp.Body, since: since, ctx: req.Context()}
			}
			return resp, err
		})
	}
}

// silent is the body of such a watch.
type silent struct {
	io.ReadCloser
	since <-chan struct{}
	ctx   context.Context
}

// Read implements io.Reader.
func (b *silent) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	select {
	case <-b.since:
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	default:
		return n, err
	}
}
