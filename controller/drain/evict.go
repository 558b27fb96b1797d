package drain

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/cut"
)

const (
	// parallel is how many evictions of one node are under way at a time.
	parallel = 16
	// startTime is how long a pass starts evictions; the rest waits for the next one.
	// Those under way are not cut short: the API server has taken them off the
	// PodDisruptionBudget by then, and would not give that back for two minutes. It
	// answers within about ten seconds itself.
	startTime = 5 * time.Second
)

// gone is the reason of a pod that is not there any more.
const gone v1alpha1.PodReason = ""

// evict evicts the pods of the verdicts, writes into those what became of them, and
// returns how many were told to go, or have gone.
func (d *Drainer) evict(ctx context.Context, n *node, due []*Verdict, options *v1alpha1.Drain) int {
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	var told atomic.Int32
	workqueue.ParallelizeUntil(starting, parallel, len(due), func(i int) {
		v := due[i]
		err := d.pods.Evict(ctx, v.Pod, options.GracePeriodSeconds)
		if err != nil && ctx.Err() != nil {
			return
		}
		var done bool
		if v.Reason, v.Message, done = judge(v.Pod, err); done {
			told.Add(1)
			return
		}
		delay, _ := apierrors.SuggestsClientDelay(err)
		n.refuse(v, time.Duration(delay)*time.Second, d.clock.Now())
	})
	return int(told.Load())
}

// judge says what the answer to an eviction means, and whether nothing more is to be
// done about the pod.
func judge(pod *corev1.Pod, err error) (reason v1alpha1.PodReason, message string, done bool) {
	switch {
	case err == nil:
		return v1alpha1.PodTerminating, "was told to end", true
	case apierrors.IsNotFound(err), otherUID(pod, err):
		return gone, "", true
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return v1alpha1.PodTerminating, "goes with its namespace, which is being deleted", false
	case apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		// The API server's flow control has not even looked at it.
		return v1alpha1.PodEvictable, "the API server has too much to do: tried again soon", false
	}
	if cause, ok := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause); ok {
		return v1alpha1.PodDisruptionBudget, clip(cause.Message), false
	}
	return v1alpha1.PodEvictionFailed, clip(err.Error()), false
}

// otherUID reports whether the eviction failed since another pod has the name.
// Nothing but the text tells that from a pod that was changed too often.
func otherUID(pod *corev1.Pod, err error) bool {
	return apierrors.IsConflict(err) && strings.Contains(err.Error(), string(pod.UID))
}

// clip bounds a message to what a status takes, in whole characters.
func clip(message string) string {
	const most = 512
	return cut.Head(strings.ToValidUTF8(message, ""), most)
}
