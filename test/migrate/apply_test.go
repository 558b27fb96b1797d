//go:build integration

package migrate

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(clustertest.RunTogether(m))
}

func TestTheAPIServerAcceptsEveryResult(t *testing.T) {
	c, err := client.New(clustertest.Shared(t).Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	strict := client.WithFieldValidation(c, "Strict")
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(read(t, golden(name))), 4096)
			for {
				var obj unstructured.Unstructured
				if err := decoder.Decode(&obj); errors.Is(err, io.EOF) {
					return
				} else if err != nil {
					t.Fatal(err)
				}
				if err := strict.Create(t.Context(), &obj, client.DryRunAll); err != nil {
					t.Errorf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
				}
			}
		})
	}
}
