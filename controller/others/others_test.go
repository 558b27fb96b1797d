package others

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// aNode is w17, Ready, changed by the options.
func aNode(options ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "w17", UID: "node-uid", Labels: map[string]string{}, Annotations: map[string]string{}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.36.4"},
		},
	}
	for _, option := range options {
		option(node)
	}
	return node
}

func annotated(pairs ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for i := 0; i < len(pairs); i += 2 {
			n.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

// away is not Ready for so long.
func away(since time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: ago(since)}}
	}
}

const veto, vetoMark = "karpenter.sh/do-not-repair", "nodemend.dev/repair-held-for"

// aks is a node that Karpenter on Azure has made.
func aks(n *corev1.Node) { n.Labels["karpenter.azure.com/aksnodeclass"] = "default" }

// vetoed has Nodemend's mark, and says who has forbidden Karpenter last to repair the node, and what else is theirs.
func vetoed(by string, also ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		annotated(veto, "true", vetoMark, "m")(n)
		theirs := strings.Join(append(also, veto), `":{},"f:`)
		n.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: by, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + theirs + `":{}}}}`),
		}}
	}
}

// ofMachine lets the node name its Machine, ofClaim its NodeClaim.
var ofMachine = annotated("cluster.x-k8s.io/machine", "m17", "cluster.x-k8s.io/cluster-namespace", "default")

func ofClaim(n *corev1.Node) {
	n.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "example.com/v1", Kind: "NodeClaim", Name: "other"},
		{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: "c17"},
	}
}

// controlPlaneNode is a node of the control plane.
func controlPlaneNode(name, kubelet string, ready corev1.ConditionStatus) *corev1.Node {
	return aNode(func(n *corev1.Node) {
		n.Name, n.UID = name, ""
		n.Labels[controlPlaneLabel] = ""
		n.Status.NodeInfo.KubeletVersion = kubelet
		n.Status.Conditions[0].Status = ready
	})
}

// lease is medik8s' of w17, changed by the options.
func lease(options ...func(*coordinationv1.LeaseSpec)) *coordinationv1.Lease {
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: "node-w17"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("NodeHealthCheck-workers"), LeaseDurationSeconds: ptr.To[int32](360),
			RenewTime: &metav1.MicroTime{Time: now.Add(-5 * time.Minute)},
		},
	}
	for _, option := range options {
		option(&l.Spec)
	}
	return l
}

// object is one of another program, of which body has all but its kind and name.
func object(apiVersion, kind, namespace, name string, body map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: body}
	u.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func theMachine(annotations map[string]string, conditions ...any) *unstructured.Unstructured {
	u := object("cluster.x-k8s.io/v1beta2", "Machine", "default", "m17", map[string]any{"status": map[string]any{"conditions": conditions}})
	u.SetAnnotations(annotations)
	return u
}

func theClaim(annotations map[string]string, conditions ...any) *unstructured.Unstructured {
	u := object("karpenter.sh/v1", "NodeClaim", "", "c17", map[string]any{"status": map[string]any{"conditions": conditions}})
	u.SetAnnotations(annotations)
	return u
}

func condition(name, status string) any { return map[string]any{"type": name, "status": status} }

// deleted is an object that is being deleted.
func deleted(u *unstructured.Unstructured) *unstructured.Unstructured {
	u.SetDeletionTimestamp(ptr.To(ago(time.Minute)))
	u.SetFinalizers([]string{"example.com/stays"})
	return u
}

func kured(annotation, lock string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kured", Name: "reboots", Annotations: map[string]string{annotation: lock}}}
}

