package deploy_test

import (
	"io/fs"
	"os"
	"regexp"
	"testing"

	"github.com/google/cel-go/cel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
)

// healthOf is what Argo CD and Flux are to make of an object.
type healthOf struct {
	object runtime.Object
	argo   string // status, and the message after a colon
	flux   string
}

// healths are the states that policies and budgets can be in.
func healths() map[string]healthOf {
	policy := func(generation, observed int64, paused bool, status metav1.ConditionStatus) *v1alpha1.RemedyPolicy {
		p := &v1alpha1.RemedyPolicy{}
		p.Kind, p.Generation, p.Spec.Paused, p.Status.ObservedGeneration = "RemedyPolicy", generation, paused, observed
		if status != "" {
			p.Status.Conditions = append(p.Status.Conditions, healthCondition("Other", "False", "no"), healthCondition(v1alpha1.RemedyPolicyReady, status, `it "acts"`))
		}
		return p
	}
	budget := func(observed int64, paused bool) *v1alpha1.RemediationBudget {
		b := &v1alpha1.RemediationBudget{}
		b.Kind, b.Generation, b.Spec.Paused, b.Status.ObservedGeneration = "RemediationBudget", 2, paused, observed
		if paused {
			b.Spec.PauseReason = "rack move"
		}
		nodes := int32(7)
		b.Status.Nodes = &nodes
		return b
	}
	return map[string]healthOf{
		"a new policy":              {policy(1, 0, false, ""), "Progressing: the controller has not seen it yet", "waits"}, // it has no status
		"a changed policy":          {policy(2, 1, false, "True"), "Progressing: the controller has not seen it yet", "InProgress"},
		"a policy without Ready":    {policy(2, 2, false, ""), "Progressing: the controller has not seen it yet", "waits"},
		"a policy that acts":        {policy(2, 2, false, "True"), `Healthy: it "acts"`, "Current"},
		"a policy that can't act":   {policy(2, 2, false, "False"), `Degraded: it "acts"`, "Failed"},
		"a paused policy":           {policy(2, 2, true, "True"), "Suspended: paused: nobody said why", "Current"},
		"a new budget":              {budget(0, false), "Progressing: the controller has not counted its nodes yet", "InProgress"},
		"a budget that was counted": {budget(2, false), "Healthy: it selects 7 nodes", "Current"},
		"a paused budget":           {budget(2, true), "Suspended: paused: rack move", "Current"},
	}
}

func TestFluxSeesTheHealthOfPoliciesAndBudgets(t *testing.T) {
	data, err := os.ReadFile("gitops/flux.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Spec struct {
			HealthCheckExprs []struct{ APIVersion, Kind, InProgress, Failed, Current string }
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for name, test := range healths() {
		t.Run(name, func(t *testing.T) {
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(test.object)
			if err != nil {
				t.Fatal(err)
			}
			for _, expr := range file.Spec.HealthCheckExprs {
				if expr.Kind != object["kind"] || expr.APIVersion != v1alpha1.GroupVersion.String() {
					continue
				}
				// In this order; what cannot be evaluated is waited for.
				got := "waits"
				for _, of := range []struct{ state, expr string }{{"InProgress", expr.InProgress}, {"Failed", expr.Failed}, {"Current", expr.Current}} {
					is, known := evaluate(t, of.expr, object)
					if !known {
						break
					}
					if is {
						got = of.state
						break
					}
				}
				if got != test.flux {
					t.Errorf("Flux has it as %s, want %s", got, test.flux)
				}
				return
			}
			t.Errorf("nothing is said about the kind %s", object["kind"])
		})
	}
}

// evaluate evaluates an expression as Flux does, on the fields of the object.
func evaluate(t *testing.T, expr string, object map[string]any) (is, known bool) {
	t.Helper()
	if expr == "" {
		return false, true
	}
	env, err := cel.NewEnv(cel.Variable("status", cel.DynType), cel.Variable("metadata", cel.DynType), cel.Variable("spec", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(expr)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expr, issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := program.Eval(object)
	if err != nil {
		return false, false
	}
	return value.Value() == true, true
}

func healthCondition(kind string, status metav1.ConditionStatus, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Message: message}
}

func TestNoFileSaysPaused(t *testing.T) {
	files := 0
	for _, dir := range []struct {
		fs.FS
		glob string
	}{{deploy.Samples, "samples/*.yaml"}, {deploy.Policies, "policies/*.yaml"}, {os.DirFS("chart"), "templates/*.yaml"}} {
		paths, err := fs.Glob(dir, dir.glob)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			data, err := fs.ReadFile(dir, path)
			if err != nil {
				t.Fatal(err)
			}
			files++
			if regexp.MustCompile(`(?m)^\s*paused:`).Match(data) {
				t.Errorf("%s says paused: an apply of it would lift a pause", path)
			}
		}
	}
	if files < 20 {
		t.Errorf("looked at %d files", files)
	}
}
