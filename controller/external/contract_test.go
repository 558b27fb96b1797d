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
		"it has succeeded":           {of("X", "", processing, "False", succeeded, "True", "Other", "True"), told{succeeded: true, idle: true, text: "Processing=False, Succeeded=True"}},
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

// Of a remediator that replaces the node, or deletes it to bring it back, the object stays until it
// has, although the node is gone. One that says that it does nothing does not keep the action for ever.
func TestWhatBecomesOfAnObjectWhoseNodeIsGone(t *testing.T) {
	const gone, isBack, deleted, isClear, was = "gone", "back", "deleted", "clear", "there"
	for name, tt := range map[string]struct {
		conditions []string
		so         string
		after      time.Duration
		want       verb
	}{
		"the node is to go, and is gone":         {[]string{nodeGoes, "True", processing, "True"}, gone, 5 * time.Minute, wait},
		"the node is gone, and it is at work":    {[]string{nodeGoes, "False", processing, "True"}, gone, 5 * time.Minute, wait},
		"and takes too long":                     {[]string{nodeGoes, "False", processing, "True"}, gone, 11 * time.Minute, expire},
		"another one of the name is well":        {[]string{nodeGoes, "False", processing, "True"}, isBack, 5 * time.Minute, remove},
		"which is not the one that it makes":     {[]string{nodeGoes, "True", processing, "True"}, isBack, 5 * time.Minute, wait},
		"the node was clear before":              {[]string{processing, "True"}, isClear, 5 * time.Minute, remove},
		"it has succeeded":                       {[]string{nodeGoes, "True", succeeded, "True"}, gone, 5 * time.Minute, expire},
		"it takes too long":                      {[]string{nodeGoes, "True"}, gone, 11 * time.Minute, expire},
		"the node is still there":                {[]string{nodeGoes, "True"}, was, 5 * time.Minute, expire},
		"nothing is known of what it does":       {nil, gone, 5 * time.Minute, expire},
		"it was deleted, and says that it rests": {[]string{processing, "False"}, deleted, 5 * time.Minute, finish},
		"it says so at once":                     {[]string{processing, "False"}, deleted, 4*time.Minute + 59*time.Second, wait},
		"it was deleted, and says nothing":       {nil, deleted, 5 * time.Minute, wait},
		"it was deleted, and is at work":         {[]string{processing, "True"}, deleted, 5 * time.Minute, wait},
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
			l := look{action: a, object: object, nodeGone: tt.so != was, back: tt.so == isBack, now: start.Add(tt.after)}
			if tt.so == deleted {
				object.SetFinalizers([]string{finalizer})
				object.SetDeletionTimestamp(&metav1.Time{Time: start.Add(4 * time.Minute)})
			}
			said := tell(object)
			a.Status.External = &v1alpha1.ExternalStatus{
				Object: v1alpha1.ExternalObject{UID: "object-uid"}, Said: l.said(said), Succeeded: said.succeeded,
				Stop: &v1alpha1.ExternalStop{Reason: v1alpha1.ReasonFailed, Time: metav1.NewTime(start.Add(4 * time.Minute)), Clear: tt.so == isClear},
			}
			if d := follow(l); d.verb != tt.want || d.verb == finish && !strings.Contains(d.end.message, "is left with its finalizers") {
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
		"its webhook has just died": {
			refuse: func(verb string, object client.Object) error {
				if _, is := object.(*unstructured.Unstructured); is && verb == "create" {
					return apierrors.NewInternalError(errors.New(`failed calling webhook "x": no endpoints`))
				}
				return nil
			},
			reason: v1alpha1.ReasonStartFailed, says: "no endpoints",
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

// Its create may have arrived when its remediation had ended: then nobody else ends it.
func TestAnExpiredActionEnds(t *testing.T) {
	s := newScene(t)
	s.clock.SetTime(start.Add(time.Minute))
	s.look()
	checkEnd(t, s.action(), v1alpha1.ReasonExpired, "after its expiresAt")
	if a := s.action(); a.Status.Claim != nil || s.created > 0 {
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
	for name, tt := range map[string]struct {
		namespace, says string
		of              map[string]any
	}{
		"it is in its namespace":         {"metal3", "", map[string]any{"name": "w1"}},
		"its Machine names the UID, too": {"metal3", "", map[string]any{"name": "w1", "uid": "w1-uid"}},
		"it is in another one":           {"default", "has to be in the namespace of the node's Machine", map[string]any{"name": "w1"}},
		"its Machine is not known":       {"", "has to be in the namespace of the node's Machine", map[string]any{"name": "w1"}},
		"its Machine is not here yet":    {"metal3/missing", "there is no Machine metal3/missing", map[string]any{"name": "w1"}},
		"the Machine is that of another": {"metal3", "is not that of this node: its status.nodeRef is \"cp1\"", map[string]any{"name": "cp1"}},
		"or of a former node":            {"metal3", "is not that of this node", map[string]any{"name": "w1", "uid": "former"}},
		"or of none yet":                 {"metal3", "is not that of this node", nil},
	} {
		t.Run(name, func(t *testing.T) {
			namespace, missing, _ := strings.Cut(tt.namespace, "/")
			n := node()
			n.Annotations = map[string]string{"cluster.x-k8s.io/cluster-namespace": namespace, "cluster.x-k8s.io/machine": "m1"}
			if missing != "" {
				n.Annotations["cluster.x-k8s.io/machine"] = missing
			}
			one, given := one, given.DeepCopy()
			machine := machine.DeepCopy()
			if tt.of != nil {
				machine.Object["status"] = map[string]any{"nodeRef": tt.of}
			}
			s := newScene(t, n, remediation(), policy(), given, machine)
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

// MachineDeletionRemediation deletes the Machine that the node's annotation names.
func TestAMachineDeletionRemediationIsForTheNodesOwnMachine(t *testing.T) {
	given := template(nil)
	given.SetGroupVersionKind(schema.FromAPIVersionAndKind("machine-deletion-remediation.medik8s.io/v1alpha1", machineDeletion+"Template"))
	for name, tt := range map[string]struct{ annotation, of, says string }{
		"it names the node":          {"openshift-machine-api/m1", "w1", ""},
		"it names another one":       {"openshift-machine-api/m1", "cp1", "is not that of this node"},
		"there is none":              {"openshift-machine-api/m2", "w1", "there is no Machine openshift-machine-api/m2"},
		"the node has no annotation": {"", "w1", "names no Machine of machine.openshift.io"},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine"}}
			machine.SetNamespace("openshift-machine-api")
			machine.SetName("m1")
			machine.Object["status"] = map[string]any{"nodeRef": map[string]any{"name": tt.of}}
			n := node()
			n.Annotations = map[string]string{"machine.openshift.io/machine": tt.annotation}
			s := newScene(t, n, remediation(), policy(), given.DeepCopy(), machine)
			owner, end, err := s.r.machine(t.Context(), n, given)
			if err != nil || owner != nil || (end == nil) != (tt.says == "") || end != nil && !strings.Contains(end.message, tt.says) {
				t.Errorf("%+v, %+v, %v", owner, end, err)
			}
		})
	}
}

// What people say while what takes long is read counts, and while the claim is on its way.
func TestAPauseIsHeededUntilTheObjectIsCreated(t *testing.T) {
	pause := &v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterPauseBudget}, Spec: v1alpha1.RemediationBudgetSpec{Paused: true},
	}
	for name, during := range map[string]func(verb string, object client.Object) bool{
		"while the template is read": func(_ string, object client.Object) bool {
			return object.GetObjectKind().GroupVersionKind().Kind == "SelfNodeRemediationTemplate"
		},
		"while its admission is asked": func(verb string, _ client.Object) bool { return verb == dryRun },
		"while the claim is on its way": func(verb string, object client.Object) bool {
			_, is := object.(*v1alpha1.NodeAction)
			return is && verb == "patch"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.refuse = func(verb string, object client.Object) error {
				if during(verb, object) {
					s.clock.SetTime(s.clock.Now().Add(20 * time.Second))
					err := s.c.Create(t.Context(), pause.DeepCopy())
					during = func(string, client.Object) bool { return false }
					return err
				}
				return nil
			}
			s.look()
			checkEnd(t, s.action(), v1alpha1.ReasonRefused, "is paused")
			if s.created > 0 {
				t.Error("an object was created")
			}
		})
	}
}

// A webhook of the remediator may not answer, whose pods are on the dead node. Nothing was created then,
// and nobody has to look.
func TestAnObjectIsClaimedOnlyWhenItWouldBeAdmitted(t *testing.T) {
	for name, tt := range map[string]struct {
		err          error
		reason, says string
	}{
		"its webhook does not answer": {
			apierrors.NewInternalError(errors.New(`failed calling webhook "x": no endpoints`)), v1alpha1.ReasonStartFailed, "failed calling webhook",
		},
		"it is refused":                     {apierrors.NewForbidden(schema.GroupResource{}, "w1", errors.New("not today")), v1alpha1.ReasonStartFailed, "not today"},
		"a webhook knows nothing of that":   {apierrors.NewBadRequest(`admission webhook "x" does not support dry run`), "", ""},
		"the API server has too much to do": {apierrors.NewTooManyRequests("later", 1), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.refuse = func(verb string, _ client.Object) error {
				if verb == dryRun {
					return tt.err
				}
				return nil
			}
			s.look()
			checkEnd(t, s.action(), tt.reason, tt.says)
			if claimed := s.action().Status.Claim != nil; claimed != apierrors.IsBadRequest(tt.err) || claimed != (s.created > 0) {
				t.Errorf("claimed: %t, created: %d", claimed, s.created)
			}
		})
	}
}

// A 404 is no word about an object if the kind is not served: its operator is upgraded, or the API
// server has just started.
func TestAKindThatIsNotServedTellsNothing(t *testing.T) {
	for name, err := range map[string]error{
		"it was":                        apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "w1", "404 page not found", 0, true),
		"a controller has just started": &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: selfNode}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.look()
			s.look()
			s.refuse = func(_ string, object client.Object) error {
				if object.GetObjectKind().GroupVersionKind().Kind == selfNode {
					return err
				}
				return nil
			}
			s.look()
			if a := s.action(); a.Finished() != nil || !strings.Contains(a.Status.External.Said, "does not serve its kind") {
				t.Errorf("%+v", a.Status)
			}
			if err := s.c.Delete(t.Context(), s.object()); err != nil { // its operator was removed
				t.Fatal(err)
			}
			s.clock.SetTime(start.Add(timeout + 2*unservedFor))
			s.look()
			checkEnd(t, s.action(), v1alpha1.ReasonFailed, "")
		})
	}
	s := newScene(t)
	s.refuse = func(_ string, object client.Object) error {
		if _, is := object.(*v1alpha1.RemediationBudget); is {
			return apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "nodemend-pause", "404 page not found", 0, true)
		}
		return nil
	}
	s.look()
	if s.action().Status.Claim != nil {
		t.Error("that budgets are not served was taken for no pause")
	}
}

