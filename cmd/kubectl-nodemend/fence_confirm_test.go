package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/index"
)

// silentNode does not answer for an hour.
func silentNode() *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-17", UID: "node-17"}}
	n.Spec.Unschedulable, n.Status.NodeInfo.BootID = true, "boot-1"
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour)), LastHeartbeatTime: metav1.NewTime(noon.Add(-61 * time.Minute)),
	}}
	return n
}

// heldFor is a person's maintenance that has cordoned worker-17.
func heldFor(name string) *v1alpha1.NodeMaintenance {
	return &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "maintenance-uid"},
		Spec:       v1alpha1.NodeMaintenanceSpec{NodeName: "worker-17", Reason: "fire in r7"},
		Status: v1alpha1.NodeMaintenanceStatus{NodeUID: "node-17", Conditions: []metav1.Condition{
			{Type: v1alpha1.MaintenanceCordoned, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCordoned},
		}},
	}
}

// fakeOf builds a client of an API server with these objects, which finds those of a node.
func fakeOf(t *testing.T, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&v1alpha1.NodeMaintenance{}, index.MaintenancesByNode, func(o client.Object) []string { return []string{o.(*v1alpha1.NodeMaintenance).Spec.NodeName} }).
		WithIndex(&v1alpha1.NodeAction{}, index.ActionsByNode, func(o client.Object) []string { return []string{o.(*v1alpha1.NodeAction).Spec.NodeName} })
}

func TestAPersonGivesTheirWordThatAMachineIsOff(t *testing.T) {
	ready := silentNode()
	ready.Status.Conditions[0].Status = corev1.ConditionTrue
	on := silentNode()
	on.Status.Conditions = append(on.Status.Conditions, tried("x", corev1.ConditionTrue, v1alpha1.FenceAnswers, noon.Add(-time.Minute)).Status.Conditions...)
	wroteAgo := func(ago time.Duration) *corev1.Node {
		n := silentNode()
		n.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "nodemend-detector", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Subresource: "status", Time: &metav1.Time{Time: noon.Add(-ago)},
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}"),
		}}
		return n
	}
	booting := silentNode()
	booting.Status.NodeInfo.BootID = ""
	earlier := heldFor("fire")
	earlier.Spec.OutOfService = true
	earlier.Spec.MachineOff = &v1alpha1.PersonsWord{Kind: v1alpha1.KindPersonsWord, NodeUID: "node-17", BootID: "boot-0", By: "joe", Reason: "I was there"}
	ofPolicy := heldFor("policy")
	ofPolicy.Spec.Remediation = &v1alpha1.RemediationReference{Name: "r", UID: "u"}
	switching := &v1alpha1.NodeAction{ObjectMeta: metav1.ObjectMeta{Name: "cycle"}, Spec: v1alpha1.NodeActionSpec{NodeName: "worker-17"}, Status: v1alpha1.NodeActionStatus{
		Power: &v1alpha1.PowerCycleStatus{Phase: "Cutting"},
	}}
	paused := clusterPause("storm")
	for name, test := range map[string]struct {
		objects []client.Object
		say     confirmation
		types   string
		by      string
		want    string // the maintenance that has the word
		says    string
		fails   string
	}{
		"it asks back":            {[]client.Object{silentNode(), heldFor("fire")}, confirmation{reason: "both cords are drawn"}, "worker-17\n", "jane", "fire", "You say, as jane, in maintenance fire", ""},
		"what it knows":           {[]client.Object{silentNode(), heldFor("fire")}, confirmation{yes: true}, "", "jane", "fire", "Ready is Unknown for 60m, and its kubelet was heard of 61m ago.\nIts switch: no remote runner has tried its switch (NeverChecked).", ""},
		"an earlier word is over": {[]client.Object{silentNode(), earlier}, confirmation{yes: true}, "", "jane", "fire", "data is lost", ""},
		"which maintenance":       {[]client.Object{silentNode(), heldFor("fire"), heldFor("other")}, confirmation{yes: true, maintenance: "other"}, "", "jane", "other", "in maintenance other", ""},
		"a dry run":               {[]client.Object{silentNode(), heldFor("fire")}, confirmation{dryRun: true}, "", "jane", "", "your word would be taken; nothing was changed", ""},

		"another name is typed":  {[]client.Object{silentNode(), heldFor("fire")}, confirmation{}, "worker-18\n", "jane", "", "type the name of the node", "that is not worker-17: your word is not given"},
		"yes is no name":         {[]client.Object{silentNode(), heldFor("fire")}, confirmation{}, "yes\n", "jane", "", "", "that is not worker-17"},
		"nobody types anything":  {[]client.Object{silentNode(), heldFor("fire")}, confirmation{}, "", "jane", "", "", "that is not worker-17"},
		"nobody knows who it is": {[]client.Object{silentNode(), heldFor("fire")}, confirmation{yes: true}, "", "", "", "", "a word without a name is none"},
		"no node":                {nil, confirmation{yes: true}, "", "jane", "", "", `there is no node "worker-17"`},
		"no maintenance":         {[]client.Object{silentNode()}, confirmation{yes: true}, "", "jane", "", "", "kubectl nodemend maintenance start worker-17 --reason WHY --cordon-only"},
		"a policy's":             {[]client.Object{silentNode(), ofPolicy}, confirmation{yes: true}, "", "jane", "", "", "no maintenance of a person holds node worker-17"},
		"two":                    {[]client.Object{silentNode(), heldFor("fire"), heldFor("other")}, confirmation{yes: true}, "", "jane", "", "", "choose by --maintenance NAME"},
		"none of that name":      {[]client.Object{silentNode(), heldFor("fire")}, confirmation{yes: true, maintenance: "x"}, "", "jane", "", "", `has no maintenance "x" of a person`},
		"the node answers":       {[]client.Object{ready, heldFor("fire")}, confirmation{yes: true}, "", "jane", "", "Ready is True", "is not Unknown"},
		"its detector writes":    {[]client.Object{wroteAgo(40 * time.Second), heldFor("fire")}, confirmation{yes: true}, "", "jane", "", "Something on it wrote its status 40s ago.", "something on node worker-17 wrote its status at"},
		"its detector wrote":     {[]client.Object{wroteAgo(4 * time.Minute), heldFor("fire")}, confirmation{yes: true}, "", "jane", "fire", "its kubelet was heard of 61m ago. Something on it wrote its status 4m ago.", ""},
		"it has no boot ID":      {[]client.Object{booting, heldFor("fire")}, confirmation{yes: true}, "", "jane", "", "", "node worker-17 has no boot ID"},
		"its switch says on":     {[]client.Object{on, heldFor("fire")}, confirmation{yes: true}, "", "jane", "", "asked 60s ago", "kubectl nodemend fence check worker-17"},
		"it is switched now":     {[]client.Object{silentNode(), heldFor("fire"), switching}, confirmation{yes: true}, "", "jane", "", "", "action cycle switches the machine"},
		"the cluster is paused":  {[]client.Object{silentNode(), heldFor("fire"), paused}, confirmation{yes: true}, "", "jane", "", "", "the cluster is paused"},
	} {
		t.Run(name, func(t *testing.T) {
			c := fakeOf(t, test.objects...).WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
					if review, is := obj.(*authenticationv1.SelfSubjectReview); is {
						review.Status.UserInfo.Username = test.by
						return nil
					}
					return c.Create(ctx, obj, opts...)
				},
			}).Build()
			var out bytes.Buffer
			tool := atNoon()
			tool.streams = genericiooptions.IOStreams{In: strings.NewReader(test.types), Out: &out}
			test.say.node = "worker-17"
			err := tool.confirmOff(t.Context(), c, test.say)
			if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("got %v, want %q", err, test.fails)
			}
			if !strings.Contains(out.String(), test.says) {
				t.Errorf("it does not say %q:\n%s", test.says, out.String())
			}
			var all v1alpha1.NodeMaintenanceList
			if err := c.List(t.Context(), &all); err != nil {
				t.Fatal(err)
			}
			for i := range all.Items {
				m := &all.Items[i]
				w := m.Spec.MachineOff
				given := w != nil && w.By == "jane"
				if given != (m.Name == test.want) {
					t.Errorf("maintenance %s has %+v", m.Name, w)
				}
				if given && (!m.Spec.OutOfService || w.Kind != v1alpha1.KindPersonsWord || w.NodeUID != "node-17" || w.BootID != "boot-1" || !w.SilentSince.Time.Equal(noon.Add(-time.Hour)) || w.Reason != test.say.reason || !w.Time.Time.Equal(noon)) {
					t.Errorf("it has %+v, outOfService: %t", w, m.Spec.OutOfService)
				}
			}
		})
	}
}

