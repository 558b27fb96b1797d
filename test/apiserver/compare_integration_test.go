//go:build integration

package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/apiserver"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: deploy.CRDs, ExtraArgs: map[string][]string{
		"kube-apiserver": {"--disable-admission-plugins=" + strings.Join(foreign, ",")},
	}}))
}

// foreign are the admission plugins that are not simulated, since they change objects for
// controllers that do not run, either.
var foreign = []string{"TaintNodesByCondition", "ServiceAccount", "Priority", "DefaultTolerationSeconds", "PodTopologyLabels"}

func TestTheSimulationAnswersAsTheRealAPIServerDoes(t *testing.T) {
	c := clustertest.Shared(t)
	grant(t, c.Config)
	awaitWatches(t, c.Config)
	trueServer := realServer(t, c.Config)
	definitions, err := apiserver.Define(deploy.CRDs)
	if err != nil {
		t.Fatal(err)
	}
	policies := installPolicies(t, c.Config)
	for name, steps := range readScripts(t) {
		t.Run(name, func(t *testing.T) {
			s, err := apiserver.New(apiserver.Options{Definitions: definitions, Policies: policies, Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			begin(t, s)
			genuine, simulated := newServer(c.Config.Host, trueServer), newServer("http://simulated", func(u *user.DefaultInfo) http.RoundTripper { return s.Transport(u) })
			for _, st := range steps {
				compare(t, st, genuine, simulated)
			}
			clean(t, c.Config)
		})
	}
}

// grant lets those who are not administrators do all that admission does not refuse.
func grant(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "testers"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "testers"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitWatches returns when the real API server serves watches of our kinds, too.
func awaitWatches(t *testing.T, config *rest.Config) {
	t.Helper()
	admin := newServer(config.Host, realServer(t, config))
	for _, resource := range []string{"remedypolicies", "remediationbudgets", "remediations", "nodeactions", "nodemaintenances", "nodemendremediations", "nodemendremediationtemplates"} {
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
			return admin.do(t, &step{method: "GET", target: resource + "?watch=true&timeoutSeconds=1"}).code == http.StatusOK, nil
		})
		if err != nil {
			t.Fatalf("watching %s: %v", resource, err)
		}
	}
}

// installPolicies creates the chart's ValidatingAdmissionPolicies, waits until they are
// applied, and returns them compiled.
func installPolicies(t *testing.T, config *rest.Config) *apiserver.Policies {
	t.Helper()
	manifests, err := os.ReadFile("../../deploy/install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	admin := newServer(config.Host, realServer(t, config))
	for _, document := range strings.Split(string(manifests), "\n---\n") {
		for kind, resource := range map[string]string{
			"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
		} {
			if !strings.Contains(document, "\nkind: "+kind+"\n") {
				continue
			}
			answer := admin.do(t, &step{method: "POST", target: "/apis/admissionregistration.k8s.io/v1/" + resource, body: document})
			if answer.code != http.StatusCreated {
				t.Fatalf("creating a %s: %s", kind, answer.body)
			}
		}
	}
	// Each has a request that it refuses.
	action := `{apiVersion: nodemend.dev/v1alpha1, kind: NodeAction, metadata: {name: probe}, spec: {nodeName: a, nodeUID: u, remediation: r,
remediationUID: ru, policy: {name: p, uid: pu}, stepHash: "` + strings.Repeat("a", 64) + `", step: 1, attempt: 1, expiresAt: "2020-01-01T00:10:00Z"}}`
	admin.do(t, &step{method: "POST", target: "nodeactions", body: action})
	admin.do(t, &step{method: "POST", target: "nodes", body: "metadata: {name: probe}"})
	for _, probe := range []*step{
		{method: "DELETE", target: "nodeactions/probe?dryRun=All", user: "jane"},
		{method: "MERGE", target: "nodeactions/probe/status?dryRun=All", user: "runner", body: "status: {conditions: []}"},
		{method: "MERGE", target: "nodeactions/probe/status?dryRun=All", user: "controller", body: `status: {claim: {runnerID: x, bootID: b, time: "2020-01-01T00:00:00Z", remedy: command}}`},
		{method: "MERGE", target: "nodes/probe?dryRun=All", user: "controller", body: "metadata: {labels: {a: b}}"},
		{method: "STRATEGIC", target: "nodes/probe/status?dryRun=All", user: "detector", body: "status: {phase: Running}"},
		{method: "POST", target: "events?dryRun=All", user: "detector", body: "{metadata: {name: probe}, involvedObject: {}}"},
	} {
		var answer reply
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
			answer = admin.do(t, probe)
			return strings.Contains(string(answer.body), "ValidatingAdmissionPolicy"), nil
		})
		if err != nil {
			t.Fatalf("awaiting the refusal of %s: %v: %s", probe, err, answer.body)
		}
	}
	clean(t, config)
	policies, err := apiserver.DefinePolicies(manifests)
	if err != nil {
		t.Fatal(err)
	}
	return policies
}

