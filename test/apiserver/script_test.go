package apiserver_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/apiserver"
)

// A script is a file of testdata/requests. A line that is not a comment begins a request:
//
//	METHOD path [as=user] [accept=form] -> status
//
// Beside those of HTTP there are the methods MERGE, JSON, STRATEGIC and APPLY, which are
// patches. A path without a leading slash is completed: nodes/a, pods/p, remediations.
// ${uid:path} and ${rv:path} are what the last answer about that object has told, and
// ${was:path} is the version before; ${continue} is the last answer's token. The body
// follows, in YAML, up to an empty line.
//
//	WATCH name path
//	EVENTS name number
//
// begin a watch, and await its events.

// step is one request of a script.
type step struct {
	where, method, target, body string
	user, accept                string
	code                        int
}

// String is the request in a line.
func (s *step) String() string { return s.where + ": " + s.method + " " + s.target }

// readScripts returns the steps of each file by its name.
func readScripts(t testing.TB) map[string][]*step {
	t.Helper()
	files, err := filepath.Glob("testdata/requests/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts in testdata/requests: ", err)
	}
	scripts := map[string][]*step{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if scripts[name], err = parseScript(name, data); err != nil {
			t.Fatal(err)
		}
	}
	return scripts
}

func parseScript(name string, data []byte) (steps []*step, err error) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	var last *step
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		switch {
		case last != nil && line != "":
			last.body += line + "\n"
			continue
		case line == "":
			last = nil
			continue
		case strings.HasPrefix(line, "#"):
			continue
		}
		if last, err = parseStep(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		last.where = fmt.Sprintf("%s:%d", name, number)
		steps = append(steps, last)
	}
	return steps, lines.Err()
}

func parseStep(line string) (*step, error) {
	request, code, _ := strings.Cut(line, " -> ")
	words := strings.Fields(request)
	if len(words) < 2 {
		return nil, fmt.Errorf("%q: want METHOD path -> status", line)
	}
	s := &step{method: words[0], target: words[1]}
	for _, word := range words[2:] {
		key, value, ok := strings.Cut(word, "=")
		switch {
		case key == "as" && ok:
			s.user = value
		case key == "accept" && ok:
			s.accept = value
		case s.method == "WATCH" || s.method == "EVENTS":
			s.target += " " + word
		default:
			return nil, fmt.Errorf("%q: accepted after the path are as= and accept=", line)
		}
	}
	if code != "" {
		var err error
		if s.code, err = strconv.Atoi(code); err != nil {
			return nil, fmt.Errorf("%q: %q is no status", line, code)
		}
	}
	return s, nil
}

// patches are the content types of patches.
var patches = map[string]string{
	"MERGE": "application/merge-patch+json", "JSON": "application/json-patch+json",
	"STRATEGIC": "application/strategic-merge-patch+json", "APPLY": "application/apply-patch+yaml",
}

// accepts are forms of answers.
var accepts = map[string]string{
	"":         "application/json",
	"protobuf": "application/vnd.kubernetes.protobuf",
	"metadata": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
	"metalist": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
	"table":    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
	"xml":      "application/xml",
}

// complete returns the path of a resource that a script names.
func complete(path string) string {
	resource, _, _ := strings.Cut(path, "/")
	resource, _, _ = strings.Cut(resource, "?")
	switch resource {
	case "":
		return path
	case "nodes", "namespaces":
		return "/api/v1/" + path
	case "pods", "events":
		return "/api/v1/namespaces/default/" + path
	case "leases":
		return "/apis/coordination.k8s.io/v1/namespaces/default/" + path
	case "poddisruptionbudgets":
		return "/apis/policy/v1/namespaces/default/" + path
	case "nodemendremediations", "nodemendremediationtemplates":
		return "/apis/nodemend.dev/v1alpha1/namespaces/default/" + path
	default:
		return "/apis/nodemend.dev/v1alpha1/" + path
	}
}

