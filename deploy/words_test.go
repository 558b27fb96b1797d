//go:build integration

package deploy_test

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/helm"
)

// taken are the values with which a person's word is taken.
const taken = "controller.personsWord=true"

// silentSince is since when nodes of these tests do not answer.
const silentSince = "2026-11-26T11:59:00Z"

// wordOf is the word of a person for a boot of a node, as JSON has it.
func wordOf(by, uid, bootID string) map[string]any {
	return map[string]any{"kind": "PersonsWord", "nodeUID": uid, "bootID": bootID, "silentSince": silentSince, "by": by, "time": "2026-11-26T12:00:00Z"}
}

// gives writes a word into a maintenance; nil takes it back.
func (s *scene) gives(who client.Client, m *v1alpha1.NodeMaintenance, word any) error {
	spec := map[string]any{"outOfService": true, "machineOff": word}
	if word == nil {
		spec["outOfService"] = nil
	}
	patch, err := json.Marshal(map[string]any{"spec": spec})
	s.must(err)
	return who.Patch(s.ctx, m, client.RawPatch(types.MergePatchType, patch))
}

// creates tries whether somebody may create a maintenance that has a word.
func (s *scene) creates(who client.Client, word map[string]any) error {
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"nodeName": s.a.Name, "reason": "r", "outOfService": true, "machineOff": word}})
	s.must(err)
	m := &v1alpha1.NodeMaintenance{}
	s.must(json.Unmarshal(data, m))
	m.Name = "word-" + utilrand.String(6)
	return client.NewDryRunClient(who).Create(s.ctx, m)
}