// realServer returns what carries a user's requests to the real API server.
func realServer(t *testing.T, config *rest.Config) func(*user.DefaultInfo) http.RoundTripper {
	t.Helper()
	return func(u *user.DefaultInfo) http.RoundTripper {
		config := rest.CopyConfig(config)
		config.Impersonate = rest.ImpersonationConfig{UserName: u.Name, Groups: u.Groups, Extra: u.Extra}
		transport, err := rest.TransportFor(config)
		if err != nil {
			t.Fatal(err)
		}
		return transport
	}
}

// compare plays a step against both servers.
func compare(t *testing.T, st *step, genuine, simulated *server) {
	t.Helper()
	switch st.method {
	case "WATCH":
		genuine.watch(t, st)
		simulated.watch(t, st)
		return
	case "EVENTS":
		report(t, st, genuine.await(t, st), simulated.await(t, st))
		return
	}
	want, got := genuine.do(t, st), simulated.do(t, st)
	if st.code != want.code {
		t.Errorf("%s: the real API server answers %d, not %d: %s", st, want.code, st.code, want.body)
	}
	report(t, st, genuine.summary(want), simulated.summary(got))
}

// summary is what is compared of an answer.
func (s *server) summary(r reply) any {
	summary := map[string]any{"code": r.code, "body": s.renaming.canonical("", decode(r.body))}
	for _, name := range []string{"Content-Type", "Retry-After", "Warning"} {
		if value := r.header.Get(name); value != "" {
			summary[name] = value
		}
	}
	return summary
}

// report fails for each difference that is not a known one.
func report(t *testing.T, st *step, want, got any) {
	t.Helper()
	w, g := lines("", want), lines("", got)
	unexpected := func(all, others []string) (rest []string) {
		for _, line := range all {
			if !slices.Contains(others, line) && !known(st, line) {
				rest = append(rest, line)
			}
		}
		return rest
	}
	if w, g := unexpected(w, g), unexpected(g, w); len(w)+len(g) > 0 {
		t.Errorf("%s\n- real: %s\n+ simulated: %s", st, strings.Join(w, "\n- "), strings.Join(g, "\n+ "))
	}
}

// clean removes what a script has left behind.
func clean(t *testing.T, config *rest.Config) {
	t.Helper()
	admin := newServer(config.Host, realServer(t, config))
	for _, resource := range []string{
		"nodes", "pods", "leases", "events", "poddisruptionbudgets",
		"remedypolicies", "remediationbudgets", "remediations", "nodeactions", "nodemaintenances", "nodemendremediations", "nodemendremediationtemplates",
	} {
		list, _ := decode(admin.do(t, &step{method: "GET", target: resource}).body).(map[string]any)
		items, _ := list["items"].([]any)
		for _, item := range items {
			path := fmt.Sprintf("%s/%s", resource, item.(map[string]any)["metadata"].(map[string]any)["name"])
			admin.do(t, &step{method: "MERGE", target: path, body: "metadata: {finalizers: null}"})
			admin.do(t, &step{method: "DELETE", target: path + "?gracePeriodSeconds=0"})
		}
	}
}
