//go:build !agent

package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	config "github.com/nodemend/nodemend/config/detector"
)

func TestTheRemoteDetectorTakesItsOwnFlagsOnly(t *testing.T) {
	taken := filepath.Join(t.TempDir(), "remote.yaml")
	write(t, taken, "alerts: {prometheus: {url: 'http://localhost:9090'}, conditions: [{type: PLEGUnhealthy, matchers: ['a=b']}]}\n")
	wrong := filepath.Join(t.TempDir(), "remote.yaml")
	write(t, wrong, "alerts: {}\n")
	for _, test := range []struct {
		args  []string
		want  string
		usage bool
	}{
		{[]string{"--remote"}, "--remote needs a configuration: name one by --config=FILE", true},
		{[]string{"--remote", "--config=x", "--port=1"}, "--port: for the detector of a node, not for --remote", true},
		{[]string{"--once", "--health-address=:1"}, "--health-address, --once: with --remote only", true},
		{[]string{"--remote", "--config=" + wrong}, "there is nothing to do", false},
		{[]string{"--remote", "--config=" + taken}, "PLEGUnhealthy belongs to the check pleg, which the detectors of nodes run", false},
		{[]string{"--remote", "--config=/does/not/exist"}, "no such file", false},
	} {
		cmd := newRootCommand(newTestLog(t, io.Discard))
		cmd.SetArgs(append([]string{"detector"}, test.args...))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		checkError(t, cmd.ExecuteContext(t.Context()), test.want, test.usage)
	}
}

// The played API server is that of its only node.
func TestALookFromOutsideIsPrinted(t *testing.T) {
	for name, tt := range map[string]struct {
		code, status int
		labels       map[string]string
		says         []string
	}{
		"well":         {http.StatusOK, 0, map[string]string{config.ControlPlaneNodes: ""}, []string{"cp-1", config.ControlPlaneEndpointUnhealthy, "healthy", "EndpointHealthy"}},
		"not well":     {http.StatusInternalServerError, 2, map[string]string{config.ControlPlaneNodes: ""}, []string{"unknown", "NoOtherEndpointHealthy", "HTTP status 500"}},
		"no such node": {http.StatusOK, 2, nil, []string{"RESULT"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.Method + " " + r.URL.Path {
				case "GET /livez":
					w.WriteHeader(tt.code)
				case "GET /api/v1/nodes":
					node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1", Labels: tt.labels}}
					node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
					w.Header().Set("Content-Type", "application/json")
					_ = json.NewEncoder(w).Encode(corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []corev1.Node{node}})
				default:
					t.Errorf("%s %s", r.Method, r.URL)
				}
			}))
			defer server.Close()
			_, port, err := net.SplitHostPort(server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			write(t, filepath.Join(dir, "kubeconfig"), fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
  clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}], users: [{name: u, user: {token: t}}]}`, server.URL, base64.StdEncoding.EncodeToString(authority)))
			write(t, filepath.Join(dir, "remote.yaml"), "controlPlaneEndpoint: {enabled: true, timeout: 30s, port: "+port+"}\n")
			var out strings.Builder
			status, text := runRoot(t, &out, "detector", "--remote", "--once", "--kubeconfig="+filepath.Join(dir, "kubeconfig"), "--config="+filepath.Join(dir, "remote.yaml"))
			if status != tt.status {
				t.Errorf("got status %d: %s", status, text)
			}
			for _, want := range tt.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("got\n%swant %s", out.String(), want)
				}
			}
		})
	}
}
