package controller

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// kinds is the path of our kinds.
var kinds = "/apis/" + v1alpha1.GroupVersion.String() + "/"

// served makes an error of its own of the answer that an API server gives for one of our kinds
// that it does not serve, since its CRD is missing. That is a 404 as well as the answer for an
// object that does not exist, and a remediation must not end since everything seems to be gone.
type served struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s served) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusNotFound || !strings.HasPrefix(request.URL.Path, kinds) ||
		!strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain") { // of an object it has a Status
		return response, err
	}
	_ = response.Body.Close()
	return unserved(response, strings.Split(strings.TrimPrefix(request.URL.Path, kinds), "/")[0])
}

func unserved(response *http.Response, resource string) (*http.Response, error) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
		Message: fmt.Sprintf("the API server does not serve %s.%s: install the CRDs of this version of Nodemend", resource, v1alpha1.GroupVersion.Group),
	})
	if err != nil {
		return nil, err
	}
	response.StatusCode, response.Status = http.StatusServiceUnavailable, http.StatusText(http.StatusServiceUnavailable)
	response.Header.Set("Content-Type", "application/json")
	response.Header.Del("Content-Length")
	response.ContentLength, response.Body = int64(len(body)), io.NopCloser(bytes.NewReader(body))
	return response, nil
}