// Some may create and delete its objects, and not change them.
func TestWhatCannotBeToldToStopIsDeleted(t *testing.T) {
	s := newScene(t)
	s.look()
	s.recall(false)
	s.refuse = func(verb string, object client.Object) error {
		if _, is := object.(*unstructured.Unstructured); is && verb == "patch" {
			return apierrors.NewForbidden(schema.GroupResource{}, "w1", errors.New("no right to patch"))
		}
		return nil
	}
	s.look()
	s.look()
	if s.object() == nil || !strings.Contains(s.action().Status.External.Said, "no right to patch") {
		t.Errorf("%+v", s.action().Status)
	}
	for range 3 {
		s.clock.SetTime(s.clock.Now().Add(stopGrace))
		s.look()
	}
	checkEnd(t, s.action(), v1alpha1.ReasonFailed, "told to stop")
}

// A refusal is written once, and not in turn with what the object tells: the event of each write has
// the controller look at once.
func TestARefusalIsSaidOnce(t *testing.T) {
	for verb, later := range map[string]time.Duration{"patch": 0, "delete": 2 * stopGrace} {
		t.Run(verb, func(t *testing.T) {
			s := newScene(t)
			s.look()
			s.says(processing, "True")
			s.settle()
			s.recall(false)
			s.refuse = func(v string, object client.Object) error {
				if _, is := object.(*unstructured.Unstructured); is && v == verb {
					return apierrors.NewForbidden(schema.GroupResource{}, "w1", errors.New("no right to "+verb))
				}
				return nil
			}
			s.clock.SetTime(start.Add(later))
			for _, tells := range []string{"True", "Unknown"} {
				s.says(processing, tells)
				s.writes = 0
				s.settle()
				s.clock.SetTime(s.clock.Now().Add(poll))
				s.settle()
				if said := s.action().Status.External.Said; s.writes > 2 || !strings.Contains(said, "no right to "+verb) {
					t.Errorf("Processing=%s: after %d writes it says %q", tells, s.writes, said)
				}
			}
			s.refuse = nil
			s.clock.SetTime(s.clock.Now().Add(stopGrace))
			s.settle()
			checkEnd(t, s.action(), v1alpha1.ReasonFailed, "told to stop")
		})
	}
}

