//go:build integration

package integration

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// A controller that has not heard of the nodes for a while thinks that the
// remediation is still held back, sees that it has a permit, and releases it, while
// another one that knows better announces an action under that permit.
func TestAPermitThatIsUsedMeanwhileIsNotReleasedByAControllerWithAnOldView(t *testing.T) {
	t.Parallel()
	s := newSceneApart(t, "oldview", 1, "1")
	node := s.nodes[0]
	s.label(node, "true")
	s.policy(shell("true"))
	s.touch("sick")
	s.detect(node, "sick")

	old, released, action := make(chan struct{}), make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(released) })
	announced := sync.OnceFunc(func() { close(action) })
	cfg := rest.CopyConfig(s.cfg)
	cfg.Wrap(silence("/nodes", old))
	cfg.Wrap(beforePatch("/remediationbudgets/", func() {
		select {
		case <-old: // its write comes late
			once()
			<-action
		default:
		}
	}))
	s.startControllerOn(cfg)
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Waiting/Excluded"))
	close(old)
	s.label(node, "false")
	cfg = rest.CopyConfig(s.cfg)
	cfg.Wrap(beforePatch("/remediations/", func() {
		select {
		case <-released:
		case <-time.After(3 * time.Second):
		}
	}))
	s.startControllerOn(cfg) // no runner: the action stays where it is
	t.Cleanup(announced)
	s.Eventually(s.actions).WithArguments(node).Should(HaveLen(1))
	s.Expect(s.permits()).To(ConsistOf(node))
	announced()
	s.Consistently(s.permits, "3s").Should(ConsistOf(node), "the action is under way")
}

func beforePatch(path string, wait func()) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && strings.Contains(req.URL.Path, path) {
				wait()
			}
			return next.RoundTrip(req)
		})
	}
}