func TestTheStatusOfAMaintenanceSaysWhoseWordItHas(t *testing.T) {
	m := heldFor("fire")
	m.Spec.MachineOff = &v1alpha1.PersonsWord{By: "jane", BootID: "boot-1", Time: metav1.NewTime(noon.Add(-5 * time.Minute)), Reason: "drawn\x1b[2J"}
	text := strings.Join(strings.Fields(atNoon().maintenancesOfNode([]v1alpha1.NodeMaintenance{*m})), " ")
	if !strings.Contains(text, "Machine off: jane has said so 5m ago, for boot boot-1: drawn") || strings.Contains(text, "\x1b") {
		t.Error(text)
	}
}

func TestWhySaysWhatComesOfAWordThatAMachineIsOff(t *testing.T) {
	given := func(since time.Time) *v1alpha1.NodeMaintenance {
		m := heldFor("fire")
		m.Spec.OutOfService, m.Spec.MachineOff = true, &v1alpha1.PersonsWord{
			Kind: v1alpha1.KindPersonsWord, NodeUID: "node-17", BootID: "boot-1", SilentSince: metav1.NewTime(since), By: "jane", Time: metav1.NewTime(noon.Add(-5 * time.Minute)),
		}
		return m
	}
	freed := silentNode()
	freed.Annotations = map[string]string{v1alpha1.OutOfServiceAnnotation: "boot-1 maintenance/fire"}
	for name, test := range map[string]struct {
		node *corev1.Node
		m    *v1alpha1.NodeMaintenance
		want string // "": nothing
	}{
		"it counts":          {silentNode(), given(noon.Add(-time.Hour)), "jane has said so 5m ago, for boot boot-1, in maintenance fire; the controller is about to free pods and volumes"},
		"the node answered":  {silentNode(), given(noon.Add(-2 * time.Hour)), "in maintenance fire; it frees nothing: node worker-17 has answered since that was said"},
		"all is freed by it": {freed, given(noon.Add(-time.Hour)), ""},
		"nobody has said so": {silentNode(), heldFor("fire"), ""},
	} {
		w, err := atNoon().why(t.Context(), fakeOf(t, test.node, test.m).WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
			WithIndex(&v1alpha1.Remediation{}, index.ByNode, func(o client.Object) []string { return []string{o.(*v1alpha1.Remediation).Spec.NodeName} }).Build(), "worker-17")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := strings.Join(strings.Fields(atNoon().whyText(w, false)), " ")
		if strings.Contains(text, "Machine off:") != (test.want != "") || !strings.Contains(text, test.want) {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