// What was confirmed before the node booted, which may have been the cure, proves nothing (I5).
func TestANodeThatHasBootedSinceIsNotHandedOver(t *testing.T) {
	r := remediation()
	r.Status.BootID = "boot-0"
	s := newScene(t, node(), r, policy(), template(nil))
	s.look()
	checkEnd(t, s.action(), v1alpha1.ReasonRefused, "has booted since")
	if s.created > 0 {
		t.Error("an object was created")
	}
}

// Who deletes an action has the other program stop, whoever else owns its object: the action stays until
// that is gone.
func TestADeletedActionStaysUntilItsObjectIsGone(t *testing.T) {
	for name, begun := range map[string]bool{"it is at work": true, "nothing was begun": false} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			var m remediator
			if begun {
				s.look()
				m.look(s)
			}
			if err := s.c.Delete(t.Context(), s.action()); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				if s.gone() {
					break
				}
				s.look()
				m.look(s)
				s.clock.SetTime(s.clock.Now().Add(10 * time.Second))
			}
			if s.object() != nil || !s.gone() {
				t.Error("its object is there, or the action is")
			}
		})
	}
}

// A controller whose machine has slept since it claimed an action creates nothing for it: it was given up.
func TestWhoHasSleptCreatesNothing(t *testing.T) {
	s := newScene(t)
	s.refuse = func(verb string, object client.Object) error {
		if _, is := object.(*v1alpha1.NodeAction); is && verb == "patch" && s.action().Status.Claim == nil {
			s.clock.SetTime(start.Add(time.Hour))
		}
		return nil
	}
	s.look()
	checkEnd(t, s.action(), v1alpha1.ReasonStartFailed, "nothing was created")
	if s.created > 0 {
		t.Error("an object was created")
	}
}
