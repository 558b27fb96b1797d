package external

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/worker"
	"github.com/nodemend/nodemend/internal/standing"
)

func TestAnObjectIsMadeAsNodeHealthCheckMakesIt(t *testing.T) {
	machine := &metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m1", UID: "m-uid"}
	controlPlane := node()
	controlPlane.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	for name, tt := range map[string]struct {
		template *unstructured.Unstructured
		node     *corev1.Node
		machine  *metav1.OwnerReference
		name     string
		owners   int
		labels   map[string]string
	}{
		"of a worker":              {template(nil), node(), nil, "w1", 1, map[string]string{partOfLabel: "nodemend"}},
		"of the control plane":     {template(nil), controlPlane, nil, "w1", 1, map[string]string{partOfLabel: "nodemend", controlPlaneLabel: ""}},
		"with a name of its own":   {template(map[string]string{severalAnnotation: "true"}), node(), nil, "w1-5f0ca9f7", 1, map[string]string{partOfLabel: "nodemend"}},
		"and not of its own":       {template(map[string]string{severalAnnotation: "false"}), node(), nil, "w1", 1, map[string]string{partOfLabel: "nodemend"}},
		"with a Machine as owner ": {template(nil), node(), machine, "w1", 2, map[string]string{partOfLabel: "nodemend"}},
	} {
		t.Run(name, func(t *testing.T) {
			object, err := fromTemplate(tt.template, action(t), tt.node, tt.machine)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(object.GetName(), tt.name[:2]) || len(object.GetName()) != len(tt.name) {
				t.Errorf("its name is %s", object.GetName())
			}
			owners := object.GetOwnerReferences()
			want := metav1.OwnerReference{APIVersion: "nodemend.dev/v1alpha1", Kind: "NodeAction", Name: "w1-r-1", UID: "action-uid"}
			if len(owners) != tt.owners || !reflect.DeepEqual(owners[0], want) {
				t.Errorf("its owners are %+v", owners)
			}
			if tt.machine != nil && !reflect.DeepEqual(owners[1], *tt.machine) {
				t.Errorf("its owners are %+v", owners)
			}
			if !reflect.DeepEqual(object.GetLabels(), tt.labels) {
				t.Errorf("its labels are %v", object.GetLabels())
			}
			if got := object.GetAnnotations(); !reflect.DeepEqual(got, map[string]string{nodeNameAnnotation: "w1", templateNameAnnotation: "automatic"}) {
				t.Errorf("its annotations are %v", got)
			}
			if object.GetAPIVersion() != "self-node-remediation.medik8s.io/v1alpha1" || object.GetKind() != "SelfNodeRemediation" || object.GetNamespace() != "medik8s" {
				t.Errorf("it is a %s %s in %s", object.GetAPIVersion(), object.GetKind(), object.GetNamespace())
			}
			if spec := object.Object["spec"]; !reflect.DeepEqual(spec, map[string]any{"remediationStrategy": "Automatic"}) {
				t.Errorf("its spec is %v", spec)
			}
		})
	}
}

