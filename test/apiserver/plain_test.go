package apiserver

import (
	"cmp"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
)

// maybe is a value, or none.
func maybe[T any](random *rand.Rand, value T) *T {
	if random.IntN(3) == 0 {
		return nil
	}
	return &value
}

func one[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// someBudget is a budget of one of a few specs, with any status.
func someBudget(random *rand.Rand, spec v1alpha1.RemediationBudgetSpec) client.Object {
	b := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: spec}
	for _, group := range []string{"r1", "r2"} {
		g := v1alpha1.BudgetGroup{Limit: maybe(random, int32(random.IntN(3))), DisruptionLimit: maybe(random, int32(random.IntN(3)))}
		for _, node := range []string{"n1", "n2", "n3"} {
			if random.IntN(3) == 0 {
				if g.Permits == nil {
					g.Permits = map[string]v1alpha1.Permit{}
				}
				g.Permits[node] = v1alpha1.Permit{Remediation: node + one(random, "-x", "-x", "-x", "-y"), Disruptive: random.IntN(2) == 0, Version: one(random, "", "7")}
			}
		}
		if random.IntN(4) > 0 {
			if b.Status.Groups == nil {
				b.Status.Groups = map[string]v1alpha1.BudgetGroup{}
			}
			b.Status.Groups[group] = g
		}
	}
	return b
}

func someLimits(random *rand.Rand) v1alpha1.RemediationBudgetSpec {
	return v1alpha1.RemediationBudgetSpec{
		MaxConcurrent:  ptr.To(one(random, intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(3), intstr.FromString("50%"))),
		MaxUnavailable: maybe(random, intstr.FromInt32(1)), MinHealthy: maybe(random, intstr.FromInt32(1)),
	}
}

// someAction is an action with any status.
func someAction(random *rand.Rand) client.Object {
	a := &v1alpha1.NodeAction{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	at := metav1.Unix(1700000000, 0)
	a.Status.Claim = maybe(random, v1alpha1.Claim{RunnerID: one(random, "r", "r", "r", "s"), BootID: "b1", Time: at, Remedy: one(random, "reboot", "reboot", "command")})
	power := v1alpha1.PowerCycleStatus{RunnerID: "r", Phase: one(random, "Looking", "Cutting")}
	power.Proof = maybe(random, v1alpha1.PowerProof{Kind: "PowerOff", BootID: "b1", Apart: v1alpha1.Duration{Duration: one(random, time.Second, 0, -time.Second, time.Microsecond)}})
	replace := v1alpha1.ReplaceStatus{RunnerID: "r", Method: v1alpha1.ReplaceDelete, Wanted: one(random, int32(1), 1, 2)}
	replace.Machine.Name = one(random, "m", "m", "other")
	switch random.IntN(4) {
	case 0:
		a.Status.Power = &power
	case 1:
		a.Status.Replace = &replace
	case 2:
		a.Status.External = &v1alpha1.ExternalStatus{Said: one(random, "", "well")}
	}
	if random.IntN(3) == 0 {
		a.Status.Conditions = []metav1.Condition{{
			Type: one(random, "Finished", "Finished", "Other"), Status: one(random, metav1.ConditionTrue, metav1.ConditionFalse), Reason: "Done", LastTransitionTime: at,
		}}
		a.Status.Aftermath = maybe(random, v1alpha1.Aftermath{BootID: one(random, "b1", "b2", "b3")})
	}
	return a
}

// What is plain is accepted by the rules, each of which is broken by something here: whoever adds one
// has plain and this test know of it.
func TestWhatIsPlainIsAcceptedByTheRules(t *testing.T) {
	definitions, err := Define(deploy.CRDs)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for name, pair := range map[string]func() (old, updated client.Object){
		"RemediationBudget": func() (old, updated client.Object) {
			spec := someLimits(random)
			return someBudget(random, spec), someBudget(random, spec)
		},
		"NodeAction": func() (old, updated client.Object) { return someAction(random), someAction(random) },
	} {
		t.Run(name, func(t *testing.T) {
			k := &kind{rules: definitions.rules[name]}
			unbroken, accepted, known := rulesOfStatus(k.rules.Structural), 0, 0
			for range 4000 {
				old, updated := pair()
				err := k.validate(updated, old, true)
				if err == nil {
					accepted++
				} else {
					forget(unbroken, err.Error())
				}
				if plain(old, updated) {
					known++
					if err != nil {
						t.Fatalf("%v is plain, from %v: %v", updated, old, err)
					}
				}
			}
			if accepted == 0 || known < accepted/4 {
				t.Errorf("%d are accepted, and %d of them plain", accepted, known)
			}
			for rule := range unbroken {
				t.Errorf("nothing has broken the rule %s", rule)
			}
		})
	}
}

// rulesOfStatus are what is said when the rules of the root and of the status are broken, but those about nothing but
// the spec.
func rulesOfStatus(root *structuralschema.Structural) map[string]bool {
	said := map[string]bool{}
	add := func(s *structuralschema.Structural) {
		for _, rule := range s.XValidations {
			if s != root || strings.Contains(rule.Rule, "self.status") {
				said[cmp.Or(rule.Message, rule.Rule)] = true
			}
		}
	}
	var walk func(s *structuralschema.Structural)
	walk = func(s *structuralschema.Structural) {
		add(s)
		for _, field := range s.Properties {
			walk(&field)
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
			walk(s.AdditionalProperties.Structural)
		}
		if s.Items != nil {
			walk(s.Items)
		}
	}
	add(root)
	status := root.Properties["status"]
	walk(&status)
	return said
}

// forget forgets the rules that an error names.
func forget(rules map[string]bool, err string) {
	for said := range rules {
		if strings.Contains(err, said) {
			delete(rules, said)
		}
	}
}
