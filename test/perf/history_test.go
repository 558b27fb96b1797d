//go:build integration

package perf

import (
	"encoding/json"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// keepOne keeps an ended remediation and its action as samples of a history.
func (s *scene) keepOne() {
	if s.remediation != nil {
		return
	}
	var all v1alpha1.RemediationList
	if err := s.client.List(s.ctx, &all); err != nil {
		s.b.Fatal(err)
	}
	for i := range all.Items {
		if r := &all.Items[i]; r.Ended() && len(r.Status.History) == 1 {
			s.remediation, s.action = r, &v1alpha1.NodeAction{}
			if err := s.client.Get(s.ctx, types.NamespacedName{Name: r.Status.History[0].Action}, s.action); err != nil {
				s.b.Fatal(err)
			}
			return
		}
	}
	s.b.Fatal("no remediation has ended")
}

// remember gives each node a history of ended remediations, with an action each. It writes
// them to where the API server keeps them: hundreds of thousands of requests would take it many
// minutes.
func (s *scene) remember(each int) {
	if each == 0 {
		return
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{s.etcd}, DialTimeout: 10 * time.Second})
	if err != nil {
		s.b.Fatal(err)
	}
	defer func() { _ = etcd.Close() }()
	var nodes corev1.NodeList
	if err := s.client.List(s.ctx, &nodes); err != nil {
		s.b.Fatal(err)
	}
	var puts []clientv3.Op
	put := func(resource string, object client.Object) {
		data, err := json.Marshal(object)
		if err != nil {
			s.b.Fatal(err)
		}
		puts = append(puts, clientv3.OpPut(fmt.Sprintf("/registry/%s/%s/%s", v1alpha1.GroupVersion.Group, resource, object.GetName()), string(data)))
	}
	for i := range nodes.Items {
		for nth := range each {
			r, a := s.remediation.DeepCopy(), s.action.DeepCopy()
			r.Name, r.UID, r.ResourceVersion = fmt.Sprintf("%s-%016x", nodes.Items[i].Name, nth), types.UID(fmt.Sprintf("%08x-0000-0000-0000-%012x", i, nth)), ""
			r.Spec.NodeName, r.Spec.NodeUID = nodes.Items[i].Name, nodes.Items[i].UID
			r.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Remediation"))
			// One a day, so that no limit of the policy holds the next one.
			ended := metav1.NewTime(time.Now().Add(-time.Duration(nth+2) * 24 * time.Hour).Truncate(time.Second))
			r.CreationTimestamp, r.Status.EndTime, r.Status.History[0].FinishedAt = ended, &ended, ended
			a.Name, a.UID, a.ResourceVersion = fmt.Sprintf("%s-000000-1", r.Name), types.UID("a"+string(r.UID[1:])), ""
			a.Spec.NodeName, a.Spec.NodeUID, a.Spec.Remediation, a.Spec.RemediationUID = r.Spec.NodeName, r.Spec.NodeUID, r.Name, r.UID
			a.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeAction"))
			for j := range a.OwnerReferences {
				a.OwnerReferences[j].Name, a.OwnerReferences[j].UID = r.Name, r.UID
			}
			r.Status.History[0].Action = a.Name
			put("remediations", r)
			put("nodeactions", a)
		}
		if len(puts) > 100 || i == len(nodes.Items)-1 { // etcd takes 128 in a transaction
			if _, err := etcd.Txn(s.ctx).Then(puts...).Commit(); err != nil {
				s.b.Fatal(err)
			}
			puts = nil
		}
	}
}