func TestWhatAStatusTells(t *testing.T) {
	of := func(kind, phase string, conditions ...string) *unstructured.Unstructured {
		status := map[string]any{}
		if phase != "" {
			status["phase"] = phase
		}
		var list []any
		for i := 0; i < len(conditions); i += 2 {
			list = append(list, map[string]any{"type": conditions[i], "status": conditions[i+1]})
		}
		if list != nil {
			status["conditions"] = list
		}
		return &unstructured.Unstructured{Object: map[string]any{"kind": kind, "status": status}}
	}
	for name, tt := range map[string]struct {
		object *unstructured.Unstructured
		want   told
	}{
		"nothing":                    {&unstructured.Unstructured{Object: map[string]any{"kind": "X"}}, told{text: "it has told nothing yet"}},
		"nonsense":                   {&unstructured.Unstructured{Object: map[string]any{"kind": "X", "status": map[string]any{"conditions": "x", "phase": int64(3)}}}, told{text: "it has told nothing yet"}},
		"at work":                    {of("X", "", processing, "True", succeeded, "Unknown"), told{processing: true, text: "Processing=True, Succeeded=Unknown"}},
		"it has succeeded":           {of("X", "", processing, "False", succeeded, "True", "Other", "True"), told{succeeded: true, text: "Processing=False, Succeeded=True"}},
		"it has failed":              {of("X", "", succeeded, "False"), told{failed: true, text: "Succeeded=False"}},
		"the node goes":              {of("MachineDeletionRemediation", "", processing, "True", nodeGoes, "True"), told{processing: true, goes: true, text: "Processing=True, PermanentNodeDeletionExpected=True"}},
		"an old SelfNodeRemediation": {of(selfNode, "Fencing-Completed"), told{succeeded: true, text: "phase Fencing-Completed"}},
		"one at work":                {of(selfNode, "Pre-Reboot-Completed"), told{processing: true, text: "phase Pre-Reboot-Completed"}},
		"conditions go before":       {of(selfNode, "Fencing-Completed", succeeded, "False"), told{failed: true, text: "Succeeded=False, phase Fencing-Completed"}},
		"Metal3 runs":                {of(metal3, "Running"), told{processing: true, text: "phase Running"}},
		"Metal3 waits":               {of(metal3, "Waiting"), told{processing: true, text: "phase Waiting"}},
		"Metal3 has failed":          {of(metal3, "Failed"), told{failed: true, text: "phase Failed"}},
		"Metal3 gives the node up":   {of(metal3, "Deleting machine"), told{goes: true, text: "phase Deleting machine"}},
		"a phase of another program": {of("X", "Failed"), told{text: "phase Failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tell(tt.object); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// Of a remediator that replaces the node, the object stays until it has, although the node is gone.
func TestWhoReplacesTheNodeIsNotStoppedByThat(t *testing.T) {
	for name, tt := range map[string]struct {
		conditions []string
		gone       bool
		after      time.Duration
		want       verb
	}{
		"the node is to go, and is gone":      {[]string{nodeGoes, "True", processing, "True"}, true, 5 * time.Minute, wait},
		"the node is gone, which was not due": {[]string{nodeGoes, "False", processing, "True"}, true, 5 * time.Minute, expire},
		"it has succeeded":                    {[]string{nodeGoes, "True", succeeded, "True"}, true, 5 * time.Minute, expire},
		"it takes too long":                   {[]string{nodeGoes, "True"}, true, 11 * time.Minute, expire},
		"the node is still there":             {[]string{nodeGoes, "True"}, false, 5 * time.Minute, expire},
	} {
		t.Run(name, func(t *testing.T) {
			a := action(t)
			a.Status.Claim = &v1alpha1.Claim{Time: metav1.NewTime(start)}
			object := &unstructured.Unstructured{Object: map[string]any{"kind": "MachineDeletionRemediation"}}
			object.SetUID("object-uid")
			var list []any
			for i := 0; i < len(tt.conditions); i += 2 {
				list = append(list, map[string]any{"type": tt.conditions[i], "status": tt.conditions[i+1]})
			}
			object.Object["status"] = map[string]any{"conditions": list}
			a.Status.External = &v1alpha1.ExternalStatus{
				Object: v1alpha1.ExternalObject{UID: "object-uid"}, Said: tell(object).text,
				Stop: &v1alpha1.ExternalStop{Reason: v1alpha1.ReasonFailed, Time: metav1.NewTime(start.Add(4 * time.Minute))},
			}
			if d := follow(look{action: a, object: object, nodeGone: tt.gone, now: start.Add(tt.after)}); d.verb != tt.want {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestWhatMustNotBegin(t *testing.T) {
	changed := func(change func(*v1alpha1.RemedyPolicy)) *v1alpha1.RemedyPolicy {
		p := policy()
		change(p)
		return p
	}
	healthy := node()
	healthy.Status.Conditions[0].Status = corev1.ConditionFalse
	another := node()
	another.UID = "another-uid"
	excluded := node()
	excluded.Labels = map[string]string{v1alpha1.ExcludeLabel: "true"}
	waits := remediation()
	waits.Status.Action = "another"
	pause := &v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterPauseBudget}, Spec: v1alpha1.RemediationBudgetSpec{Paused: true},
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: "node-w1"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("NodeHealthCheck-workers"), LeaseDurationSeconds: ptr.To[int32](600), RenewTime: &metav1.MicroTime{Time: start},
		},
	}
	bare := template(nil)
	bare.Object["spec"] = map[string]any{}
	of := func(kind string, err error) func(string, client.Object) error {
		return func(_ string, object client.Object) error {
			if object.GetObjectKind().GroupVersionKind().Kind == kind {
				return err
			}
			return nil
		}
	}
	group := schema.GroupResource{Group: "self-node-remediation.medik8s.io", Resource: "x"}
	for name, tt := range map[string]struct {
		objects      []client.Object
		refuse       func(string, client.Object) error
		reason, says string
	}{
		"the kind is not installed": {
			refuse: of("SelfNodeRemediationTemplate", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "SelfNodeRemediationTemplate"}}),
			reason: v1alpha1.ReasonStartFailed, says: "this cluster does not know the kind of SelfNodeRemediationTemplate medik8s/automatic",
		},
		"there is no template": {
			objects: []client.Object{node(), remediation(), policy()}, reason: v1alpha1.ReasonStartFailed, says: "there is no SelfNodeRemediationTemplate medik8s/automatic",
		},
		"the template is none": {
			objects: []client.Object{node(), remediation(), policy(), bare}, reason: v1alpha1.ReasonStartFailed, says: "has no spec.template",
		},
		"the template must not be read": {
			refuse: of("SelfNodeRemediationTemplate", apierrors.NewForbidden(group, "automatic", errors.New("no rights"))),
			reason: v1alpha1.ReasonStartFailed, says: "rbac.ext-remediation/aggregate-to-ext-remediation",
		},
		"the object must not be created": {
			refuse: func(verb string, object client.Object) error {
				if _, is := object.(*unstructured.Unstructured); is && verb == "create" {
					return apierrors.NewForbidden(group, "w1", errors.New("no rights"))
				}
				return nil
			},
			reason: v1alpha1.ReasonStartFailed, says: "no rights",
		},
		"another healer has the node":      {objects: []client.Object{node(), remediation(), policy(), template(nil), lease}, reason: v1alpha1.ReasonRefused, says: "NodeHealthCheck-workers of medik8s holds node w1"},
		"the cluster is paused":            {objects: []client.Object{node(), remediation(), policy(), template(nil), pause}, reason: v1alpha1.ReasonRefused, says: "is paused"},
		"the node is gone":                 {objects: []client.Object{remediation(), policy(), template(nil)}, reason: v1alpha1.ReasonRefused, says: "there is no Node w1"},
		"the node is another one":          {objects: []client.Object{another, remediation(), policy(), template(nil)}, reason: v1alpha1.ReasonRefused, says: "another-uid"},
		"the node is excluded":             {objects: []client.Object{excluded, remediation(), policy(), template(nil)}, reason: v1alpha1.ReasonRefused, says: v1alpha1.ExcludeLabel},
		"the fault is gone":                {objects: []client.Object{healthy, remediation(), policy(), template(nil)}, reason: v1alpha1.ReasonNotNeeded},
		"the remediation is gone":          {objects: []client.Object{node(), policy(), template(nil)}, reason: v1alpha1.ReasonSuperseded},
		"the remediation waits for others": {objects: []client.Object{node(), waits, policy(), template(nil)}, reason: v1alpha1.ReasonSuperseded, says: `"another"`},
		"the policy is gone":               {objects: []client.Object{node(), remediation(), template(nil)}, reason: v1alpha1.ReasonSuperseded},
		"the policy is paused":             {objects: []client.Object{node(), remediation(), changed(func(p *v1alpha1.RemedyPolicy) { p.Spec.Paused = true }), template(nil)}, reason: v1alpha1.ReasonRefused},
		"the policy only shows":            {objects: []client.Object{node(), remediation(), changed(func(p *v1alpha1.RemedyPolicy) { p.Spec.Mode = v1alpha1.ModeDryRun }), template(nil)}, reason: v1alpha1.ReasonRefused},
		"the policy was edited":            {objects: []client.Object{node(), remediation(), changed(func(p *v1alpha1.RemedyPolicy) { p.Spec.Steps[0].Timeout.Duration = time.Hour }), template(nil)}, reason: v1alpha1.ReasonSuperseded},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, tt.objects...)
			s.refuse = tt.refuse
			s.look()
			checkEnd(t, s.action(), tt.reason, tt.says)
			if s.object() != nil {
				t.Error("an object was created")
			}
			if v1alpha1.MayHaveExecuted(s.action().Finished().Reason) {
				t.Error("and it counts as executed")
			}
		})
	}
}

// Whoever waits for an action cancels it then, and its name must stay free of objects.
func TestAnExpiredActionIsLeftAlone(t *testing.T) {
	s := newScene(t)
	s.clock.SetTime(start.Add(time.Minute))
	s.look()
	if a := s.action(); a.Status.Claim != nil || a.Finished() != nil || s.created > 0 {
		t.Errorf("%+v", a.Status)
	}
}

// What cannot be asked now is asked again, and nothing is concluded from it.
func TestWhatCannotBeAskedEndsNothing(t *testing.T) {
	s := newScene(t)
	s.look()
	s.look()
	gone := errors.New("no answer")
	s.refuse = func(_ string, object client.Object) error {
		if object.GetObjectKind().GroupVersionKind().Kind == selfNode {
			return gone
		}
		return nil
	}
	if _, err := s.r.Reconcile(t.Context(), worker.Request("w1-r-1")); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	gone = apierrors.NewForbidden(schema.GroupResource{}, "w1", errors.New("rights were taken away"))
	s.look()
	if a := s.action(); a.Finished() != nil || !strings.Contains(a.Status.External.Said, "rights were taken away") {
		t.Errorf("%+v", a.Status)
	}
}

func TestAMetal3RemediationIsOwnedByTheMachine(t *testing.T) {
	one := step()
	one.External.TemplateRef = v1alpha1.TemplateReference{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3RemediationTemplate", Namespace: "metal3", Name: "reboot",
	}
	given := template(nil)
	given.SetGroupVersionKind(schema.FromAPIVersionAndKind("infrastructure.cluster.x-k8s.io/v1beta1", "Metal3RemediationTemplate"))
	given.SetNamespace("metal3")
	given.SetName("reboot")
	machine := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine"}}
	machine.SetNamespace("metal3")
	machine.SetName("m1")
	machine.SetUID("m-uid")
	for name, tt := range map[string]struct{ namespace, says string }{
		"it is in its namespace":      {"metal3", ""},
		"it is in another one":        {"default", "has to be in the namespace of the node's Machine"},
		"its Machine is not known":    {"", "has to be in the namespace of the node's Machine"},
		"its Machine is not here yet": {"metal3/missing", "there is no Machine metal3/missing"},
	} {
		t.Run(name, func(t *testing.T) {
			namespace, missing, _ := strings.Cut(tt.namespace, "/")
			n := node()
			n.Annotations = map[string]string{"cluster.x-k8s.io/cluster-namespace": namespace, "cluster.x-k8s.io/machine": "m1"}
			if missing != "" {
				n.Annotations["cluster.x-k8s.io/machine"] = missing
			}
			s := newScene(t, n, remediation(), policy(), given.DeepCopy(), machine.DeepCopy())
			object, end, err := s.r.prepare(t.Context(), standing.Facts{Action: action(t), Node: n}, &one.External.TemplateRef)
			if err != nil {
				t.Fatal(err)
			}
			if tt.says != "" {
				if end == nil || !strings.Contains(end.message, tt.says) {
					t.Errorf("%+v", end)
				}
				return
			}
			if end != nil || len(object.GetOwnerReferences()) != 2 || object.GetOwnerReferences()[1].UID != "m-uid" {
				t.Errorf("%+v, %+v", object, end)
			}
		})
	}
}
