//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// sceneLabel has the name of the scene that an object belongs to.
const sceneLabel = "scene"

// newSceneApart creates a scene whose controllers see only its own objects, so that
// it can play at the same time as others of its kind.
func newSceneApart(t *testing.T, name string, nodes int, maxConcurrent string) *scene {
	t.Helper()
	s := newScene(t, name, nodes, maxConcurrent)
	s.mine = s.labels()
	s.cfg = rest.CopyConfig(s.cfg)
	s.cfg.Wrap(s.apart)
	return s
}

// collections are those that a controller lists and watches.
var collections = regexp.MustCompile(`^(/api/v1/nodes|/apis/nodemend\.dev/[^/]+/[^/]+)$`)

// apart is a transport that lists and watches the objects of the scene alone, and
// labels what it creates as one of them.
func (s *scene) apart(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if !collections.MatchString(req.URL.Path) {
			return next.RoundTrip(req)
		}
		req = req.Clone(req.Context())
		if req.Method != http.MethodPost {
			query := req.URL.Query()
			query.Set("labelSelector", sceneLabel+"="+s.name)
			req.URL.RawQuery = query.Encode()
			return next.RoundTrip(req)
		}
		defer func() { _ = req.Body.Close() }()
		var obj unstructured.Unstructured
		if err := json.NewDecoder(req.Body).Decode(&obj.Object); err != nil {
			return nil, err
		}
		obj.SetLabels(s.labels())
		body, err := json.Marshal(obj.Object)
		if err != nil {
			return nil, err
		}
		labelled := req.Clone(req.Context())
		labelled.Body, labelled.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		labelled.GetBody = nil
		return next.RoundTrip(labelled)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
