package detector

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/exporter"
)

// hanging is a monitor that ends only when it is freed.
type hanging struct {
	part
	freed chan struct{}
}

func (h hanging) Run(context.Context, checks.Send) error { <-h.freed; return nil }
func (hanging) ConditionTypes() []string                 { return nil }
func (hanging) Trigger()                                 {}
func (hanging) String() string                           { return "hanging" }

func TestADetectorThatMakesNoProgressEndsAlthoughAPartOfItHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conditions, err := exporter.New(nil, exporter.Options{
			NodeName: "worker-1", Offline: true, Clock: clock.RealClock{}, Rand: func() float64 { return 0 }, Registerer: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		h := hanging{part{errors.New("the check hangs")}, make(chan struct{})}
		d := &detector{registry: prometheus.NewRegistry(), conditions: conditions, monitors: []monitor{h}}
		err = d.run(ctx) // in a bubble in which nothing happens any more, if it does not end
		if !errors.Is(err, errStuck) || !strings.Contains(err.Error(), "the check hangs") {
			t.Errorf("it ends with %v", err)
		}
		close(h.freed)
		stop()
	})
}

func TestTheEndIsForWhatHangsAtSeveralLooksInARow(t *testing.T) {
	bad := errors.New("hangs")
	for name, tc := range map[string]struct {
		looks []error // then it ends by itself
		stuck bool
	}{
		"well":                {looks: []error{nil, nil, nil, nil}},
		"twice":               {looks: []error{bad, bad, nil, bad, bad, nil}},
		"three times":         {looks: []error{bad, bad, bad}, stuck: true},
		"three times at last": {looks: []error{nil, bad, nil, bad, bad, bad}, stuck: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 1)
				looks := tc.looks
				err := watched(klog.NewContext(t.Context(), klog.Logger{}), ended, func() error {
					next := looks[0]
					if looks = looks[1:]; len(looks) == 0 && !tc.stuck {
						ended <- nil
					}
					return next
				})
				if errors.Is(err, errStuck) != tc.stuck || len(looks) > 0 {
					t.Errorf("after %d looks: %v", len(tc.looks)-len(looks), err)
				}
			})
		})
	}
}

func TestALookThatHangsIsNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := make(chan struct{})
		err := watched(klog.NewContext(t.Context(), klog.Logger{}), nil, func() error { <-freed; return nil })
		if !errors.Is(err, errStuck) || !strings.Contains(err.Error(), "within "+lookTimeout.String()) {
			t.Errorf("it ends with %v", err)
		}
		close(freed)
	})
}
