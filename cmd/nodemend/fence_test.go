//go:build !agent

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/internal/power/proof"
	"github.com/nodemend/nodemend/test/openstack"
	"github.com/nodemend/nodemend/test/redfish"
)

// fenced is a cluster of nodes whose machines a Redfish service has.
type fenced struct {
	service            *redfish.Service
	cloud              *openstack.Cloud
	config, kubeconfig string
}

const (
	goodUUID  = "4c4c4544-0032-3810-8052-b4c04f4a5731"
	liesUUID  = "4c4c4544-0044-4a10-8031-c4c04f4b4832"
	downUUID  = "4c4c4544-0051-4a10-8031-c4c04f4b4832"
	twiceUUID = "4c4c4544-0088-4a10-8031-c4c04f4b4832"
	stopsUUID = "4c4c4544-0077-4a10-8031-c4c04f4b4832"
	edgeUUID  = "4c4c4544-0066-4a10-8031-c4c04f4b4832"
	otherUUID = "4c4c4544-0099-4a10-8031-c4c04f4b4832"
	metalUUID = "4c4c4544-00aa-4a10-8031-c4c04f4b4832"
	vmUUID    = "b5a4a0c4-4f6e-4d05-9a3c-0d2f7a1b0001"
	hungUUID  = "b5a4a0c4-4f6e-4d05-9a3c-0d2f7a1b0002"
)

// hosts are what an API server with Metal3 answers, by the path that is asked.
var hosts = map[string]string{
	"/api":                     `{"kind":"APIVersions","versions":["v1"]}`,
	"/apis":                    `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"metal3.io","versions":[{"groupVersion":"metal3.io/v1alpha1","version":"v1alpha1"}]}]}`,
	"/apis/metal3.io/v1alpha1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"metal3.io/v1alpha1","resources":[{"name":"baremetalhosts","singularName":"baremetalhost","namespaced":true,"kind":"BareMetalHost","verbs":["get","patch"]}]}`,
	"/apis/metal3.io/v1alpha1/namespaces/hosts/baremetalhosts/bmh-7": `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"namespace":"hosts","name":"bmh-7","annotations":{"nodemend.dev/system-uuid":"` + metalUUID + `"}},
		"spec":{"online":true},"status":{"poweredOn":true,"operationalStatus":"OK","provisioning":{"state":"provisioned"}}}`,
}

