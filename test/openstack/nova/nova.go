// Package nova starts the Nova of Debian's packages, with Placement and a compute service whose
// hypervisor is Nova's own fake one, and the API of its Magnum. Keystone, Glance, Neutron, and what Magnum
// tells others, are played.
package nova

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

//go:embed serve.py
var program string

// Token is what this Nova takes for one of an administrator.
const Token = "admin:fake"

// python is that of Debian, which its packages are for.
const python = "/usr/bin/python3"

// Nova is one that serves.
type Nova struct {
	*host
	url string
}

// host has the programs of a test.
type host struct {
	t   testing.TB
	dir string
}

// has skips the test where one of these libraries is not installed.
func has(t testing.TB, libraries ...string) *host {
	t.Helper()
	for _, name := range libraries {
		if err := exec.CommandContext(t.Context(), python, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('"+name+"') is None)").Run(); err != nil {
			t.Skipf("needs %[1]s: apt-get install --no-install-recommends python3-%[1]s", name)
		}
	}
	h := &host{t: t, dir: t.TempDir()}
	h.write("serve.py", program)
	return h
}

// Start starts it, and stops it when the test ends. It skips the test where the packages are not
// installed.
func Start(t testing.TB) *Nova {
	t.Helper()
	n := &Nova{host: has(t, "nova", "placement")}
	others := httptest.NewServer(http.HandlerFunc(n.others))
	t.Cleanup(others.Close)
	placement, api := port(t), port(t)
	n.url = fmt.Sprintf("http://127.0.0.1:%d/v2.1", api)
	n.write("api-paste.ini", pipeline)
	n.write("placement.conf", fmt.Sprintf("[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = sqlite:///%s/placement.sqlite\nsync_on_startup = true\n", n.dir))
	n.write("nova.conf", fmt.Sprintf(configuration, n.dir, api, placement, others.URL))
	n.run("setup")
	n.spawn("placement", fmt.Sprint(placement))
	n.await(fmt.Sprintf("http://127.0.0.1:%d/", placement))
	n.spawn("nova")
	n.await(n.url + "/")
	n.run("discover")
	return n
}

// URL is that of the API.
func (n *Nova) URL() string { return n.url }

const configuration = `[DEFAULT]
host = fake1
compute_driver = fake.FakeDriver
enabled_apis = osapi_compute
osapi_compute_listen = 127.0.0.1
osapi_compute_listen_port = %[2]d
osapi_compute_workers = 1
transport_url = fake:/
state_path = %[1]s
my_ip = 127.0.0.1
[api]
auth_strategy = noauth2
[wsgi]
api_paste_config = %[1]s/api-paste.ini
[database]
connection = sqlite:///%[1]s/nova.sqlite
[api_database]
connection = sqlite:///%[1]s/api.sqlite
[oslo_concurrency]
lock_path = %[1]s/lock
[placement]
auth_type = none
endpoint_override = http://127.0.0.1:%[3]d
[neutron]
auth_type = none
endpoint_override = %[4]s
[glance]
api_servers = %[4]s
[filter_scheduler]
enabled_filters = ComputeFilter
[cache]
backend = oslo_cache.dict
enabled = true
[key_manager]
backend = nova.keymgr.conf_key_mgr.ConfKeyManager
`

// pipeline is of Nova's api-paste.ini what is used here.
const pipeline = `[composite:osapi_compute]
use = call:nova.api.openstack.urlmap:urlmap_factory
/v2.1: oscomputeversion_v2
/v2.1/+: openstack_compute_api_v21
[composite:openstack_compute_api_v21]
use = call:nova.api.auth:pipeline_factory_v21
noauth2 = compute_req_id faultwrap noauth2 osapi_compute_app_v21
[filter:compute_req_id]
paste.filter_factory = nova.api.compute_req_id:ComputeReqIdMiddleware.factory
[filter:faultwrap]
paste.filter_factory = nova.api.openstack:FaultWrapper.factory
[filter:noauth2]
paste.filter_factory = nova.api.openstack.auth:NoAuthMiddleware.factory
[app:osapi_compute_app_v21]
paste.app_factory = nova.api.openstack.compute:APIRouterV21.factory
[pipeline:oscomputeversion_v2]
pipeline = compute_req_id faultwrap oscomputeversionapp_v2
[app:oscomputeversionapp_v2]
paste.app_factory = nova.api.openstack.compute.versions:VersionsV2.factory
`

func port(t testing.TB) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // so that another one can take it
	return l.Addr().(*net.TCPAddr).Port
}

