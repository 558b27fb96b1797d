//go:build integration

package controller

import (
	"net/http"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.RunTogether(m))
}

// Else a controller would take all objects of the kind for deleted, and say nothing.
func TestAKindThatIsNotServedIsNoObjectThatDoesNotExist(t *testing.T) {
	cfg := rest.CopyConfig(clustertest.Shared(t).Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return served{next} })
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		resource string
		absent   bool
	}{
		"an object that does not exist": {"remediations", true},
		"a kind that is not served":     {"nodeshoes", false},
	} {
		t.Run(name, func(t *testing.T) {
			of := c.Resource(v1alpha1.GroupVersion.WithResource(tt.resource))
			_, get := of.Get(t.Context(), "no-such-object", metav1.GetOptions{})
			remove := of.Delete(t.Context(), "no-such-object", metav1.DeleteOptions{})
			for verb, err := range map[string]error{"get": get, "delete": remove} {
				if err == nil || apierrors.IsNotFound(err) != tt.absent {
					t.Errorf("%s: %v", verb, err)
				}
				if !tt.absent && (!apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "does not serve nodeshoes.nodemend.dev")) {
					t.Errorf("%s: %v", verb, err)
				}
			}
			_, list := of.List(t.Context(), metav1.ListOptions{})
			if (list == nil) != tt.absent || apierrors.IsNotFound(list) {
				t.Errorf("list: %v", list)
			}
		})
	}
}