// users are those who make requests, all with the rights of administrators.
func userNamed(name string) *user.DefaultInfo {
	account, node, _ := strings.Cut(name, "@")
	u := &user.DefaultInfo{Name: account, Groups: []string{"testers", "system:authenticated"}}
	switch account {
	case "":
		u.Name, u.Groups[0] = "admin", "system:masters"
	case "controller", "runner", "detector":
		u.Name = "system:serviceaccount:nodemend-system:nodemend-" + account
	}
	if node != "" {
		u.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
		if !strings.HasSuffix(account, "!") {
			u.Extra["authentication.kubernetes.io/pod-name"] = []string{"a-pod"}
		}
	}
	return u
}

// begin lets a simulated server be one that has run for some time.
func begin(t testing.TB, s *apiserver.Server) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://simulated/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.Transport(userNamed("")).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	s.Compact(s.Version())
}

// reply is an answer.
type reply struct {
	code   int
	header http.Header
	body   []byte
}

// server is an API server that a script is played against.
type server struct {
	// transport carries a user's requests.
	transport func(*user.DefaultInfo) http.RoundTripper
	host      string

	told     map[string]*told
	token    string
	streams  map[string]*stream
	renaming renaming
}

// told is what was last told of an object.
type told struct{ uid, version, before string }

func newServer(host string, transport func(*user.DefaultInfo) http.RoundTripper) *server {
	return &server{transport: transport, host: host, told: map[string]*told{}, streams: map[string]*stream{}, renaming: newRenaming()}
}

var reference = regexp.MustCompile(`\$\{(\w+)(?::([^}]*))?\}`)

// fill puts in what the server has told.
func (s *server) fill(text string) string {
	return reference.ReplaceAllStringFunc(text, func(match string) string {
		parts := reference.FindStringSubmatch(match)
		if parts[1] == "continue" {
			return s.token
		}
		of := s.told[complete(parts[2])]
		if of == nil {
			return "untold"
		}
		return map[string]string{"uid": of.uid, "rv": of.version, "was": of.before}[parts[1]]
	})
}

// request makes the HTTP request of a step.
func (s *server) request(t testing.TB, st *step) *http.Request {
	t.Helper()
	method, contentType := st.method, "application/json"
	if patch, ok := patches[method]; ok {
		method, contentType = http.MethodPatch, patch
	}
	var body io.Reader
	if st.body != "" {
		data, err := yaml.YAMLToJSON([]byte(s.fill(st.body)))
		if raw, ok := strings.CutPrefix(st.body, "raw "); ok {
			data, err = []byte(s.fill(raw)), nil
		}
		if err != nil {
			t.Fatalf("%s: %v", st, err)
		}
		body = bytes.NewReader(data)
	}
	path, query, _ := strings.Cut(s.fill(complete(st.target)), "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatalf("%s: %v", st, err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.host+path+"?"+values.Encode(), body)
	if err != nil {
		t.Fatalf("%s: %v", st, err)
	}
	r.Header.Set("Accept", accepts[st.accept])
	r.Header.Set("User-Agent", "script/1")
	if body != nil {
		r.Header.Set("Content-Type", contentType)
	}
	return r
}

// do sends a request and returns the answer.
func (s *server) do(t testing.TB, st *step) reply {
	t.Helper()
	response, err := s.transport(userNamed(st.user)).RoundTrip(s.request(t, st))
	if err != nil {
		t.Fatalf("%s: %v", st, err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", st, err)
	}
	s.learn(data)
	return reply{response.StatusCode, response.Header, data}
}

// The comparison with a real API server needs one; this does not.
func TestTheSimulationAnswersAsItsScriptsSay(t *testing.T) {
	definitions, err := apiserver.Define(deploy.CRDs)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := os.ReadFile("../../deploy/install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policies, err := apiserver.DefinePolicies(manifests)
	if err != nil {
		t.Fatal(err)
	}
	for name, steps := range readScripts(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := apiserver.New(apiserver.Options{Definitions: definitions, Policies: policies, Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			begin(t, s)
			simulated := newServer("http://simulated", func(u *user.DefaultInfo) http.RoundTripper { return s.Transport(u) })
			for _, st := range steps {
				switch st.method {
				case "WATCH":
					simulated.watch(t, st)
				case "EVENTS":
					simulated.await(t, st)
				default:
					if got := simulated.do(t, st); got.code != st.code {
						t.Errorf("%s: answered %d, want %d: %s", st, got.code, st.code, got.body)
					}
				}
			}
		})
	}
}