// confirming is somebody who may edit, and confirm.
func (s *scene) confirming() client.Client {
	s.Helper()
	const name = "connie"
	for _, role := range []string{"edit", "confirm"} {
		err := s.admin.Create(s.ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nodemend-" + role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		})
		s.must(client.IgnoreAlreadyExists(err))
	}
	return s.client(clustertest.Shared(s).UserConfig(name))
}

// installWords applies what has a person's word taken, until the test ends.
func (s *scene) installWords() {
	s.Helper()
	helm.Program(s.T)
	apply := func(ctx context.Context, objects manifests) {
		for _, obj := range objects {
			switch name := obj.GetName(); {
			case name == "nodemend-words", name == "nodemend-confirm", name == "nodemend-controller-nodes", name == "nodemend-controller" && obj.GetKind() == "ClusterRole":
				s.must(s.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(&obj), client.FieldOwner("test"), client.ForceOwnership))
			}
		}
	}
	olga := s.client(s.clusterAdmin())
	leader := s.client(s.account("controller", s.b))
	until := func(ctx context.Context, word, taint string) {
		s.Helper()
		then := *s
		then.ctx = ctx
		(&props{scene: &then}).until(func() bool {
			err := then.creates(olga, wordOf("somebody", "u", bootOne))
			taints := client.NewDryRunClient(leader).Patch(ctx, named(s.a.Name), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`)))
			return err != nil && strings.Contains(err.Error(), word) && taints != nil && strings.Contains(taints.Error(), taint)
		})
	}
	apply(s.ctx, rendered(s.T, taken))
	s.Cleanup(func() { // other tests ask what holds without
		ctx := context.WithoutCancel(s.ctx)
		apply(ctx, installed(s.T))
		until(ctx, "controller.personsWord of the chart", "not change its spec.taints")
	})
	until(s.ctx, "in the name of somebody", "it may only set node.kubernetes.io/out-of-service")
}

func TestNobodyGivesTheWordOfAnotherThatAMachineIsOff(t *testing.T) {
	s := newScene(t)
	olga, master := s.people()
	m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "fire-" + utilrand.String(6)}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: s.a.Name, Reason: "fire"}}
	s.temporary(m)
	word := func(by string) map[string]any { return wordOf(by, string(s.a.UID), bootOne) }
	const off = "spec.machineOff needs controller.personsWord of the chart"
	s.refused([]attempt{
		{"the chart does not let it", off, func() error { return s.gives(olga, m, word("olga")) }},
		{"not even system:masters", off, func() error { return s.creates(master, word("master")) }},
	})

	s.installWords()
	connie, edit := s.confirming(), s.client(s.person("edit"))
	program := "system:serviceaccount:" + namespace + ":nodemend-"
	as := func(role string) client.Client { return s.client(s.account(role, s.b)) }
	robot := s.client(clustertest.Shared(s).UserConfig("system:serviceaccount:flux-system:flux", "system:masters"))
	kubelet := s.client(clustertest.Shared(s).UserConfig("system:node:"+s.b.Name, "system:masters"))
	manager := s.client(clustertest.Shared(s).UserConfig("system:kube-controller-manager", "system:masters"))
	p := &props{scene: s}
	p.until(func() bool { return s.creates(connie, word("connie")) == nil }) // her rights are in force
	in := func(who string) string { return "in the name of " + who }
	const noPerson, noVerb = "it is the word of a person", "that takes the verb confirm of nodemaintenances"
	s.refused([]attempt{
		{"another's name", in("jane"), func() error { return s.gives(connie, m, word("jane")) }},
		{"another's name, in a new one", in("jane"), func() error { return s.creates(connie, word("jane")) }},
		{"another's name, by system:masters", in("connie"), func() error { return s.gives(master, m, word("connie")) }},
		{"who may edit, and not confirm", noVerb, func() error { return s.gives(edit, m, word("person-who-may-edit")) }},
		{"who may edit, and not confirm, in a new one", noVerb, func() error { return s.creates(edit, word("person-who-may-edit")) }},
		{"the controller", noPerson, func() error { return s.gives(as("controller"), m, word(program+"controller")) }},
		{"the controller, in a new one", noPerson, func() error { return s.creates(as("controller"), word(program+"controller")) }},
		{"the controller, in a person's name", noPerson, func() error { return s.gives(as("controller"), m, word("connie")) }},
		{"a runner", `cannot patch resource "nodemaintenances"`, func() error { return s.gives(s.client(s.account("runner", s.a)), m, word(program+"runner")) }},
		{"the remote runner", `cannot patch resource "nodemaintenances"`, func() error { return s.gives(s.client(s.remoteRunner()), m, word(program+"remote-runner")) }},
		{"a program with all rights", noPerson, func() error { return s.gives(robot, m, word("system:serviceaccount:flux-system:flux")) }},
		{"a program of Kubernetes with all rights", noPerson, func() error { return s.gives(manager, m, word("system:kube-controller-manager")) }},
		{"a kubelet with all rights", noPerson, func() error { return s.gives(kubelet, m, word("system:node:"+s.b.Name)) }},
	})
	if m.Spec.MachineOff != nil {
		t.Fatalf("it has %+v", m.Spec.MachineOff)
	}
	s.must(s.gives(connie, m, word("connie")))
	s.must(s.annotates(edit, m, map[string]any{"example.com/note": "x"})) // what is there is nobody's to answer for
	other := word("connie")
	other["bootID"] = bootTwo
	reason := maps.Clone(word("connie"))
	reason["reason"] = "nobody has drawn any cord"
	s.refused([]attempt{
		{"another boot, by another", in("connie"), func() error { return s.gives(olga, m, other) }},
		{"other words, by another", in("connie"), func() error { return s.gives(olga, m, reason) }},
		{"the same, by who may not confirm", in("connie"), func() error { return s.gives(edit, m, other) }},
	})
	for what, try := range map[string]struct {
		says string
		try  func() error
	}{
		"without outOfService": {"machineOff is for outOfService: true", func() error {
			return connie.Patch(s.ctx, m.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"outOfService":false}}`)))
		}},
		"of another kind": {`Unsupported value: "Time"`, func() error {
			changed := word("connie")
			changed["kind"] = "Time"
			return s.gives(connie, m.DeepCopy(), changed)
		}},
		"without a silence": {"spec.machineOff.silentSince", func() error {
			changed := word("connie")
			changed["silentSince"] = nil
			return s.gives(connie, m.DeepCopy(), changed)
		}},
		"without a boot": {"spec.machineOff.bootID", func() error {
			changed := word("connie")
			changed["bootID"] = ""
			return s.gives(connie, m.DeepCopy(), changed)
		}},
	} {
		if err := try.try(); err == nil || !strings.Contains(err.Error(), try.says) {
			t.Errorf("%s: %v, want %q", what, err, try.says)
		}
	}
	s.must(s.gives(edit, m, nil)) // who may write the maintenance may take it back
	if m.Spec.MachineOff != nil {
		t.Errorf("it has %+v", m.Spec.MachineOff)
	}
	s.must(s.gives(olga, m, word("olga"))) // cluster-admin may all
}