func newFenced(t *testing.T) fenced {
	t.Helper()
	nodes := map[string]corev1.Node{}
	add := func(name, uuid string, ready corev1.ConditionStatus) {
		nodes[name] = corev1.Node{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: corev1.NodeStatus{
				NodeInfo: corev1.NodeSystemInfo{SystemUUID: uuid}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
			},
		}
	}
	add("worker-1", goodUUID, corev1.ConditionTrue)
	add("worker-2", liesUUID, corev1.ConditionTrue)
	add("worker-3", downUUID, corev1.ConditionUnknown)
	add("worker-4", otherUUID, corev1.ConditionTrue)
	add("worker-5", "00000000-0000-0000-0000-000000000000", corev1.ConditionTrue)
	add("worker-6", twiceUUID, corev1.ConditionTrue)
	add("worker-7", "44454c4c-8800-104a-8031-c4c04f4b4832", corev1.ConditionUnknown) // the same, in SMBIOS' order
	add("worker-8", stopsUUID, corev1.ConditionTrue)
	add("edge-1", edgeUUID, corev1.ConditionTrue)
	add("metal-1", metalUUID, corev1.ConditionTrue)
	add("vm-1", vmUUID, corev1.ConditionTrue)
	add("vm-2", hungUUID, corev1.ConditionUnknown)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		node, found := nodes[strings.TrimPrefix(r.URL.Path, "/api/v1/nodes/")]
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodGet && hosts[r.URL.Path] != "":
			_, _ = io.WriteString(w, hosts[r.URL.Path])
		case r.Method == http.MethodGet && r.URL.Path == "/api/v1/nodes":
			// A page each.
			names := slices.Sorted(maps.Keys(nodes))
			at, _ := strconv.Atoi(r.URL.Query().Get("continue"))
			list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []corev1.Node{nodes[names[at]]}}
			if at+1 < len(names) {
				list.Continue = strconv.Itoa(at + 1)
			}
			_ = json.NewEncoder(w).Encode(list)
		case r.Method == http.MethodGet && found:
			if node.Name == "worker-8" { // its kubelet has said nothing meanwhile
				node.Status.Conditions = nil
			}
			_ = json.NewEncoder(w).Encode(node)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(api.Close)

	f := fenced{service: redfish.Start(t,
		&redfish.System{UUID: goodUUID, Power: "On"}, &redfish.System{UUID: liesUUID, Power: "Off"}, &redfish.System{UUID: downUUID, Power: "Off"},
		&redfish.System{UUID: twiceUUID, Power: "On"}, &redfish.System{UUID: stopsUUID, Power: "Off"})}
	suspended := openstack.Active(hungUUID, "vm-2")
	suspended.Status, suspended.VMState = "SUSPENDED", "suspended"
	f.cloud = openstack.Start(t, openstack.Active(vmUUID, "vm-1"), suspended)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f.config = write("remote.yaml", fmt.Sprintf(`switches:
- nodes: {names: [worker-*]}
  redfish: {url: %q, user: %s, passwordFile: %s, caFile: %s,
    systems: {worker-1: "1", worker-2: "2", worker-3: "3", worker-4: "1", worker-5: "1", worker-6: "4", worker-7: "4", worker-8: "5"}}
- nodes: {names: [metal-1]}
  metal3: {namespace: hosts, host: bmh-7}
- nodes: {names: [vm-*]}
  openstack: {cloudsFile: %s}
`, f.service.URL(), redfish.User, f.service.PasswordFile(), f.service.CAFile(), f.cloud.File()))
	f.kubeconfig = write("kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
		clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}]}`, api.URL))
	return f
}

func (f fenced) run(t *testing.T, args ...string) (output string, status int, text string) {
	t.Helper()
	var out strings.Builder
	status, text = runRoot(t, &out, append([]string{"fence", "check", "--kubeconfig", f.kubeconfig, "--config", f.config}, args...)...)
	return out.String(), status, text
}

func TestFenceCheckSaysOfEachNodeWhetherItCanBeFenced(t *testing.T) {
	f := newFenced(t)
	output, status, text := f.run(t, "worker-1", "worker-3")
	want := fmt.Sprintf("NODE      FENCEABLE  POWER  SWITCH%s  WHY NOT\nworker-1  yes        On     %[2]s  \nworker-3  yes        Off    %[2]s  \n",
		strings.Repeat(" ", len(f.service.URL())-len("SWITCH")), f.service.URL())
	if status != 0 || output != want {
		t.Errorf("exit status %d (%s), printed\n%s\nwant\n%s", status, text, output, want)
	}
	output, status, text = f.run(t, "worker-1", "worker-2", "worker-4", "worker-5", "edge-1", "worker-6", "worker-7", "worker-8", "-o", "json")
	var got []fenceable
	if err := json.Unmarshal([]byte(output), &got); err != nil || len(got) != 8 {
		t.Fatalf("%v: %s", err, output)
	}
	for i, want := range []string{
		"", "the node is Ready, and its power is read Off", "it switches another machine", "its systemUUID", "no entry names it",
		"node worker-7 has the systemUUID 44454c4c-8800-104a-8031-c4c04f4b4832, too", "node worker-6 has the systemUUID " + twiceUUID + ", too", "",
	} {
		if got[i].Fenceable != (want == "") || !strings.Contains(got[i].Why, want) {
			t.Errorf("got %+v, want %q", got[i], want)
		}
	}
	if status != 1 || text != "6 of 8 nodes can't be fenced: worker-2, worker-4, worker-5, edge-1, worker-6, worker-7" {
		t.Errorf("exit status %d (%s)", status, text)
	}
	if calls := f.service.Calls(); len(calls) > 0 {
		t.Errorf("it has switched: %q", calls)
	}
}

func TestFenceCheckAsksBareMetalHostsAndServersOfOpenStack(t *testing.T) {
	f := newFenced(t)
	output, status, text := f.run(t, "metal-1", "vm-1", "vm-2")
	want := `NODE     FENCEABLE  POWER         SWITCH                      WHY NOT
metal-1  yes        On, reported  BareMetalHost hosts/bmh-7   
vm-1     yes        On            openstack://openstack/vm-1  
vm-2     no         Changing      openstack://openstack/vm-2  its power is read Changing, which is neither on nor off: nothing would be switched
`
	if status != 1 || output != want {
		t.Errorf("exit status %d (%s), printed\n%s\nwant\n%s", status, text, output, want)
	}
	if calls := f.cloud.Calls(); len(calls) > 0 {
		t.Errorf("it has switched: %q", calls)
	}
}

func TestFenceCheckThatCanNotAskExitsWithTwo(t *testing.T) {
	f := newFenced(t)
	for args, want := range map[string]string{
		"":                              "no node to check",
		"worker-1 -o xml":               `unknown output "xml"; accepted are table and json`,
		"worker-1 --timeout=0s":         "--timeout=0s is not positive",
		"worker-1 --config=":            "name remote.yaml by --config=FILE",
		"worker-1 --config=/missing":    "/missing",
		"worker-1 --kubeconfig=/absent": "/absent",
		"worker-9":                      `asking the cluster: it has no node "worker-9"`,
		"worker-1 --fast":               "unknown flag: --fast",
	} {
		if output, status, text := f.run(t, strings.Fields(args)...); status != 2 || !strings.Contains(text, want) || output != "" {
			t.Errorf("%q: exit status %d (%s), want 2 (%s)", args, status, text, want)
		}
	}
	if err := os.WriteFile(f.config, []byte("switches:\n- nodes: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, status, text := f.run(t, "worker-1"); status != 2 || !strings.Contains(text, f.config+": line 2: switches.0: has 0 of") {
		t.Errorf("exit status %d (%s)", status, text)
	}
}

// A client of Kubernetes asks what an API server serves without the time of who calls it.
func TestAnAPIServerThatNeverAnswersIsNotWaitedForWithoutEnd(t *testing.T) {
	before := &rest.Config{Host: "https://api"}
	if got := timely(before).Timeout; got <= 0 || got > proof.CallTimeout || before.Timeout != 0 {
		t.Errorf("a request may take %s, by the configuration of others %s", got, before.Timeout)
	}
}
