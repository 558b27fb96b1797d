package apiserver_test

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/apiserver"
)

func TestClientsOfKubernetesWorkInABubble(t *testing.T) {
	definitions, err := apiserver.Define(deploy.CRDs)
	if err != nil {
		t.Fatal(err)
	}
	apiserver.Bubble(t, func(t *testing.T) {
		s, err := apiserver.New(apiserver.Options{Definitions: definitions, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		c, err := kubernetes.NewForConfig(&rest.Config{Host: "http://simulated", Transport: s.Transport(userNamed(""))})
		if err != nil {
			t.Fatal(err)
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b"}}}
		node, err = c.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{FieldManager: "me"})
		if err != nil {
			t.Fatal(err)
		}
		if owners := node.ManagedFields; len(owners) != 1 || owners[0].Manager != "me" {
			t.Errorf("the fields belong to %v, want me", owners)
		}
		watched, err := c.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if event := <-watched.ResultChan(); event.Type != watch.Added || event.Object.(*corev1.Node).Name != "a" {
			t.Errorf("the watch tells of %v, want that a was added", event)
		}
		watched.Stop() // a watch that does not end is found by the bubble
	})
}

func TestAnswersTellTheServersTime(t *testing.T) {
	definitions, err := apiserver.Define(deploy.CRDs)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s, err := apiserver.New(apiserver.Options{Definitions: definitions, Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://simulated/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.Transport(userNamed("")).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if got := response.Header.Get("Date"); got != at.Format(http.TimeFormat) {
		t.Errorf("Date: %s, want %s", got, at.Format(http.TimeFormat))
	}
}