// With its own token, under all admission policies, the controller sets the taint on a person's word,
// without a remote runner, and takes it away.
func TestTheControllerFreesPodsOnAPersonsWordWithItsOwnRights(t *testing.T) {
	s := newScene(t)
	s.installWords()
	connie := s.confirming()
	leader := s.client(s.account("controller", s.b))
	p := &props{scene: s}
	p.until(func() bool { return leader.List(s.ctx, &storagev1.VolumeAttachmentList{}) == nil }) // its role is in force
	name := s.nodeOf(bootOne, corev1.ConditionUnknown, "")
	node := named(name)
	s.must(s.admin.Get(s.ctx, key(node), node))
	node.Spec.Unschedulable = true
	s.must(s.admin.Update(s.ctx, node))
	m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "fire-" + utilrand.String(6)}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: name, Reason: "fire"}}
	s.temporary(m)
	m.Status.NodeUID = node.UID
	m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MaintenanceCordoned, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCordoned, LastTransitionTime: metav1.NewTime(time.Now())}}
	s.must(s.admin.Status().Update(s.ctx, m))
	r := freer(leader)
	is := func(want v1alpha1.OutOfServiceMark) {
		s.Helper()
		_, err := r.Reconcile(s.ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		s.must(err)
		s.must(s.admin.Get(s.ctx, key(node), node))
		got, _ := v1alpha1.OutOfServiceMarkOf(node)
		if own, _ := want.OutOfService(node); got != want || own >= 0 != (want.BootID != "") {
			t.Fatalf("it has %v and %v, want %q", node.Annotations, node.Spec.Taints, want)
		}
	}
	is(v1alpha1.OutOfServiceMark{})
	p.until(func() bool { return s.gives(connie, m, wordOf("connie", string(node.UID), bootTwo)) == nil }) // her rights are in force
	is(v1alpha1.OutOfServiceMark{})
	s.must(s.gives(connie, m, wordOf("connie", string(node.UID), bootOne)))
	mark := v1alpha1.OutOfServiceMark{BootID: bootOne, Action: v1alpha1.ProofOfMaintenance(m.Name)}
	is(mark)
	mark.Moved = true
	is(mark)
	s.must(s.admin.Get(s.ctx, key(node), node))
	node.Status.NodeInfo.BootID, node.Status.Conditions[0].Status = bootTwo, corev1.ConditionTrue
	s.must(s.admin.Status().Update(s.ctx, node))
	is(mark)
	s.must(s.admin.Delete(s.ctx, m))
	is(v1alpha1.OutOfServiceMark{})
}

func TestTheRoleThatConfirmsIsThereOnlyIfWordsAreTaken(t *testing.T) {
	helm.Program(t)
	for value, want := range map[string]bool{taken: true, "controller.personsWord=false": false, "remoteRunner.outOfService=true": false} {
		objects := rendered(t, append([]string{value}, remotely...)...)
		checkRights(t, objects)
		found := false
		for _, obj := range objects {
			found = found || obj.GetName() == "nodemend-confirm"
		}
		if found != want {
			t.Errorf("%s: the role is there: %t", value, found)
		}
	}
}
