//go:build integration

package integration

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// files are the samples that are no objects.
var files = []string{"detector.yaml", "remote-detector.yaml", "audit-policy.yaml", "values.yaml"}

func TestTheAPIServerAcceptsEveryPolicyAndSample(t *testing.T) {
	samples, err := filepath.Glob("../../deploy/samples/*.yaml")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	policies, err := filepath.Glob("../../deploy/policies/*.yaml")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(policies).NotTo(BeEmpty())
	quickstart, err := filepath.Glob("../../deploy/quickstart/*.yaml")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(quickstart).NotTo(BeEmpty())
	for _, file := range slices.Concat(samples, policies, quickstart) {
		if slices.Contains(files, filepath.Base(file)) {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			applyAll(t, data)
		})
	}
}

func TestTheAPIServerAcceptsEverySnippetOfTheREADMEAndOfThePageOfPolicies(t *testing.T) {
	for _, page := range []string{"README.md", "docs/policies.md"} {
		text, err := os.ReadFile("../../" + page)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		snippets := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
		NewWithT(t).Expect(snippets).NotTo(BeEmpty(), page)
		for _, snippet := range snippets {
			t.Run(filepath.Base(page), func(t *testing.T) { applyAll(t, snippet[1]) })
		}
	}
}

// applyAll creates every object of a YAML stream, as strictly as kubectl does, and
// expects at least one. It leaves none behind: a sample may be about the node of
// another test.
func applyAll(t *testing.T, data []byte) {
	t.Helper()
	s := newScene(t, "samples", 0, "1")
	strict := client.NewDryRunClient(client.WithFieldValidation(s.client, "Strict"))
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	objects := 0
	for {
		var obj unstructured.Unstructured
		if err := decoder.Decode(&obj); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if obj.Object == nil {
			continue // only comments
		}
		s.Expect(strict.Create(s.ctx, &obj)).To(Succeed(), "%s %s", obj.GetKind(), obj.GetName())
		objects++
	}
	s.Expect(objects).NotTo(BeZero())
}
