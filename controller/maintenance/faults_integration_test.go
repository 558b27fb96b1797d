//go:build integration

package maintenance

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/faults"
)

// counted is put before the path of every write that counts, so that the faults'
// transport, which counts those of our kinds, counts those of nodes and pods as well.
const counted = "/apis/nodemend.dev/counted"

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// failing makes the connections of a process those of the transport. Events do not
// count: they are sent when it suits.
func failing(transport *faults.Transport) func(*rest.Config) {
	rewrite := func(rewrite func(path string) string) func(http.RoundTripper) http.RoundTripper {
		return func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				clone := req.Clone(req.Context())
				clone.URL.Path = rewrite(req.URL.Path)
				return next.RoundTrip(clone)
			})
		}
	}
	return func(cfg *rest.Config) {
		cfg.Wrap(rewrite(func(path string) string { return strings.TrimPrefix(path, counted) }))
		cfg.Wrap(transport.Wrap)
		cfg.Wrap(rewrite(func(path string) string {
			if strings.Contains(path, "/events") {
				return path
			}
			return counted + path
		}))
	}
}

// maxWrites is more than are written in one story.
const maxWrites = 25

func TestAControllerThatDiesAtAnyWriteIsTakenOverByTheNext(t *testing.T) {
	stories := map[string]func(s *scene, await func(what string, so func() bool)){
		"person": (*scene).personsStory,
		"policy": (*scene).policysStory,
	}
	for name, story := range stories {
		for _, mode := range []faults.Mode{faults.Before, faults.After} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				for n := 1; n <= maxWrites; n++ {
					died := false
					t.Run(fmt.Sprintf("write %d", n), func(t *testing.T) {
						s := newScene(t, fmt.Sprintf("%s-%s-%d", name, mode, n))
						var faulted atomic.Bool // set once the request is over, which ends with its process
						transport := &faults.Transport{At: n, Mode: mode, Dead: true, OnFault: func() { faulted.Store(true) }}
						stop := s.start(failing(transport))
						story(s, func(what string, so func() bool) {
							t.Helper()
							s.await(what, func() bool {
								if !died && faulted.Load() {
									died = true
									stop()
									stop = s.start()
								}
								return so()
							})
						})
					})
					if !died {
						t.Logf("the story has %d writes", n-1)
						if n < 6 {
							t.Errorf("only %d", n-1)
						}
						return
					}
				}
				t.Errorf("the story has more than %d writes", maxWrites)
			})
		}
	}
}

// personsStory takes a node out that has a pod, and gives it back.
func (s *scene) personsStory(await func(string, func() bool)) {
	node := s.plainNode(s.name)
	pod := s.pod("p", node, s.managed)
	how := inAnHour(v1alpha1.OnTimeoutAbort)
	how.GracePeriodSeconds = ptr.To[int64](0)
	m := s.maintain(s.name, node, how)
	await("the node to be drained", func() bool { return s.maintenance(m.Name).Drained() })
	if s.exists(pod) || !s.out(node) {
		s.Errorf("the pod is there: %t, the node is out: %t", s.exists(pod), s.out(node))
	}
	if status := s.maintenance(m.Name).Status; status.Drain.Percent != 100 || status.NodeUID != s.node(node).UID || cordonedOf(s.maintenance(m.Name)).Reason != v1alpha1.ReasonCordoned {
		s.Errorf("got %+v, %+v", status, status.Drain)
	}
	s.delete(m)
	await("the maintenance to go", func() bool { return s.maintenance(m.Name) == nil })
	s.expectInService(node)
}

// policysStory takes a node out that goes then, and comes back as another one.
func (s *scene) policysStory(await func(string, func() bool)) {
	node := s.plainNode(s.name)
	m := s.maintain(s.name, node, inAnHour(v1alpha1.OnTimeoutAbort), s.byPolicy, func(m *v1alpha1.NodeMaintenance) { m.Finalizers = nil })
	await("the node to be drained", func() bool { return s.maintenance(m.Name).Drained() })
	if !s.out(node) {
		s.Error("the node is not out")
	}
	s.delete(aNode(node))
	await("the maintenance to go", func() bool { return s.maintenance(m.Name) == nil })
	s.plainNode(node)
	s.maintain(s.name+"-next", node, nil)
	await("the new node to be taken out", func() bool { return s.out(node) })
	s.delete(&v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: s.name + "-next"}})
	await("the next maintenance to go", func() bool { return s.maintenance(s.name+"-next") == nil })
	s.expectInService(node)
}