func TestAsk(t *testing.T) {
	const lockKey = "weave.works/kured-node-lock"
	openshift := annotated("machineconfiguration.openshift.io/currentConfig", "a", "machineconfiguration.openshift.io/desiredConfig", "a")
	version := func(status string) client.Object {
		return object("config.openshift.io/v1", "ClusterVersion", "", "version", map[string]any{"status": map[string]any{"conditions": []any{condition("Progressing", status)}}})
	}
	for name, tt := range map[string]struct {
		node    *corev1.Node
		objects []client.Object
		// why is a part of what it says; "": nobody has the node.
		why string
	}{
		"nobody is there":                       {node: aNode()},
		"the node is another one":               {node: aNode(func(n *corev1.Node) { n.UID = "other-uid" }), objects: []client.Object{lease()}},
		"a person has excluded it by now":       {node: aNode(func(n *corev1.Node) { n.Labels[v1alpha1.ExcludeLabel] = "true" }), why: "node w17 is labelled nodemend.dev/exclude=true; to undo: kubectl nodemend include w17"},
		"the node itself shows it by now":       {node: aNode(annotated("weave.works/kured-reboot-in-progress", "x")), why: "kured is about to reboot node w17"},
		"NodeHealthCheck has the Lease":         {node: aNode(), objects: []client.Object{lease()}, why: "NodeHealthCheck-workers of medik8s holds node w17 until 2026-03-04T12:01:00Z at the latest, by Lease medik8s-leases/node-w17"},
		"whatever the case of its name":         {node: aNode(func(n *corev1.Node) { n.Name = "W17" }), objects: []client.Object{lease()}, why: "NodeHealthCheck-workers"},
		"the Lease is of another node":          {node: aNode(func(n *corev1.Node) { n.Name = "w18" }), objects: []client.Object{lease()}},
		"the Lease has just ended":              {node: aNode(), objects: []client.Object{lease(func(l *coordinationv1.LeaseSpec) { l.LeaseDurationSeconds = ptr.To[int32](298) })}, why: "NodeHealthCheck-workers"},
		"the Lease has ended":                   {node: aNode(), objects: []client.Object{lease(func(l *coordinationv1.LeaseSpec) { l.LeaseDurationSeconds = ptr.To[int32](295) })}},
		"nobody holds the Lease":                {node: aNode(), objects: []client.Object{lease(func(l *coordinationv1.LeaseSpec) { l.HolderIdentity = nil })}},
		"the Lease was never renewed":           {node: aNode(), objects: []client.Object{lease(func(l *coordinationv1.LeaseSpec) { l.RenewTime = nil })}},
		"the Lease lasts for no time":           {node: aNode(), objects: []client.Object{lease(func(l *coordinationv1.LeaseSpec) { l.LeaseDurationSeconds = nil })}},
		"the Machine is well":                   {node: aNode(ofMachine), objects: []client.Object{theMachine(nil, condition("HealthCheckSucceeded", "True"))}},
		"the Machine is in another cluster":     {node: aNode(ofMachine)},
		"the Machine is being deleted":          {node: aNode(ofMachine), objects: []client.Object{deleted(theMachine(nil))}, why: "Machine default/m17 of node w17 is being deleted since 2026-03-04T11:59:00Z"},
		"it is to be remediated":                {node: aNode(ofMachine), objects: []client.Object{theMachine(map[string]string{"cluster.x-k8s.io/remediate-machine": ""})}, why: "is to be remediated: annotation cluster.x-k8s.io/remediate-machine"},
		"it is skipped":                         {node: aNode(ofMachine), objects: []client.Object{theMachine(map[string]string{"cluster.x-k8s.io/skip-remediation": ""})}, why: "is not to be remediated"},
		"it is paused":                          {node: aNode(ofMachine), objects: []client.Object{theMachine(map[string]string{"cluster.x-k8s.io/paused": ""})}, why: "is paused"},
		"its owner replaces it":                 {node: aNode(ofMachine), objects: []client.Object{theMachine(nil, condition("OwnerRemediated", "False"))}, why: "condition OwnerRemediated"},
		"another program remediates it":         {node: aNode(ofMachine), objects: []client.Object{theMachine(nil, condition("ExternallyRemediated", "False"))}, why: "condition ExternallyRemediated"},
		"and still does, as far as is known":    {node: aNode(ofMachine), objects: []client.Object{theMachine(nil, condition("HealthCheckSucceeded", "False"), condition("ExternallyRemediated", "False"))}, why: "condition ExternallyRemediated"},
		"it has, and nobody has taken it back":  {node: aNode(ofMachine), objects: []client.Object{theMachine(nil, condition("HealthCheckSucceeded", "True"), condition("ExternallyRemediated", "False"))}},
		"its owner was to, and it is well":      {node: aNode(ofMachine), objects: []client.Object{theMachine(nil, condition("OwnerRemediated", "False"), condition("HealthCheckSucceeded", "True"))}},
		"it is unhealthy, and nothing is done":  {node: aNode(ofMachine), objects: []client.Object{theMachine(nil, condition("HealthCheckSucceeded", "False"))}},
		"other conditions":                      {node: aNode(ofMachine), objects: []client.Object{theMachine(nil, condition("Updating", "False"), "nonsense")}},
		"a Machine that the node does not name": {node: aNode(), objects: []client.Object{deleted(theMachine(nil))}},
		"the NodeClaim is well":                 {node: aNode(ofClaim), objects: []client.Object{theClaim(nil, condition("Ready", "True"), condition("Rebooting", "False"))}},
		"Karpenter deletes":                     {node: aNode(ofClaim), objects: []client.Object{deleted(theClaim(nil))}, why: "Karpenter is deleting node w17: NodeClaim c17"},
		"Karpenter is about to delete":          {node: aNode(ofClaim), objects: []client.Object{theClaim(map[string]string{"karpenter.sh/nodeclaim-termination-timestamp": "x"})}, why: "Karpenter is about to delete node w17"},
		"Karpenter reboots":                     {node: aNode(ofClaim), objects: []client.Object{theClaim(nil, condition("Rebooting", "True"))}, why: "Karpenter is rebooting node w17"},
		"Karpenter replaces":                    {node: aNode(ofClaim), objects: []client.Object{theClaim(nil, condition("DisruptionReason", "True"))}, why: "Karpenter is about to replace node w17"},
		"Karpenter repairs it":                  {node: aNode(away(15*time.Minute), aks), why: "kubectl annotate node w17 karpenter.sh/do-not-repair=true"},
		"Karpenter may, if it is older": {node: aNode(away(15*time.Minute), aks, vetoed("nodemend-controller")),
			why: "kubectl annotate node w17 nodemend.dev/repair-held-for- (then karpenter.sh/do-not-repair stays until you remove it)"},
		"the API server has merged who has set it": {node: aNode(away(15*time.Minute), aks, vetoed("ancient-changes", vetoMark)),
			why: "kubectl annotate node w17 nodemend.dev/repair-held-for- (then karpenter.sh/do-not-repair stays until you remove it)"},
		"people have forbidden it":                        {node: aNode(away(15*time.Minute), aks, annotated(veto, "true"))},
		"people have, and the API server has merged them": {node: aNode(away(15*time.Minute), aks, vetoed("ancient-changes"))},
		"people have written it over ours":                {node: aNode(away(15*time.Minute), aks, vetoed("kubectl-annotate"))},
		"a NodeClaim that does not own it":                {node: aNode(), objects: []client.Object{deleted(theClaim(nil))}},
		"OpenShift is as it should be":                    {node: aNode(openshift), objects: []client.Object{version("False")}},
		"OpenShift is being upgraded":                     {node: aNode(openshift), objects: []client.Object{version("True")}, why: "OpenShift is being upgraded"},
		"its upgrade waits for this node":                 {node: aNode(openshift, away(time.Hour)), objects: []client.Object{version("True")}},
		"the node is away for its update":                 {node: aNode(openshift, away(59*time.Minute)), objects: []client.Object{version("True")}, why: "OpenShift is being upgraded"},
		"OpenShift's kind, elsewhere":                     {node: aNode(), objects: []client.Object{version("True")}},
		"one version":                                     {node: aNode(), objects: []client.Object{controlPlaneNode("c1", "v1.36.4", "True"), controlPlaneNode("c2", "v1.36.5+k3s1", "True")}},
		"two versions": {node: aNode(), objects: []client.Object{controlPlaneNode("c2", "v1.37.1", "True"), controlPlaneNode("c1", "v1.36.4", "True")},
			why: "the control plane is being upgraded: its nodes have kubelets of different versions (c1 v1.36.4, c2 v1.37.1)"},
		"the one of the old version is dead": {node: aNode(), objects: []client.Object{controlPlaneNode("c1", "v1.36.4", "Unknown"), controlPlaneNode("c2", "v1.37.1", "True")}},
		"a version that is none":             {node: aNode(), objects: []client.Object{controlPlaneNode("c1", "", "True"), controlPlaneNode("c2", "v1.37.1", "True")}},
		"a worker stays behind":              {node: aNode(), objects: []client.Object{controlPlaneNode("c2", "v1.37.1", "True")}},
		"kured has locked it":                {node: aNode(), objects: []client.Object{kured(lockKey, `{"nodeID":"w17","created":"2026-03-04T11:00:00Z","TTL":0}`)}, why: "kured has locked node w17 since 2026-03-04T11:00:00Z, to reboot it: annotation weave.works/kured-node-lock of DaemonSet kured/reboots"},
		"kured has locked another one":       {node: aNode(), objects: []client.Object{kured(lockKey, `{"nodeID":"w18","created":"2026-03-04T11:00:00Z","TTL":0}`)}},
		"the lock has ended":                 {node: aNode(), objects: []client.Object{kured(lockKey, `{"nodeID":"w17","created":"2026-03-04T11:00:00Z","TTL":1800000000000}`)}},
		"the lock has not ended":             {node: aNode(), objects: []client.Object{kured(lockKey, `{"nodeID":"w17","created":"2026-03-04T11:00:00Z","TTL":7200000000000}`)}, why: "kured has locked node w17"},
		"kured has locked several":           {node: aNode(), objects: []client.Object{kured(lockKey, `{"maxOwners":2,"locks":[{"nodeID":"w18"},{"nodeID":"w17","created":"2026-03-04T11:00:00Z"}]}`)}, why: "kured has locked node w17"},
		"kured has locked several others":    {node: aNode(), objects: []client.Object{kured(lockKey, `{"maxOwners":2,"locks":[{"nodeID":"w18"}]}`)}},
		"a lock that is not understood":      {node: aNode(), objects: []client.Object{kured(lockKey, "w17")}},
		"kured has no lock":                  {node: aNode(), objects: []client.Object{kured("other", "w17")}},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithReturnManagedFields().WithObjects(append(tt.objects, tt.node)...).Build()
			hold, err := Ask(t.Context(), c, tt.node.Name, "node-uid", Step{Now: now})
			if err != nil {
				t.Fatal(err)
			}
			if (hold.Why == "") != (tt.why == "") || !strings.Contains(hold.Why, tt.why) {
				t.Errorf("it says\n  %q\nand not\n  %q", hold.Why, tt.why)
			}
		})
	}
}

