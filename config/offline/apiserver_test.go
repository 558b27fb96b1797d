//go:build integration

package offline

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.RunTogether(m))
}

func TestTheAPIServerAcceptsEveryGoodFile(t *testing.T) {
	client := newRESTClient(t)
	for _, file := range testdata(t, "good") {
		t.Run(file.Name, func(t *testing.T) {
			for _, err := range create(t, client, file) {
				t.Error("refused by the API server:", err)
			}
		})
	}
}

func TestTheAPIServerRefusesEveryBadFileForTheSameReasons(t *testing.T) {
	client, validator := newRESTClient(t), load(t)
	for _, file := range testdata(t, "bad") {
		t.Run(file.Name, func(t *testing.T) {
			problems := validator.Check(t.Context(), file).Problems
			refusals := create(t, client, file)
			if len(refusals) == 0 {
				t.Error("accepted by the API server; offline:", problems)
			}
			for _, refusal := range refusals {
				for _, want := range reasons(t, refusal) {
					if !reported(problems, want) {
						t.Errorf("the API server says\n  %s: %s\nbut offline there is only\n  %v", want.Field, want.Message, problems)
					}
				}
			}
		})
	}
}

// Labels and windows are what is checked more strictly than by the API server: its
// rules have no budget for the syntax of labels, and it may know other time zones
// than the controller.
func TestTheAPIServerAcceptsWhatIsRefusedByUsOnly(t *testing.T) {
	client := newRESTClient(t)
	for _, file := range testdata(t, "refused-by-us-only") {
		t.Run(file.Name, func(t *testing.T) {
			for _, err := range create(t, client, file) {
				t.Error("refused by the API server as well, so the file belongs into testdata/bad:", err)
			}
		})
	}
}

// A node's owner pins steps by what a file says, and the runner goes by what the API server has.
func TestTheHashesOfAFileAreThoseThatTheAPIServerHas(t *testing.T) {
	client, validator := newRESTClient(t), load(t)
	compared := 0
	for _, file := range testdata(t, "good") {
		for _, doc := range split(file.Data) {
			for _, offline := range validator.Check(t.Context(), File{Name: file.Name, Data: doc.data}).Policies {
				if value, _ := decode(doc.data); isList(value) || offline.Name == "" {
					continue
				}
				data, err := client.Post().Resource("remedypolicies").SetHeader("Content-Type", "application/yaml").
					Param("dryRun", metav1.DryRunAll).Body(doc.data).Do(t.Context()).Raw()
				if err != nil {
					t.Fatal(err)
				}
				var stored v1alpha1.RemedyPolicy
				if err := json.Unmarshal(data, &stored); err != nil {
					t.Fatal(err)
				}
				for i := range stored.Spec.Steps {
					compared++
					want, err := stored.Spec.Steps[i].Hash()
					got, err2 := offline.Spec.Steps[i].Hash()
					if got != want || err != nil || err2 != nil {
						t.Errorf("%s: %s: step %d has the hash %s (%v), want %s (%v)", file.Name, offline.Name, i+1, got, err2, want, err)
					}
				}
			}
		}
	}
	if compared < 5 {
		t.Errorf("compared %d steps: are there policies in testdata/good?", compared)
	}
}

func newRESTClient(t *testing.T) *rest.RESTClient {
	t.Helper()
	config := rest.CopyConfig(clustertest.Shared(t).Config)
	config.APIPath = "/apis"
	config.GroupVersion = &v1alpha1.GroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// create sends every document of the file as it stands, so that the API
// server reads the YAML itself, and returns the refusals. Nothing is kept.
func create(t *testing.T, client *rest.RESTClient, file File) (refusals []error) {
	t.Helper()
	for _, doc := range split(file.Data) {
		value, _ := decode(doc.data)
		switch {
		case doc.stray != "":
			t.Fatal("kubectl's own error, not the API server's")
		case isList(value):
			for _, item := range value.(map[string]any)["items"].([]any) {
				data, err := json.Marshal(item)
				if err != nil {
					t.Fatal(err)
				}
				refusals = append(refusals, createOne(t, client, data))
			}
		case value != nil || !isEmptyYAML(doc.data):
			refusals = append(refusals, createOne(t, client, doc.data))
		}
	}
	return nonNil(refusals)
}

func createOne(t *testing.T, client *rest.RESTClient, data []byte) error {
	t.Helper()
	resource := "remedypolicies"
	for kind, plural := range map[string]string{"RemediationBudget": "remediationbudgets", "NodeMaintenance": "nodemaintenances", "NodemendRemediationTemplate": "nodemendremediationtemplates"} {
		if regexp.MustCompile(`kind"?: ?"?` + kind).Match(data) {
			resource = plural
		}
	}
	contentType := "application/yaml"
	if json.Valid(data) {
		contentType = "application/json"
	}
	// The one kind that has a namespace: of the objects only the request's counts.
	inNamespace := resource == "nodemendremediationtemplates"
	data = regexp.MustCompile(`namespace: fleet`).ReplaceAll(data, []byte("namespace: default"))
	return client.Post().NamespaceIfScoped("default", inNamespace).Resource(resource).
		SetHeader("Content-Type", contentType).
		Param("dryRun", metav1.DryRunAll).
		Param("fieldValidation", metav1.FieldValidationStrict).
		Body(data).Do(t.Context()).Error()
}

func isEmptyYAML(data []byte) bool {
	value, err := decode(data)
	return value == nil && err == nil
}

func nonNil(errs []error) (result []error) {
	for _, err := range errs {
		if err != nil {
			result = append(result, err)
		}
	}
	return result
}

var strictDecodingReason = regexp.MustCompile(`unknown field "([^"]+)"|key "[^"]+" already set in map`)

// reasons takes a refusal apart.
func reasons(t *testing.T, refusal error) (reasons []Problem) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(refusal, &status) {
		t.Fatal("not an answer of the API server:", refusal)
	}
	details := status.Status().Details
	if details != nil {
		for _, cause := range details.Causes {
			if !strings.Contains(cause.Message, "some validation rules were not checked") {
				reasons = append(reasons, Problem{Field: strings.TrimSuffix(cause.Field, "<nil>"), Message: cause.Message})
			}
		}
	}
	for _, match := range strictDecodingReason.FindAllStringSubmatch(status.Status().Message, -1) {
		reasons = append(reasons, Problem{Field: match[1], Message: match[0]})
	}
	return reasons
}

// reported tells whether one of the problems is about the reason: it has its field, or is about
// one above, below or, if the schema does not know it, beside it. One mistake is reported
// once, in plain words, though the API server may have several errors for it.
func reported(problems []Problem, reason Problem) bool {
	at := pathOf(&field.Error{Field: reason.Field, Detail: reason.Message})
	for _, p := range problems {
		if p.Field == "kind" || p.Field == "apiVersion" {
			// Then the API server complains about the path of the request, or
			// applies a schema that is not the object's.
			return true
		}
		beside, _ := parentOf(at)
		parent, _ := parentOf(p.Field)
		switch {
		case p.Field == "":
			if strings.Contains(p.Message, "already set in map") {
				return true
			}
		case within(p.Field, at), within(at, p.Field), parent == beside && strings.HasPrefix(p.Message, "unknown field"):
			return true
		}
	}
	return false
}