func (n *host) write(name, text string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *host) command(ctx context.Context, role string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, python, append([]string{filepath.Join(n.dir, "serve.py"), role, n.dir}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (n *host) run(role string) {
	n.t.Helper()
	if output, err := n.command(n.t.Context(), role).CombinedOutput(); err != nil {
		n.t.Fatalf("%s: %v\n%s", role, err, tail(output))
	}
}

func tail(output []byte) []byte { return output[max(0, len(output)-4000):] }

// spawn runs one until the test ends.
func (n *host) spawn(role string, args ...string) {
	n.t.Helper()
	log, err := os.Create(filepath.Join(n.dir, role+".log"))
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := n.command(context.WithoutCancel(n.t.Context()), role, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
		_ = log.Close()
		if n.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			n.t.Logf("the log of %s:\n%s", role, tail(text))
		}
	})
}

// patience is how long something is waited for that takes seconds on an idle machine.
const patience = 3 * time.Minute

// until asks again until it is done.
func (n *host) until(what string, done func() bool) {
	n.t.Helper()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); !done(); <-ticker.C {
		if time.Now().After(end) {
			n.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func (n *host) await(url string) {
	n.t.Helper()
	n.until(url+" answers", func() bool {
		request, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			n.t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		return response.Body.Close() == nil
	})
}

// Ask sends a request to the API, as somebody else does, and returns the answer.
func (n *Nova) Ask(method, path string, body any) (status int, answer map[string]any) {
	n.t.Helper()
	var data bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&data).Encode(body); err != nil {
			n.t.Fatal(err)
		}
	}
	request, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, &data)
	if err != nil {
		n.t.Fatal(err)
	}
	request.Header.Set("X-Auth-Token", Token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("OpenStack-API-Version", "compute 2.79")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // was only read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &answer); err != nil {
			n.t.Fatalf("%s %s: %d, %s", method, path, response.StatusCode, text)
		}
	}
	return response.StatusCode, answer
}

// image is the only one.
const image = "155d900f-4e14-4e4c-a73d-069cbf4541e6"

// Server creates a server, and returns its ID once it is active.
func (n *Nova) Server(name string) string {
	n.t.Helper()
	flavor := map[string]any{"flavor": map[string]any{"name": "small", "id": "small", "ram": 64, "vcpus": 1, "disk": 0}}
	if status, answer := n.Ask(http.MethodPost, "/flavors", flavor); status != http.StatusOK && status != http.StatusConflict {
		n.t.Fatalf("a flavor: %d, %v", status, answer)
	}
	status, answer := n.Ask(http.MethodPost, "/servers", map[string]any{"server": map[string]any{"name": name, "flavorRef": "small", "imageRef": image, "networks": "none"}})
	server, _ := answer["server"].(map[string]any)
	id, _ := server["id"].(string)
	if status != http.StatusAccepted || id == "" {
		n.t.Fatalf("a server: %d, %v", status, answer)
	}
	n.Until(id, "ACTIVE")
	return id
}

// Until waits until a server has a status, and no task.
func (n *Nova) Until(id, want string) {
	n.t.Helper()
	n.until("server "+id+" is "+want, func() bool {
		_, answer := n.Ask(http.MethodGet, "/servers/"+id, nil)
		server, _ := answer["server"].(map[string]any)
		if server["status"] == "ERROR" && want != "ERROR" {
			n.t.Fatalf("server %s: %v", id, server["fault"])
		}
		return server["status"] == want && server["OS-EXT-STS:task_state"] == nil
	})
}

// Gone waits until there is no such server.
func (n *Nova) Gone(id string) {
	n.t.Helper()
	n.until("server "+id+" is gone", func() bool {
		status, _ := n.Ask(http.MethodGet, "/servers/"+id, nil)
		return status == http.StatusNotFound
	})
}

// others is what Nova needs of Glance and Neutron.
func (n *Nova) others(w http.ResponseWriter, r *http.Request) {
	var body any
	switch path := strings.TrimSuffix(r.URL.Path, "/"); {
	case path == "/v2/images/"+image:
		body = map[string]any{
			"id": image, "name": "image", "status": "active", "disk_format": "raw", "container_format": "bare", "size": 1, "min_ram": 0, "min_disk": 0,
			"visibility": "public", "protected": false, "owner": "fake", "tags": []string{}, "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
		}
	case path == "/v2/schemas/image":
		properties := map[string]any{}
		for _, name := range strings.Fields("id name status disk_format container_format size min_ram min_disk visibility protected owner tags created_at updated_at checksum locations virtual_size direct_url file schema self os_hidden os_hash_algo os_hash_value") {
			properties[name] = map[string]any{"is_base": true}
		}
		body = map[string]any{"name": "image", "properties": properties}
	case strings.HasPrefix(path, "/v2.0/"):
		name := strings.TrimSuffix(strings.TrimPrefix(path, "/v2.0/"), ".json")
		body = map[string]any{strings.ReplaceAll(name, "-", "_"): []any{}}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // Nova is gone
}
