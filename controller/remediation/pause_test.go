package remediation

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// server stands for an API server that has what no cache has yet.
type server struct {
	client.Reader
	pause, policy bool
	// of are the labels of the nodes that the pause is of; nil: of all.
	of map[string]string
}

func (s server) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	switch o := obj.(type) {
	case *v1alpha1.RemediationBudget:
		if key.Name == v1alpha1.ClusterPauseBudget && s.pause {
			o.Name, o.Spec.Paused = key.Name, true
			if s.of != nil {
				o.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: s.of}
			}
			return nil
		}
	case *v1alpha1.RemedyPolicy:
		o.Name, o.Spec.Paused = key.Name, s.policy
		return nil
	}
	return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("x").GroupResource(), key.Name)
}

func TestAPauseHoldsBeforeAnyCacheKnowsOfIt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		server server
		effect effect
		held   string
	}{
		{"nobody has paused", server{}, start, ""},
		{"the cluster is paused", server{pause: true}, start, "RemediationBudget nodemend-pause"},
		{"other nodes are paused", server{pause: true, of: map[string]string{"pool": "storage"}}, start, ""},
		{"the cluster is paused before a node is taken out", server{pause: true}, takeOut, "RemediationBudget nodemend-pause"},
		{"the policy is paused before a node is taken out", server{policy: true}, takeOut, "RemedyPolicy"},
		{"of an action the runner asks that", server{policy: true}, start, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := incident()
			d := begin(s)
			d.effect = tt.effect
			v, err := (&Reconciler{Live: tt.server}).pausedMeanwhile(t.Context(), s, d)
			if err != nil {
				t.Fatal(err)
			}
			if v.Held() != (tt.held != "") || !strings.Contains(v.Message, tt.held) {
				t.Errorf("held %t: %s", v.Held(), v.Message)
			}
		})
	}
}
