package remediation

import (
	"context"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/gates"
)

// awaitHealthy writes down which conditions with debounce were seen healthy since a person has
// ended the remediation: what they report from then on is another incident. Without that a
// controller that starts could not tell it from this one, whose node the person wants to be left
// alone. It returns after how long to look again; 0: when something changes.
func (r *Reconciler) awaitHealthy(ctx context.Context, remediation *v1alpha1.Remediation) (wait time.Duration, err error) {
	awaited := remediation.AwaitedHealthy()
	if len(awaited) == 0 {
		return 0, nil
	}
	o := r.observer()
	node, err := o.node(ctx, &remediation.Spec)
	if err != nil || node == nil {
		return 0, err
	}
	match, now := remediation.Spec.Match, r.Clock.Now()
	findings := evidence.Judge(match, evidence.Input{
		Node: node, After: remediation.Status.EndTime.Time, Seen: o.seenOf(node, match, now), Now: now,
	})
	status := *remediation.Status.DeepCopy()
	for _, condition := range awaited {
		if well, left := allClear(findings, condition, now); well {
			status.SeenHealthy = append(status.SeenHealthy, condition)
		} else if left > 0 && (wait == 0 || left < wait) {
			wait = left
		}
	}
	_, err = r.write(ctx, remediation, status)
	return wait, err
}

// allClear reports whether all findings of a condition are clear, and if not, after how long to
// look again; 0: when it changes. A report that says the same again wakes nobody.
func allClear(findings []evidence.Finding, condition string, now time.Time) (well bool, wait time.Duration) {
	well, wait = true, gates.EvidenceRecheck
	for _, f := range findings {
		switch left := f.Due.Sub(now); {
		case f.Type != condition || f.State == evidence.Clear:
			continue
		case f.State == evidence.Faulty:
			return false, 0
		case left > 0:
			wait = min(wait, left)
		}
		well = false
	}
	return well, wait
}
