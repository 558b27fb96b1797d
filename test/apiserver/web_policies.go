package apiserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/cel/environment"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// Policies are ValidatingAdmissionPolicies with their bindings, compiled. They can be
// shared by any number of servers. Those with parameters are left out, and so are audit
// annotations.
type Policies struct{ hooks []validating.PolicyHook }

// DefinePolicies compiles the ValidatingAdmissionPolicies among the YAML documents of
// manifests. Other documents are left out.
func DefinePolicies(manifests []byte) (*Policies, error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	var policies []*validating.Policy
	bindings := map[string][]*validating.PolicyBinding{}
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading ValidatingAdmissionPolicies: %w", err)
		}
		var kind metav1.TypeMeta
		policy, binding := &validating.Policy{}, &validating.PolicyBinding{}
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, fmt.Errorf("reading ValidatingAdmissionPolicies: %w", err)
		}
		switch kind.Kind {
		case "ValidatingAdmissionPolicy":
			err = yaml.UnmarshalStrict(document, policy)
			if policy.Spec.ParamKind == nil {
				policies = append(policies, policy)
			}
		case "ValidatingAdmissionPolicyBinding":
			err = yaml.UnmarshalStrict(document, binding)
			bindings[binding.Spec.PolicyName] = append(bindings[binding.Spec.PolicyName], binding)
		}
		if err != nil {
			return nil, fmt.Errorf("reading a %s: %w", kind.Kind, err)
		}
	}
	p := &Policies{}
	for _, policy := range policies {
		setPolicyDefaults(policy)
		compiled, err := compilePolicy(policy)
		if err != nil {
			return nil, fmt.Errorf("compiling ValidatingAdmissionPolicy %s: %w", policy.Name, err)
		}
		p.hooks = append(p.hooks, validating.PolicyHook{Policy: policy, Bindings: bindings[policy.Name], Evaluator: compiled})
	}
	return p, nil
}

// setPolicyDefaults does what the API server does when a policy is created.
func setPolicyDefaults(policy *validating.Policy) {
	setDefault(&policy.Spec.FailurePolicy, ptr.To(admissionv1.Fail))
	constraints := policy.Spec.MatchConstraints
	if constraints == nil {
		return
	}
	setDefault(&constraints.MatchPolicy, ptr.To(admissionv1.Equivalent))
	setDefault(&constraints.NamespaceSelector, &metav1.LabelSelector{})
	setDefault(&constraints.ObjectSelector, &metav1.LabelSelector{})
	for i := range constraints.ResourceRules {
		setDefault(&constraints.ResourceRules[i].Scope, ptr.To(admissionv1.AllScopes))
	}
}

// compilePolicy is what the API server's plugin does, which does not export it.
func compilePolicy(policy *validating.Policy) (validating.Validator, error) {
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	spec := &policy.Spec
	withAuthorizer := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	var variables []cel.NamedExpressionAccessor
	for _, v := range spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, withAuthorizer, environment.StoredExpressions)
	var matcher matchconditions.Matcher
	var conditions []cel.ExpressionAccessor
	for i := range spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&spec.MatchConditions[i]))
	}
	if len(conditions) > 0 {
		matcher = matchconditions.NewMatcher(compiler.CompileCondition(conditions, withAuthorizer, environment.StoredExpressions),
			spec.FailurePolicy, "policy", "validate", policy.Name)
	}
	validations, messages := make([]cel.ExpressionAccessor, len(spec.Validations)), make([]cel.ExpressionAccessor, len(spec.Validations))
	for i, v := range spec.Validations {
		validations[i] = &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason}
		if v.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	validator := validating.NewValidator(
		compiler.CompileCondition(validations, withAuthorizer, environment.StoredExpressions), matcher,
		compiler.CompileCondition(nil, withAuthorizer, environment.StoredExpressions),
		compiler.CompileCondition(messages, cel.OptionalVariableDeclarations{}, environment.StoredExpressions),
		spec.FailurePolicy, nil)
	return validator, validator.CompileError()
}

// admission returns what applies the policies to a server's requests.
func (p *Policies) admission(s *Server) admission.ValidationInterface {
	matcher := generic.NewPolicyMatcher(matching.NewMatcher(namespaces{s}, nil))
	return policyAdmission{p.hooks, validating.NewDispatcher(authorizerfactory.NewAlwaysAllowAuthorizer(), matcher)}
}

type policyAdmission struct {
	hooks      []validating.PolicyHook
	dispatcher generic.Dispatcher[validating.PolicyHook]
}

// Handles implements admission.Interface.
func (policyAdmission) Handles(admission.Operation) bool { return true }

// Validate implements admission.ValidationInterface.
func (p policyAdmission) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.dispatcher.Dispatch(ctx, a, o, p.hooks)
}

// namespaces of a server, for policies that select some.
type namespaces struct{ server *Server }

var _ listersv1.NamespaceLister = namespaces{}

// Get implements listersv1.NamespaceLister.
func (n namespaces) Get(name string) (*corev1.Namespace, error) {
	obj, err := n.server.get(n.server.byType[typeOf[corev1.Namespace]()], types.NamespacedName{Name: name})
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Namespace), nil
}

// List implements listersv1.NamespaceLister.
func (n namespaces) List(selector labels.Selector) ([]*corev1.Namespace, error) {
	objects, _, err := n.server.list(n.server.byType[typeOf[corev1.Namespace]()], Selection{Labels: selector})
	all := make([]*corev1.Namespace, len(objects))
	for i, obj := range objects {
		all[i] = obj.(*corev1.Namespace)
	}
	return all, err
}
