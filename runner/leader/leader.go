// Package leader has one of several processes lead, by a Lease. It is apart from package runner,
// since what it needs registers all kinds of Kubernetes, for which a node has no memory to spare.
package leader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Times of the election, as those of Kubernetes' own controllers. A leader that can't renew the
// Lease stops before another one may take it.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// namespaceFile has the namespace of the pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Election is one by a Lease.
type Election struct {
	// Name of the Lease, and its Namespace; "": the pod's own.
	Name, Namespace string
}

// Lead takes part in the election as id. It calls lead while this process leads, with a context
// that ends when it does not any more, and returns after lead has, or when ctx ends before. The
// Lease is not given back: another process leads once it has run out.
func (e Election) Lead(ctx context.Context, cfg *rest.Config, id string, lead func(context.Context) error) error {
	if e.Namespace == "" {
		own, err := os.ReadFile(namespaceFile)
		if errors.Is(err, os.ErrNotExist) {
			return errors.New("outside a pod, the namespace of the leader election's Lease has to be given, by --leader-election-namespace")
		}
		if err != nil {
			return fmt.Errorf("finding the pod's namespace: %w", err)
		}
		e.Namespace = strings.TrimSpace(string(own))
	}
	client, err := coordinationv1client.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("setting up the leader election: %w", err)
	}
	held := &lock{LeaseLock: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}, Client: client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: id},
	}}
	ended := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: e.Name, Lock: held,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { ended <- lead(ctx) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("setting up the leader election: %w", err)
	}
	elector.Run(ctx)
	if !held.led {
		return nil
	}
	return <-ended
}

// lock knows whether it was held.
type lock struct {
	*resourcelock.LeaseLock
	led bool
}

// RecordEvent is called when the election begins or ends to be won, by the caller of Run.
func (l *lock) RecordEvent(string) { l.led = true }
