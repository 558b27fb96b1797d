package remediation

import (
	"context"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// executor carries out attempts, whoever does the work, as cert-manager's solvers do. The name
// of an attempt is in the remediation's status before it is started, so that each method may be
// called again after a stop at any point.
type executor interface {
	// observe reads the attempt that the status names into the situation. That there is none is
	// never concluded from a cache that is behind.
	observe(ctx context.Context, o observer, s *situation) error
	// start begins the attempt that the decision's status names, or makes it what the decision
	// wants. That it exists already is success: an earlier try got through.
	start(ctx context.Context, r *Reconciler, s situation, d decision) error
	// cancel sees that what of the attempt has not begun never does. It fails with a conflict if
	// it has begun since it was observed.
	cancel(ctx context.Context, r *Reconciler, s situation, d decision) error
}

// namedExecutor is an executor under the name that remedies give it.
type namedExecutor struct {
	name v1alpha1.Executor
	executor
}

// executors are all of them, in the order in which they observe.
func executors() []namedExecutor {
	return []namedExecutor{
		{v1alpha1.ExecutorRunner, byAction{}},
		{v1alpha1.ExecutorMaintenance, byMaintenance{}},
	}
}

// executorNamed returns the executor of this name, nil if there is none.
func executorNamed(name v1alpha1.Executor) executor {
	for _, e := range executors() {
		if e.name == name {
			return e.executor
		}
	}
	return nil
}

// acting returns who carries out the attempt of the step that the status names as its action.
// It is never the maintenance, which has a name of its own there, unless somebody has written a
// status of their own.
func acting(step *v1alpha1.Step) executor {
	if step == nil || step.Kind().Executor == v1alpha1.ExecutorMaintenance {
		return byAction{}
	}
	return executorNamed(step.Kind().Executor)
}
