//go:build integration

package deploy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// row is one line of the abuse table: a request that somebody makes with a token that the
// product hands out, and what becomes of it. Writes are dry runs, so no row disturbs another.
type row struct {
	who  string // whose token: see tokens
	verb string // see methods
	on   string // "nodes/a/status", "kube-system:secrets/any" or a path with its first slash
	body string
	want verdict
	why  string // why that is right
}

// verdict is allowed, or who has to refuse the request.
type verdict string

const (
	allowed verdict = "allowed"
	// permitted is what RBAC lets pass, whatever comes of it.
	permitted verdict = "permitted"
	// rbac is the authorization: no role gives this right.
	rbac verdict = "RBAC"
	// unauthorized is a token that the API server does not know.
	unauthorized verdict = "unauthorized"
	// invalid is what the API server lets nobody do, with its words after the colon.
	invalid verdict = "invalid: "
	// admission is a plugin of the API server's own, with its words after the colon.
	admission verdict = "admission: "
)

// by is a refusal by a ValidatingAdmissionPolicy of ours.
func by(policy string) verdict { return verdict("policy nodemend-" + policy) }

// methods are the verbs, with the HTTP method and the content type of each.
var methods = map[string][2]string{
	"get": {http.MethodGet}, "list": {http.MethodGet}, "watch": {http.MethodGet},
	"create": {http.MethodPost, "application/json"}, "update": {http.MethodPut, "application/json"},
	"delete": {http.MethodDelete, "application/json"}, "deletecollection": {http.MethodDelete, "application/json"},
	"json patch": {http.MethodPatch, "application/json-patch+json"}, "merge patch": {http.MethodPatch, "application/merge-patch+json"},
	"strategic patch": {http.MethodPatch, "application/strategic-merge-patch+json"}, "apply": {http.MethodPatch, "application/apply-patch+yaml"},
}

// groups are the API groups of what the table asks for; all others are in the core group.
var groups = map[string]string{
	"remedypolicies": "nodemend.dev/v1alpha1", "remediationbudgets": "nodemend.dev/v1alpha1", "remediations": "nodemend.dev/v1alpha1",
	"nodeactions": "nodemend.dev/v1alpha1", "nodemaintenances": "nodemend.dev/v1alpha1",
	"nodemendremediations": "nodemend.dev/v1alpha1", "nodemendremediationtemplates": "nodemend.dev/v1alpha1",
	"daemonsets": "apps/v1", "deployments": "apps/v1", "leases": "coordination.k8s.io/v1", "poddisruptionbudgets": "policy/v1",
	"roles": "rbac.authorization.k8s.io/v1", "rolebindings": "rbac.authorization.k8s.io/v1",
	"clusterroles": "rbac.authorization.k8s.io/v1", "clusterrolebindings": "rbac.authorization.k8s.io/v1",
	"customresourcedefinitions":         "apiextensions.k8s.io/v1",
	"validatingadmissionpolicies":       "admissionregistration.k8s.io/v1",
	"validatingadmissionpolicybindings": "admissionregistration.k8s.io/v1",
	"mutatingwebhookconfigurations":     "admissionregistration.k8s.io/v1",
	"certificatesigningrequests":        "certificates.k8s.io/v1",
	"tokenreviews":                      "authentication.k8s.io/v1", "selfsubjectreviews": "authentication.k8s.io/v1",
	"subjectaccessreviews": "authorization.k8s.io/v1", "selfsubjectaccessreviews": "authorization.k8s.io/v1",
	"machines": "cluster.x-k8s.io/v1beta2", "nodeclaims": "karpenter.sh/v1", "clusterversions": "config.openshift.io/v1",
	"volumeattachments": "storage.k8s.io/v1",
	"new events":        "events.k8s.io/v1", // those of core are the same objects
}

// resource returns the resource of a request, with its subresource, as RBAC names it, and its path.
func (r *row) resource() (name, path string) {
	if strings.HasPrefix(r.on, "/") {
		return "", r.on
	}
	namespace, object, namespaced := strings.Cut(r.on, ":")
	if !namespaced {
		namespace, object = "", r.on
	}
	object, query, asks := strings.Cut(object, "?")
	parts := strings.SplitN(object, "/", 3)
	path = "/api/v1"
	if group := groups[parts[0]]; group != "" {
		path = "/apis/" + group
	}
	if namespaced {
		path += "/namespaces/" + namespace
	}
	parts[0] = strings.TrimPrefix(parts[0], "new ")
	name = parts[0]
	if len(parts) == 3 {
		sub, _, _ := strings.Cut(parts[2], "/")
		name += "/" + sub
	}
	path += "/" + strings.Join(parts, "/")
	if asks {
		path += "?" + query
	}
	return name, path
}

