package machines

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner"
)

// fleet is what a node and the objects of others look like, before a case changes them.
type fleet struct {
	node                *corev1.Node
	config              *remote.Replace
	cluster, set, m     *unstructured.Unstructured
	claim, pool         *unstructured.Unstructured
	more                []client.Object
	request             *v1alpha1.Request
	fails               func(kind schema.GroupVersionKind) error
	withoutMachine      bool
	withoutOwner, alone bool
}

func newFleet() *fleet {
	f := &fleet{
		node: nodeOf("w1"), cluster: capi("Cluster", "prod", nil), set: machineSet(), m: machineOf("w1"),
		config: &remote.Replace{Karpenter: true, ClusterAPI: &remote.ClusterAPI{Namespace: "fleet", Cluster: "prod"}},
		pool:   object("karpenter.sh/v1", "NodePool", "", "spot", nil),
		claim: object("karpenter.sh/v1", "NodeClaim", "", "spot-1", map[string]any{
			"status": map[string]any{"providerID": "played://w1", "nodeName": "w1"},
		}),
	}
	f.claim.SetLabels(map[string]string{nodePoolLabel: "spot"})
	f.claim.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: "spot", UID: f.pool.GetUID()}})
	return f
}

// karpenters makes the node one of Karpenter.
func (f *fleet) karpenters() {
	f.node.Annotations, f.node.Labels = nil, map[string]string{nodePoolLabel: "spot"}
}

func (f *fleet) machines(t *testing.T) *Machines {
	t.Helper()
	objects := append([]client.Object{f.cluster}, f.more...)
	if !f.withoutMachine {
		objects = append(objects, f.m)
	}
	if !f.withoutOwner {
		objects = append(objects, f.set, f.pool)
	}
	if !f.alone {
		objects = append(objects, f.claim)
	}
	probe := object("karpenter.sh/v1", "NodeClaim", "", "probe", nil) // so that the kinds are known
	probes := []client.Object{probe, healthCheck(nil), object("karpenter.sh/v1", "NodePool", "", "probe", nil)}
	probes[1].SetName("probe")
	probes[1].(*unstructured.Unstructured).Object["spec"] = map[string]any{"clusterName": "none"}
	c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(append(objects, probes...)...).Build()
	asks := func(kind schema.GroupVersionKind) error {
		if f.fails == nil {
			return nil
		}
		return f.fails(kind)
	}
	through := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := asks(o.GetObjectKind().GroupVersionKind()); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := asks(list.GetObjectKind().GroupVersionKind()); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
	})
	return New(Options{
		Config: func() (*remote.Replace, error) { return f.config, nil },
		Here:   func() (client.Client, error) { return through, nil },
		Elsewhere: func(string) (client.Client, error) {
			return nil, errors.New("not asked for")
		},
	})
}

func status(o *unstructured.Unstructured, status map[string]any) { o.Object["status"] = status }

func annotated(o client.Object, annotation string) {
	o.SetAnnotations(map[string]string{annotation: ""})
}

func leaving(o client.Object) {
	o.SetDeletionTimestamp(&metav1.Time{Time: start})
	o.SetFinalizers([]string{"example.com/stays"})
}

func TestAMachineThatNobodyWouldReplaceIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fleet)
		// refusal, or a part of the error; "": it is replaced.
		refusal, err string
		owner        string
	}{
		"one of a MachineSet": {change: func(*fleet) {}, owner: "MachineSet fleet/workers"},
		"one of a control plane": {change: func(f *fleet) {
			plane := object("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", "fleet", "plane", map[string]any{"spec": map[string]any{"replicas": int64(3)}})
			ownedBy(f.m, plane)
			f.more = append(f.more, plane)
		}, owner: "KubeadmControlPlane fleet/plane"},
		"one that is alone": {change: func(f *fleet) { f.m.SetOwnerReferences(nil) },
			refusal: "nobody is known to make a new machine in the place of Machine fleet/m-w1, which no MachineSet and no control plane owns as its controller"},
		"one with an owner that does not control it": {change: func(f *fleet) {
			refs := f.m.GetOwnerReferences()
			refs[0].Controller = nil
			f.m.SetOwnerReferences(refs)
		}, refusal: "nobody is known to make a new machine"},
		"one of a MachinePool": {change: func(f *fleet) { ownedBy(f.m, capi("MachinePool", "pool", nil)) },
			refusal: "which MachinePool fleet/pool owns"},
		"one of a MachineSet of another group": {change: func(f *fleet) {
			f.m.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "MachineSet", Name: "workers", UID: f.set.GetUID(), Controller: ptr.To(true)}})
		}, refusal: "nobody is known to make a new machine"},
		"its owner is gone":            {change: func(f *fleet) { f.withoutOwner = true }, refusal: "which MachineSet fleet/workers owns: it is gone"},
		"its owner is another one":     {change: func(f *fleet) { f.set.SetUID("another") }, refusal: "it was deleted and created again"},
		"its owner is being deleted":   {change: func(f *fleet) { leaving(f.set) }, refusal: "it is being deleted since"},
		"its owner is paused":          {change: func(f *fleet) { annotated(f.set, pausedAnnotation) }, refusal: "it is paused"},
		"its owner has too many":       {change: func(f *fleet) { status(f.set, map[string]any{"replicas": int64(4)}) }, refusal: "its owner has 4 machines, and wants 3"},
		"its Cluster is paused":        {change: func(f *fleet) { f.cluster.Object["spec"] = map[string]any{"paused": true} }, refusal: "Cluster fleet/prod is paused"},
		"its Cluster is being deleted": {change: func(f *fleet) { leaving(f.cluster) }, refusal: "Cluster fleet/prod is being deleted"},
		"it is being deleted":          {change: func(f *fleet) { leaving(f.m) }, refusal: "Machine fleet/m-w1 is being deleted since 2026-03-04T12:00:00Z"},
		"it is paused":                 {change: func(f *fleet) { annotated(f.m, pausedAnnotation) }, refusal: "is paused: annotation " + pausedAnnotation},
		"it is not to be remediated":   {change: func(f *fleet) { annotated(f.m, skipAnnotation) }, refusal: "is not to be remediated: annotation " + skipAnnotation},
		"a person has marked it":       {change: func(f *fleet) { annotated(f.m, remediateAnnotation) }, refusal: "is to be remediated already"},
		"its owner is about to": {change: func(f *fleet) {
			status(f.m, map[string]any{"nodeRef": map[string]any{"name": "w1"}, "conditions": []any{map[string]any{"type": ownerRemediated, "status": "False"}}})
		}, refusal: "is about to be replaced by its owner"},
		"another program remediates it": {change: func(f *fleet) {
			status(f.m, map[string]any{"nodeRef": map[string]any{"name": "w1"}, "conditions": []any{map[string]any{"type": externallyRemediated, "status": "False"}}})
		}, refusal: "is being remediated by another program"},
		"we do, as we were asked": {change: func(f *fleet) {
			status(f.m, map[string]any{"nodeRef": map[string]any{"name": "w1"}, "conditions": []any{map[string]any{"type": externallyRemediated, "status": "False"}}})
			f.request = &v1alpha1.Request{Namespace: "fleet", Name: "m-w1", Owners: []v1alpha1.RequestOwner{{Group: clusterAPIGroup, Kind: "Machine", Name: "m-w1"}}}
		}, owner: "MachineSet fleet/workers"},

		"its annotations name another's": {change: func(f *fleet) { f.m = machineOf("w2"); f.m.SetName("m-w1") }, refusal: `is not that of this node: its status.nodeRef is "w2"`},
		"its Node was created again":     {change: func(f *fleet) { status(f.m, map[string]any{"nodeRef": map[string]any{"name": "w1", "uid": "another"}}) }, refusal: "is not that of this node"},
		"a node of that name elsewhere":  {change: func(f *fleet) { f.node.Spec.ProviderID = "played://other" }, refusal: `its spec.providerID is "played://w1", and that of the node "played://other"`},
		"neither has a providerID": {change: func(f *fleet) {
			f.node.Spec.ProviderID = ""
			f.m.Object["spec"] = map[string]any{"clusterName": "prod"}
		}, refusal: "is not that of this node"},
		"a Machine of another Cluster": {change: func(f *fleet) {
			f.m.Object["spec"] = map[string]any{"clusterName": "test", "providerID": "played://w1"}
		}, refusal: `is of Cluster "test"`},
		"a namespace that is not allowed":     {change: func(f *fleet) { f.node.Annotations[machineNamespaceAnnotation] = "kube-system" }, refusal: `allows Machines of namespace "fleet" alone`},
		"there is none":                       {change: func(f *fleet) { f.withoutMachine = true }, refusal: "there is no Machine fleet/m-w1"},
		"nothing on the node says whose":      {change: func(f *fleet) { f.node.Annotations = nil }, refusal: "has neither the annotation " + machineAnnotation},
		"nothing is allowed":                  {change: func(f *fleet) { f.config = nil }, refusal: "has no replace: no machine may be replaced"},
		"Machines are not allowed":            {change: func(f *fleet) { f.config.ClusterAPI = nil }, refusal: "does not have replace.clusterAPI"},
		"there is no such Cluster":            {change: func(f *fleet) { f.cluster.SetName("other") }, refusal: "there is no Cluster fleet/prod"},
		"the management cluster is elsewhere": {change: func(f *fleet) { f.config.ClusterAPI.Kubeconfig = "/m" }, err: "not asked for"},
		"the rights are missing": {change: func(f *fleet) {
			f.fails = func(schema.GroupVersionKind) error {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "m-w1", errors.New("no"))
			}
		}, err: "the rights that replace needs: docs/others.md"},
		"the kinds are not served": {change: func(f *fleet) { f.fails = notServing("v1beta2", "v1beta1") }, err: "is this the cluster, and the version"},
		"an older version is served": {change: func(f *fleet) {
			f.fails = notServing("v1beta2")
			for _, o := range []*unstructured.Unstructured{f.m, f.set, f.cluster} {
				o.SetAPIVersion("cluster.x-k8s.io/v1beta1")
			}
			ownedBy(f.m, f.set)
			older := healthCheck(nil)
			older.SetAPIVersion("cluster.x-k8s.io/v1beta1")
			older.Object["spec"].(map[string]any)["remediationTemplate"] = map[string]any{"kind": "X"}
			f.more = append(f.more, older)
		}, owner: "MachineSet fleet/workers"},

		"a NodeClaim": {change: (*fleet).karpenters, owner: "NodePool spot"},
		"a NodeClaim on a node that names a Machine, too": {change: func(f *fleet) {
			annotations := f.node.Annotations
			f.karpenters()
			f.node.Annotations = annotations
		}, owner: "NodePool spot"},
		"NodeClaims are not allowed": {change: func(f *fleet) { f.karpenters(); f.config.Karpenter = false }, refusal: "does not have replace.karpenter: true"},
		"a NodeClaim of nobody":      {change: func(f *fleet) { f.karpenters(); f.claim.SetOwnerReferences(nil) }, refusal: "NodePool spot does not own NodeClaim spot-1"},
		"no NodeClaim":               {change: func(f *fleet) { f.karpenters(); f.alone = true }, refusal: `no NodeClaim of NodePool "spot" has the providerID of node w1`},
		"no providerID":              {change: func(f *fleet) { f.karpenters(); f.node.Spec.ProviderID = "" }, refusal: "has no spec.providerID"},
		"two NodeClaims of it": {change: func(f *fleet) {
			f.karpenters()
			second := f.claim.DeepCopy()
			second.SetName("spot-2")
			f.more = append(f.more, second)
		}, refusal: "have both the providerID of node w1"},
		"a NodeClaim of another node": {change: func(f *fleet) {
			f.karpenters()
			status(f.claim, map[string]any{"providerID": "played://w1", "nodeName": "w2"})
		}, refusal: `says that its node is "w2"`},
		"its NodePool is gone":          {change: func(f *fleet) { f.karpenters(); f.withoutOwner = true }, refusal: "NodePool spot: it is gone"},
		"its NodePool is being deleted": {change: func(f *fleet) { f.karpenters(); leaving(f.pool) }, refusal: "it is being deleted since"},
		"its NodePool is not Ready": {change: func(f *fleet) {
			f.karpenters()
			setConditions(f.pool, map[string]any{"type": "Ready", "status": "False", "reason": "NodeClassNotReady"})
		}, refusal: "it is not Ready: False, NodeClassNotReady"},
		"its NodePool wants fewer": {change: func(f *fleet) {
			f.karpenters()
			f.pool.Object["spec"] = map[string]any{"replicas": int64(0)}
		}, refusal: "NodePool spot has 1, and wants 0"},
		"a NodeClaim that is being deleted": {change: func(f *fleet) { f.karpenters(); leaving(f.claim) }, refusal: "NodeClaim spot-1 is being deleted"},
		"one that Karpenter terminates":     {change: func(f *fleet) { f.karpenters(); annotated(f.claim, terminationAnnotation) }, refusal: "Karpenter is about to delete"},
		"one that Karpenter reboots": {change: func(f *fleet) {
			f.karpenters()
			status(f.claim, map[string]any{"providerID": "played://w1", "nodeName": "w1", "conditions": []any{map[string]any{"type": "Rebooting", "status": "True"}}})
		}, refusal: "Karpenter is rebooting"},
		"one that Karpenter replaces": {change: func(f *fleet) {
			f.karpenters()
			status(f.claim, map[string]any{"providerID": "played://w1", "nodeName": "w1", "conditions": []any{map[string]any{"type": "DisruptionReason", "status": "True", "reason": "Unhealthy"}}})
		}, refusal: "Karpenter is about to replace NodeClaim spot-1: True, Unhealthy"},
		"Karpenter's kinds are not served": {change: func(f *fleet) { f.karpenters(); f.fails = notServing("v1") }, err: "does not serve NodeClaims"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet()
			test.change(f)
			m, refusal, err := f.machines(t).Of(t.Context(), f.node, f.request)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %s", err, test.err)
				}
				return
			}
			if err != nil || !strings.Contains(refusal, test.refusal) || (refusal == "") != (test.refusal == "") {
				t.Errorf("got %q, %v; want %q", refusal, err, test.refusal)
			}
			if test.owner != "" && (m.Owner.String() != test.owner || m.Owner.UID == "" || m.Object.UID == "" || m.Version == "" || m.Method != v1alpha1.ReplaceDelete) {
				t.Errorf("got %+v, want %s", m, test.owner)
			}
			if test.owner == "" && m != (runner.Machine{}) {
				t.Errorf("got %+v", m)
			}
		})
	}
}

