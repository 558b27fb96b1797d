package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const (
	// leaderLease is the name of the Lease of the controller that leads.
	leaderLease = "nodemend-controller"
	// usualNamespace is where the Lease is looked for if no Deployment says where.
	usualNamespace = "nodemend-system"
)

// leaderStatus says whether a controller works, by the Lease of the one that leads.
type leaderStatus struct {
	Namespace string `json:"namespace"`
	Holder    string `json:"holder,omitempty"`
	// Renewed is when the Lease was last written, by the clock of the API server.
	Renewed *metav1.Time `json:"renewed,omitempty"`
	// Works is false if nobody has renewed the Lease for as long as it is valid.
	Works bool `json:"works"`
}

// leader reads the Lease. It returns nil if it can't be told: who asks may not read it, or
// there is none and no Deployment of a controller that would have one.
func (t *tool) leader(ctx context.Context, c client.Client, deployments []appsv1.Deployment) (*leaderStatus, error) {
	l := &leaderStatus{Namespace: usualNamespace}
	i := slices.IndexFunc(deployments, func(d appsv1.Deployment) bool { return d.Labels[componentLabel] == "controller" })
	if i >= 0 {
		l.Namespace = deployments[i].Namespace
	}
	var lease coordinationv1.Lease
	err := c.Get(ctx, client.ObjectKey{Namespace: l.Namespace, Name: leaderLease}, &lease)
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err) && (i < 0 || !elects(&deployments[i])):
		return nil, nil
	case apierrors.IsNotFound(err): // none has ever led
		return l, nil
	case err != nil:
		return nil, err
	}
	l.Holder = ptr.Deref(lease.Spec.HolderIdentity, "")
	if at := v1alpha1.LeaseRenewed(&lease); !at.IsZero() {
		l.Renewed = &metav1.Time{Time: at}
		l.Works = t.leads(&lease)
	}
	return l, nil
}

// leads reports whether a Lease says that its holder still leads. When it was renewed is by the
// clock of the API server, as is the time here.
func (t *tool) leads(lease *coordinationv1.Lease) bool {
	at := v1alpha1.LeaseRenewed(lease)
	return ptr.Deref(lease.Spec.HolderIdentity, "") != "" && !at.IsZero() && t.clock.Since(at) <= valid(lease)
}

// elects reports whether the controllers of the Deployment agree by a Lease on one that acts.
func elects(d *appsv1.Deployment) bool {
	return !slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.Contains(c.Args, "--leader-election=false")
	})
}

// valid is for how long a Lease says that its holder leads.
func valid(lease *coordinationv1.Lease) time.Duration {
	return time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
}

// leaderText is the alarm if no controller works, else "".
func (t *tool) leaderText(l *leaderStatus) string {
	if l == nil || l.Works {
		return ""
	}
	since := "no controller has ever led."
	if l.Renewed != nil {
		since = fmt.Sprintf("%s has not renewed its Lease for %s.", cmp.Or(oneLine(l.Holder), "none leads, and the last one"), t.ago(l.Renewed.Time))
	}
	return "THE CONTROLLER DOES NOT WORK\n" + since + `
Nothing is decided: no node is healed, drained or given back, and what stands
below may be out of date. Look:
  kubectl -n ` + l.Namespace + " get pods -l " + componentLabel + "=controller\n\n"
}
