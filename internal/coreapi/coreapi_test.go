package coreapi

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// server answers with what it was sent, or with an empty object, and notes requests.
func server(t *testing.T) (cfg *rest.Config, requests *[]string) {
	t.Helper()
	requests = &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests = append(*requests, r.Method+" "+r.URL.String())
		if !strings.Contains(r.UserAgent(), "coreapi.test") {
			t.Errorf("the user agent is %q", r.UserAgent())
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/none") {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
			return
		}
		body, _ := io.ReadAll(r.Body)
		if len(body) == 0 {
			body = []byte(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}`)
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}, requests
}

func TestANodeIsReadFromTheCache(t *testing.T) {
	cfg, requests := server(t)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	core, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if node, err := Node(t.Context(), core, "n1"); err != nil || node.Name != "n1" {
		t.Errorf("got %v, %v", node, err)
	}
	if _, err := Node(t.Context(), core, "none"); !apierrors.IsNotFound(err) {
		t.Errorf("of a node that is not there: %v", err)
	}
	if want := []string{"GET /api/v1/nodes/n1?resourceVersion=0", "GET /api/v1/nodes/none?resourceVersion=0"}; !slices.Equal(*requests, want) {
		t.Errorf("got %q", *requests)
	}
}

func TestEventsAreWrittenToTheirNamespaces(t *testing.T) {
	cfg, requests := server(t)
	core, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	sink := Events(core)
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "kube-system"}, Reason: "Why"}
	for _, write := range []func() (*corev1.Event, error){
		func() (*corev1.Event, error) { return sink.Create(event) },
		func() (*corev1.Event, error) { return sink.Update(event) },
		func() (*corev1.Event, error) {
			return sink.Patch(event, []byte(`{"apiVersion": "v1", "kind": "Event", "reason": "Why"}`))
		},
	} {
		if got, err := write(); err != nil || got.Reason != "Why" {
			t.Errorf("got %v, %v", got, err)
		}
	}
	const all = "/api/v1/namespaces/kube-system/events"
	if want := []string{"POST " + all, "PUT " + all + "/e", "PATCH " + all + "/e"}; !slices.Equal(*requests, want) {
		t.Errorf("got %q", *requests)
	}
}