// Nobody knows, and a step that nobody knows of to be safe does not start.
func TestWhatCannotBeReadIsAnError(t *testing.T) {
	everybody := aNode(ofMachine, ofClaim, annotated("machineconfiguration.openshift.io/currentConfig", "a", "machineconfiguration.openshift.io/desiredConfig", "a"))
	refused := apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no rights"))
	for _, kind := range []string{"Node", "Lease", "Machine", "NodeClaim", "ClusterVersion", "NodeList", "DaemonSetList"} {
		for name, tt := range map[string]struct {
			answer func(context.Context) error
			says   string
		}{
			"refused":   {func(context.Context) error { return refused }, "no rights"},
			"no answer": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "no answer within 5s"},
		} {
			t.Run(kind+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					hold, err := Ask(t.Context(), answering(everybody, kind, tt.answer), "w17", "node-uid", Step{Now: now})
					if err == nil || !strings.Contains(err.Error(), tt.says) || hold.Why != "" {
						t.Errorf("%+v, %v", hold, err)
					}
				})
			})
		}
	}
}

// answering returns a client of a cluster with this node that answers so for a kind.
func answering(node *corev1.Node, kind string, answer func(context.Context) error) client.Client {
	of := func(obj interface{ GetObjectKind() schema.ObjectKind }) bool {
		gvk := obj.GetObjectKind().GroupVersionKind()
		switch obj.(type) {
		case *corev1.Node:
			gvk.Kind = "Node"
		case *corev1.NodeList:
			gvk.Kind = "NodeList"
		case *coordinationv1.Lease:
			gvk.Kind = "Lease"
		}
		return gvk.Kind == kind
	}
	return fake.NewClientBuilder().WithObjects(node).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if of(obj) {
				return answer(ctx)
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if of(list) {
				return answer(ctx)
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
}

func TestOfANodeThatIsGoneOthersHaveNothing(t *testing.T) {
	hold, err := Ask(t.Context(), fake.NewClientBuilder().WithObjects(lease()).Build(), "w17", "node-uid", Step{Now: now})
	if err != nil || hold.Why != "" {
		t.Errorf("%+v, %v", hold, err)
	}
}

// Who has asked for a step is not waited for, and everybody else is.
func TestWhatADriverHasMarkedDoesNotHoldWhatItHasAskedFor(t *testing.T) {
	by := func(namespace, apiVersion, kind, name string) *v1alpha1.Request {
		r := v1alpha1.NewRequest(&v1alpha1.NodemendRemediation{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "w17", OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name}},
		}})
		return &r
	}
	const nhc, capi = "remediation.medik8s.io/v1alpha1", "cluster.x-k8s.io/v1beta2"
	workers, m17 := by("nhc", nhc, "NodeHealthCheck", "workers"), by("default", capi, "Machine", "m17")
	remediated := theMachine(map[string]string{"cluster.x-k8s.io/remediate-machine": ""}, condition("ExternallyRemediated", "False"))
	for name, tt := range map[string]struct {
		request *v1alpha1.Request
		options []func(*corev1.Node)
		object  client.Object
		holds   bool
	}{
		"its own Lease":                             {request: workers, object: lease()},
		"the Lease, of whom nobody has asked":       {object: lease(), holds: true},
		"that of another NodeHealthCheck":           {request: by("nhc", nhc, "NodeHealthCheck", "gpu"), object: lease(), holds: true},
		"that of a NodeMaintenance of the name":     {request: workers, object: lease(func(l *coordinationv1.LeaseSpec) { l.HolderIdentity = ptr.To("node-maintenance") }), holds: true},
		"the Lease, as another kind of the name":    {request: by("nhc", "example.com/v1", "NodeHealthCheck", "workers"), object: lease(), holds: true},
		"the Lease, when a Machine's driver asks":   {request: m17, object: lease(), holds: true},
		"its Machine is remediated, by us":          {request: m17, options: []func(*corev1.Node){ofMachine}, object: remediated},
		"the Machine, when NodeHealthCheck asks":    {request: workers, options: []func(*corev1.Node){ofMachine}, object: remediated, holds: true},
		"the Machine of another namespace":          {request: by("other", capi, "Machine", "m17"), options: []func(*corev1.Node){ofMachine}, object: remediated, holds: true},
		"another Machine":                           {request: by("default", capi, "Machine", "m18"), options: []func(*corev1.Node){ofMachine}, object: remediated, holds: true},
		"its Machine is about to be replaced":       {request: m17, options: []func(*corev1.Node){ofMachine}, object: theMachine(nil, condition("OwnerRemediated", "False")), holds: true},
		"its Machine is paused":                     {request: m17, options: []func(*corev1.Node){ofMachine}, object: theMachine(map[string]string{"cluster.x-k8s.io/paused": ""}), holds: true},
		"its Machine is deleted":                    {request: m17, options: []func(*corev1.Node){ofMachine}, object: deleted(theMachine(nil)), holds: true},
		"a person has told its driver to leave off": {request: workers, options: []func(*corev1.Node){annotated("remediation.medik8s.io/manually-confirmed-healthy", "")}, object: lease(), holds: true},
	} {
		t.Run(name, func(t *testing.T) {
			node := aNode(tt.options...)
			c := fake.NewClientBuilder().WithObjects(node, tt.object).Build()
			hold, err := Ask(t.Context(), c, "w17", "node-uid", Step{Now: now, Request: tt.request})
			if err != nil || (hold.Why != "") != tt.holds {
				t.Errorf("it says %q, %v", hold.Why, err)
			}
		})
	}
}