// notServing is an API server without these versions.
func notServing(versions ...string) func(schema.GroupVersionKind) error {
	return func(gvk schema.GroupVersionKind) error {
		for _, version := range versions {
			if gvk.Version == version {
				return &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{version}}
			}
		}
		return nil
	}
}

// A control plane keeps its Machines by annotations of its own.
func TestAMarkComesAndGoesWithoutAnyOtherAnnotation(t *testing.T) {
	f := newFleet()
	f.m.SetAnnotations(map[string]string{"theirs": "stays"})
	machines, ctx := f.machines(t), t.Context()
	m, refusal, err := machines.Of(ctx, f.node, nil)
	if err != nil || refusal != "" {
		t.Fatal(refusal, err)
	}
	m.Method = v1alpha1.ReplaceRemediate
	of := &v1alpha1.ReplaceStatus{Machine: m.Object, Owner: m.Owner, Method: m.Method}
	annotations := func() map[string]string {
		by, err := machines.begun(of)
		if err != nil {
			t.Fatal(err)
		}
		machine, err := read(ctx, by.(clusterAPI), &of.Machine, machineVersions())
		if err != nil || machine == nil {
			t.Fatal(machine, err)
		}
		return machine.GetAnnotations()
	}
	if err := machines.Send(ctx, m, "a"); err != nil {
		t.Fatal(err)
	}
	if is := annotations(); len(is) != 2 || is["theirs"] != "stays" || is[remediateAnnotation] != "a" {
		t.Errorf("marked it has %v", is)
	}
	seen, err := machines.Look(ctx, of, "a", start)
	if err != nil || !seen.Marked {
		t.Fatalf("got %+v, %v", seen, err)
	}
	if err := machines.TakeBack(ctx, of, seen); err != nil {
		t.Fatal(err)
	}
	if is := annotations(); len(is) != 1 || is["theirs"] != "stays" {
		t.Errorf("when the mark is taken back it has %v", is)
	}
}

