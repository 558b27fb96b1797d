//go:build integration

package deploy_test

import (
	"regexp"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/internal/crd"
)

// Each version of Kubernetes knows more of CEL than the one before, and refuses a whole CRD or
// policy for one function that it does not know. The API server that tests run is the newest, but
// its code says what each version before it accepts.
func TestTheOldestKubernetesKnowsAllThatRulesAreWrittenWith(t *testing.T) {
	found := regexp.MustCompile(`kubeVersion: ">=(1\.\d+)\.0-0"`).FindSubmatch(get(t, "chart/Chart.yaml"))
	if found == nil {
		t.Fatal("chart/Chart.yaml names no oldest Kubernetes")
	}
	env := environment.MustBaseEnvSet(version.MustParse(string(found[1])))

	definitions, err := crd.Load(deploy.CRDs, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	rules := 0
	for _, definition := range definitions {
		rules += compileSchema(t, definition.Kind(), definition.Structural, true, env)
	}
	policies := 0
	for _, obj := range rendered(t, slices.Concat(remotely, fromOutside)...) {
		if obj.GetKind() == "ValidatingAdmissionPolicy" {
			policy := as[admissionv1.ValidatingAdmissionPolicy](t, obj)
			compilePolicy(t, &policy, env)
			policies++
		}
	}
	if rules < 50 || policies < 9 {
		t.Errorf("only %d rules and %d policies were compiled", rules, policies)
	}
}

// compileSchema compiles the rules of a schema and of all in it, and returns how many there are.
func compileSchema(t *testing.T, path string, s *structuralschema.Structural, root bool, env *environment.EnvSet) int {
	t.Helper()
	compiled, err := schemacel.Compile(s, model.SchemaDeclType(s, root), celconfig.PerCallLimit, env, schemacel.NewExpressionsEnvLoader())
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	for i, rule := range compiled {
		if rule.Error != nil || rule.MessageExpressionError != nil {
			t.Errorf("%s, rule %q: %v %v", path, s.XValidations[i].Rule, rule.Error, rule.MessageExpressionError)
		}
	}
	n := len(compiled)
	for name, field := range s.Properties {
		n += compileSchema(t, path+"."+name, &field, false, env)
	}
	if s.Items != nil {
		n += compileSchema(t, path+"[]", s.Items, false, env)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		n += compileSchema(t, path+"{}", s.AdditionalProperties.Structural, false, env)
	}
	return n
}

func compilePolicy(t *testing.T, policy *admissionv1.ValidatingAdmissionPolicy, env *environment.EnvSet) {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(env)
	if err != nil {
		t.Fatal(err)
	}
	declared := cel.OptionalVariableDeclarations{HasParams: policy.Spec.ParamKind != nil, HasAuthorizer: true}
	for _, v := range policy.Spec.Variables {
		variable := &validating.Variable{Name: v.Name, Expression: v.Expression}
		if compiled := compiler.CompileAndStoreVariable(variable, declared, environment.NewExpressions); compiled.Error != nil {
			t.Errorf("%s, variable %s: %v", policy.Name, v.Name, compiled.Error)
		}
	}
	var expressions []cel.ExpressionAccessor
	for i := range policy.Spec.MatchConditions {
		expressions = append(expressions, (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i]))
	}
	for _, v := range policy.Spec.Validations {
		expressions = append(expressions, &validating.ValidationCondition{Expression: v.Expression})
		if v.MessageExpression != "" {
			expressions = append(expressions, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
		}
	}
	for _, err := range compiler.CompileCondition(expressions, declared, environment.NewExpressions).CompilationErrors() {
		t.Errorf("%s: %v", policy.Name, err)
	}
}