// request makes the request of a row, and returns the status and the beginning of the answer.
func (s *scene) request(t *testing.T, client *http.Client, r *row) (status int, answer string) {
	t.Helper()
	method, known := methods[r.verb]
	if !known {
		t.Fatalf("no verb %q", r.verb)
	}
	_, path := r.resource()
	path, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	s.must(err)
	switch r.verb {
	case "get", "list":
	case "watch":
		values.Set("watch", "true")
	case "apply":
		values.Set("force", "true")
		values.Set("fieldManager", "abuse")
		fallthrough
	default:
		values.Set("dryRun", metav1.DryRunAll)
	}
	request, err := http.NewRequestWithContext(t.Context(), method[0], s.cfg.Host+path+"?"+values.Encode(), strings.NewReader(r.body))
	s.must(err)
	if r.body != "" {
		request.Header.Set("Content-Type", method[1])
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if r.verb == "watch" && response.StatusCode == http.StatusOK {
		return response.StatusCode, "" // it would last
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	s.must(err)
	return response.StatusCode, string(data)
}

// try makes the request of a row and compares what becomes of it.
func (s *scene) try(t *testing.T, client *http.Client, r *row) {
	t.Helper()
	status, answer := s.request(t, client, r)
	ok, message := status < 300, answer
	var refusal metav1.Status
	if !ok && json.Unmarshal([]byte(answer), &refusal) == nil && refusal.Message != "" {
		message = refusal.Message
	}
	kind, words, _ := strings.Cut(string(r.want), ": ")
	name, _ := r.resource()
	verb := r.verb
	if method := methods[verb][0]; method == http.MethodPatch {
		verb = "patch"
	}
	switch {
	case r.want == allowed:
	case r.want == permitted:
		ok = status != http.StatusUnauthorized && !strings.Contains(message, "cannot "+verb)
	case r.want == rbac && name == "":
		ok = status == http.StatusForbidden && strings.Contains(message, "cannot "+verb+" path")
	case r.want == rbac: // to apply what is not there is to create it
		ok = status == http.StatusForbidden && (strings.Contains(message, `cannot `+verb+` resource "`+name+`"`) ||
			r.verb == "apply" && strings.Contains(message, `cannot create resource "`+name+`"`))
	case r.want == unauthorized:
		ok = status == http.StatusUnauthorized
	case strings.HasPrefix(kind, "policy "):
		ok = status == http.StatusForbidden && strings.Contains(message, "ValidatingAdmissionPolicy '"+strings.TrimPrefix(kind, "policy ")+"'")
	case kind == "admission":
		ok = status == http.StatusForbidden && strings.Contains(message, words)
	case kind == "invalid":
		ok = status != http.StatusForbidden && status >= 400 && strings.Contains(message, words)
	default:
		t.Fatalf("no verdict %q", r.want)
	}
	if !ok {
		t.Errorf("%s: %s %s %.200s\ngot %d %.600s\nwant %s, since %s", r.who, r.verb, r.on, r.body, status, message, r.want, r.why)
	}
}

// httpClient returns a client that sends the token of a config, and an impersonation.
func httpClient(t *testing.T, cfg *rest.Config) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// tryAll makes the requests of all rows, each as a test with a name.
func (s *scene) tryAll(t *testing.T, tokens map[string]*rest.Config, rows []row) {
	t.Helper()
	clients := map[string]*http.Client{}
	for who, cfg := range tokens {
		clients[who] = httpClient(t, cfg)
	}
	for i := range rows {
		r := &rows[i]
		if clients[r.who] == nil {
			t.Fatalf("nobody is called %q, but %q are", r.who, slices.Sorted(maps.Keys(clients)))
		}
		if r.why == "" {
			t.Errorf("%s: %s %s has no reason", r.who, r.verb, r.on)
		}
		t.Run(fmt.Sprintf("%s: %s %s", r.who, r.verb, strings.ReplaceAll(r.on, "/", " ")), func(t *testing.T) { s.try(t, clients[r.who], r) })
	}
	t.Logf("%d requests", len(rows))
}
