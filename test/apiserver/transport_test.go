package apiserver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/apiserver"
)

func TestClientsOfKubernetesWorkInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		definitions, err := apiserver.Define(deploy.CRDs)
		if err != nil {
			t.Fatal(err)
		}
		s, err := apiserver.New(apiserver.Options{Definitions: definitions, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		c, err := kubernetes.NewForConfig(&rest.Config{Host: "http://simulated", Transport: s.Transport(&user.DefaultInfo{Name: "admin"})})
		if err != nil {
			t.Fatal(err)
		}
		node, err := c.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b"}}}, metav1.CreateOptions{FieldManager: "me"})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(node.ManagedFields, time.Since(began))
		watched, err := c.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(<-watched.ResultChan())
		watched.Stop()
	})
}
