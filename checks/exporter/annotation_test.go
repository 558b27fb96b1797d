package exporter

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/internal/power"
)

func bmcAt(address string) power.ReportedBMC {
	return power.ReportedBMC{Addresses: []netip.Addr{netip.MustParseAddr(address)}}
}

// annotations are the patches, since the last call, that write an annotation.
func annotations(n *fakeNode) (found []string) {
	for _, patch := range n.taken() {
		if strings.Contains(patch, "annotations") {
			found = append(found, patch)
		}
	}
	return found
}

const atSeven = `{"metadata":{"uid":"uid-1","annotations":{"nodemend.dev/bmc":"{\"addresses\":[\"10.0.0.7\"]}"}}}`

func TestWhereTheBMCIsReachedIsWrittenWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{}
		e, _, stop := run(t, node)
		defer stop()
		for step, tt := range []struct {
			address string
			want    string
		}{
			{"10.0.0.7", atSeven},
			{"10.0.0.7", ""},
			{"10.0.0.8", strings.Replace(atSeven, "10.0.0.7", "10.0.0.8", 1)},
			{"10.0.0.7", atSeven},
		} {
			e.ReportBMC(bmcAt(tt.address))
			synctest.Wait()
			if got := strings.Join(annotations(node), " "); got != tt.want {
				t.Errorf("%d: written %s, want %s", step, got, tt.want)
			}
			time.Sleep(time.Hour)
			if got := annotations(node); got != nil {
				t.Errorf("%d: an hour later: %s", step, got)
			}
		}
	})
}

func TestARestartDoesNotWriteWhatTheNodeSaysAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{annotated: map[string]string{power.BMCAnnotation: `{"addresses":["10.0.0.7"]}`}}
		e, _, stop := run(t, node)
		defer stop()
		e.ReportBMC(bmcAt("10.0.0.7"))
		synctest.Wait()
		if got := annotations(node); got != nil {
			t.Errorf("written %s", got)
		}
		if node.reads != 1 {
			t.Errorf("the Node was read %d times", node.reads)
		}
	})
}

// Somebody has written it with the kubelet's rights, or the Node was registered anew.
func TestAnAnnotationThatWasChangedIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{annotated: map[string]string{power.BMCAnnotation: `{"addresses":["10.0.0.7"]}`}}
		e, _, stop := run(t, node)
		defer stop()
		for range 12 {
			e.ReportBMC(bmcAt("10.0.0.7"))
			report(e, checks.False)
			time.Sleep(5 * time.Minute)
		}
		if got := annotations(node); got != nil {
			t.Errorf("written %s", got)
		}
		node.set(func(n *fakeNode) { n.annotated = map[string]string{power.BMCAnnotation: `{"addresses":["10.0.0.99"]}`} })
		for range 3 {
			e.ReportBMC(bmcAt("10.0.0.7"))
			report(e, checks.False)
			time.Sleep(5 * time.Minute)
		}
		if got := annotations(node); len(got) == 0 || got[0] != atSeven {
			t.Errorf("written %s", got)
		}
	})
}

func TestAnAnnotationThatIsRefusedHindersNothingAndIsTriedMoreAndMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &refusing{fakeNode: &fakeNode{}}
		e, _, stop := run(t, node)
		defer stop()
		e.ReportBMC(bmcAt("10.0.0.7"))
		for range 24 * 12 {
			report(e, checks.False)
			time.Sleep(5 * time.Minute)
		}
		if tried := node.refused(); tried < 24 || tried > 32 {
			t.Errorf("tried %d times in a day", tried)
		}
		if patches := node.taken(); len(patches) < 24*60/6 {
			t.Errorf("conditions were written %d times in a day", len(patches))
		}
		node.set(func(*fakeNode) { node.allow = true })
		time.Sleep(time.Hour + time.Minute)
		if got := annotations(node.fakeNode); len(got) != 1 || got[0] != atSeven {
			t.Errorf("written %s", got)
		}
	})
}

// refusing is a Node of which the annotation may not be written.
type refusing struct {
	*fakeNode
	allow bool
	count int
}

func (n *refusing) PatchStatus(ctx context.Context, data []byte) error {
	if strings.Contains(string(data), "annotations") {
		refused := false
		n.set(func(*fakeNode) {
			if refused = !n.allow; refused {
				n.count++
			}
		})
		if refused {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "node-1", nil)
		}
	}
	return n.fakeNode.PatchStatus(ctx, data)
}

func (n *refusing) refused() (count int) {
	n.set(func(*fakeNode) { count = n.count })
	return count
}

var _ Node = (*refusing)(nil)

// What is refused is no trouble with the API server: it is asked for conditions as before.
func TestNothingIsAnnotatedWithoutAnAPIServer(t *testing.T) {
	w := newWorldWith(t, Options{Offline: true})
	w.bmc.wanted = "x"
	if next := w.plan(epoch); next.annotate != "" || next.read {
		t.Errorf("got %+v", next)
	}
	w = newWorldWith(t, Options{})
	w.bmc.wanted = "x"
	w.fail(false, epoch)
	if next := w.plan(epoch); next.annotate != "" || next.read || next.wait == 0 {
		t.Errorf("got %+v", next)
	}
	w.retryAt = time.Time{}
	if next := w.plan(epoch); !next.read {
		t.Errorf("an unknown Node: got %+v", next)
	}
	w.seed("uid-1", nil, epoch)
	if next := w.plan(epoch); next.annotate != "x" {
		t.Errorf("got %+v", next)
	}
	w.seeAnnotation(&corev1.Node{})
	if retry := w.annotated("x", context.DeadlineExceeded, epoch); retry != time.Minute || w.plan(epoch).wait != time.Minute {
		t.Errorf("again after %s, %+v", retry, w.plan(epoch))
	}
}