// A NodeClaim is deleted, and of its group those count whose NodeClaims stay.
func TestANodeClaimIsDeletedAndItsPoolCounted(t *testing.T) {
	f := newFleet()
	f.karpenters()
	second := f.claim.DeepCopy()
	second.SetName("spot-2")
	second.SetUID("nodeclaim-spot-2")
	status(second, map[string]any{"providerID": "played://w2", "nodeName": "w2"})
	goes := f.claim.DeepCopy()
	goes.SetName("spot-3")
	goes.SetUID("nodeclaim-spot-3")
	leaving(goes)
	status(goes, map[string]any{"providerID": "played://w3", "nodeName": "w3"})
	f.claim.SetFinalizers([]string{"karpenter.sh/termination"})
	f.more = append(f.more, second, goes)
	machines, ctx := f.machines(t), t.Context()
	m, refusal, err := machines.Of(ctx, f.node, nil)
	if err != nil || refusal != "" {
		t.Fatal(refusal, err)
	}
	of := &v1alpha1.ReplaceStatus{Machine: m.Object, Owner: m.Owner, Method: m.Method, Wanted: 2}
	if seen, err := machines.Look(ctx, of, "a", start); err != nil || !seen.There || seen.Leaving || seen.Marked || seen.Said != "it is there" {
		t.Errorf("got %+v, %v", seen, err)
	}
	stale := m
	stale.Version = "1"
	if err := machines.Send(ctx, stale, "a"); !apierrors.IsConflict(err) {
		t.Errorf("one that has changed was deleted: %v", err)
	}
	if err := machines.Send(ctx, m, "a"); err != nil {
		t.Fatal(err)
	}
	if seen, err := machines.Look(ctx, of, "a", start); err != nil || !seen.Leaving || !strings.Contains(seen.Said, "karpenter.sh/termination") || !strings.Contains(seen.Said, "no spec.terminationGracePeriod, so Karpenter waits without end for pods that a PodDisruptionBudget") {
		t.Errorf("got %+v, %v", seen, err)
	}
	group, err := machines.Group(ctx, of)
	if err != nil || len(group.Nodes) != 1 || group.Nodes[0] != "w2" || group.Wants != -1 || group.Gone != "" {
		t.Errorf("got %+v, %v", group, err)
	}
	f.config = nil
	if _, err := machines.Look(ctx, of, "a", start); err == nil || !strings.Contains(err.Error(), "is being replaced, and can't be looked at") {
		t.Errorf("got %v", err)
	}
}
