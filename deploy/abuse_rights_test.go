//go:build integration

package deploy_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// right is what each token may ask of a kind, as far as its roles go: verbs, or nothing. All
// other verbs are refused to it, and everything to a token that is not one of ours. What
// admission refuses besides is in the rows of abuse_*_test.go.
type right struct {
	on                                                        string
	runner, remote, detector, outside, controller, view, edit string
	why                                                       string
}

const (
	reads  = "get list watch"
	nobody = ""
)

var rights = []right{
	{"remedypolicies", "get", "get", nobody, nobody, reads, reads, nobody, "a policy names commands that run as root: no account of ours and no role writes one"},
	{"remedypolicies/status", nobody, nobody, nobody, nobody, "patch", nobody, nobody, "the controller says whether the policy can act"},
	{"remediationbudgets", nobody, "get list", nobody, nobody, reads, reads, "create patch delete", "people decide how much happens at once, and the remote runner asks what holds a node"},
	{"remediationbudgets/status", nobody, nobody, nobody, nobody, "patch", nobody, nobody, "the controller gives permits"},
	{"remediations", "get", "get", nobody, nobody, "get list watch create patch delete", reads, "create patch delete", "runners ask whether their action is announced; people approve and cancel"},
	{"remediations/status", nobody, nobody, nobody, nobody, "patch", nobody, nobody, "the controller keeps the history, nobody rewrites it"},
	{"nodeactions", reads, reads, nobody, nobody, "get list watch create patch delete", reads, nobody, "the controller orders, and runners look for what is ordered; RBAC can't narrow it to a node"},
	{"nodeactions/status", "update", "update", nobody, nobody, "patch", nobody, nobody, "runners claim and report, the controller cancels"},
	{"nodemaintenances", nobody, "list watch", nobody, nobody, "get list watch create patch delete", reads, "create patch delete", "people and the controller take nodes out of service, which the remote runner respects, and it switches light and power as they say"},
	{"nodemendremediations", "get", "get", nobody, nobody, "get list watch patch", reads, nobody, "other programs ask, the controller holds what they ask for by its finalizer, and runners ask whether it stands"},
	{"nodemendremediations/status", nobody, nobody, nobody, nobody, "patch", nobody, nobody, "the controller says what became of it"},
	{"nodemendremediationtemplates", nobody, nobody, nobody, nobody, nobody, reads, nobody, "for those who drive us"},
	{"nodemaintenances/status", nobody, "update", nobody, nobody, "patch", nobody, nobody, "the controller says how far it is, and the remote runner what became of light and power"},

	{"nodes", "get", reads, "get", reads, "get list watch patch", reads, nobody, "the controller cordons; agents look at their own node, and the remote runner at whose machine it switches: RBAC can't narrow that; the remote detector looks at all"},
	{"nodes/status", nobody, "patch", "patch", "patch", nobody, nobody, nobody, "detectors write conditions, and the remote runner whether a node can be fenced"},
	{"nodes/metrics", nobody, nobody, "get", nobody, nobody, nobody, nobody, "the check pleg asks the kubelet, which asks for this right"},
	{"nodes/healthz", nobody, nobody, "get", nobody, nobody, nobody, nobody, "the check kubelet asks the kubelet, which asks for this right"},
	{"nodes/proxy", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "by it commands are run in every pod of the node"},
	{"nodes/log", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "logs of the host"},
	{"nodes/configz", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "the configuration of the kubelet"},

	{"default:pods", nobody, nobody, nobody, nobody, "list", reads, nobody, "the controller looks for what is to be evicted"},
	{"pods", nobody, nobody, nobody, nobody, "list", reads, nobody, "in all namespaces as in one"},
	{"kube-system:pods/eviction", nobody, nobody, nobody, nobody, "create", nobody, nobody, "the controller drains"},
	{"kube-system:pods/status", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "no kubelet is among our accounts"},
	{"kube-system:pods/binding", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "no scheduler is among our accounts"},
	{"kube-system:pods/exec", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "no command runs in somebody's pod"},
	{"kube-system:pods/attach", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "as exec"},
	{"kube-system:pods/portforward", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "as exec"},
	{"kube-system:pods/proxy", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "as exec"},
	{"kube-system:pods/log", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "logs hold secrets"},
	{"kube-system:pods/ephemeralcontainers", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "as exec"},
	{"kube-system:pods/resize", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "not ours"},
	{"kube-system:services/proxy", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "no way into the cluster's network"},
	{"kube-system:secrets", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "no account of ours needs one"},
	{"nodemend-system:secrets", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "not even in the own namespace"},
	{"nodemend-system:configmaps", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "the kubelet mounts what pods need"},
	{"nodemend-system:serviceaccounts", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "accounts are for who installs"},
	{"nodemend-system:serviceaccounts/token", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "a token of another role would be the other role"},
	{"nodemend-system:daemonsets", nobody, nobody, nobody, nobody, "list", "list", nobody, "kured has its lock on one; who changes the runner's image is root everywhere"},
	{"nodemend-system:deployments", nobody, nobody, nobody, nobody, nobody, "list", nobody, "who changes the controller's image is the controller"},
	{"nodemend-system:deployments/scale", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "none can be the end of all healing"},
	{"default:events", "create patch", "create patch", "create patch", nobody, nobody, nobody, nobody, "events about nodes are in the namespace default"},
	{"default:new events", nobody, nobody, nobody, nobody, "create patch", nobody, nobody, "so are those about remediations"},
	{"nodemend-system:events", nobody, nobody, nobody, nobody, "create patch", nobody, nobody, "those of the leader election"},
	{"kube-system:events", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "what happens elsewhere is for others to say"},
	{"kube-node-lease:leases", nobody, "get", nobody, nobody, "get", "get", nobody, "the heartbeats of kubelets, which the remote runner asks before it cuts power: nobody of ours can play a kubelet"},
	{"nodemend-system:leases", nobody, "create", nobody, "create", "get create", "get", nobody, "a create can't be narrowed to a name"},
	{"kube-system:leases", nobody, nobody, nobody, nobody, "get", "get", nobody, "whom medik8s lets have a node is in a namespace that may not exist; leaders of other programs are for themselves"},
	{"default:machines", nobody, nobody, nobody, nobody, "get", "get", nobody, "whether Cluster API has the node: nothing of ours replaces a machine"},
	{"nodeclaims", nobody, nobody, nobody, nobody, "get", "get", nobody, "whether Karpenter has the node"},
	{"clusterversions", nobody, nobody, nobody, nobody, "get", "get", nobody, "whether OpenShift is being upgraded"},
	{"default:poddisruptionbudgets", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "who deletes them drains past them"},

	{"clusterroles", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "nobody gives himself rights"},
	{"clusterrolebindings", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "nobody gives himself rights"},
	{"nodemend-system:rolebindings", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "nobody gives himself rights"},
	{"customresourcedefinitions", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "their rules are what binds us"},
	{"validatingadmissionpolicies", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "they are what binds us"},
	{"validatingadmissionpolicybindings", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "they are what binds us"},
	{"mutatingwebhookconfigurations", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "a webhook changes everybody's requests"},
	{"certificatesigningrequests", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "a certificate is an account"},
	{"namespaces", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "deleted with all in it"},
	{"volumeattachments", nobody, nobody, nobody, nobody, nobody, "list", nobody, "what of a node that is out of service is not freed; the controller asks with remoteRunner.outOfService or controller.personsWord, which are not on here"},
	{"persistentvolumes", nobody, nobody, nobody, nobody, nobody, nobody, nobody, "volumes of type hostPath reach all nodes"},
}

// may returns the verbs of a token.
func (r *right) may(who string) []string {
	switch who {
	case "runner":
		return strings.Fields(r.runner)
	case "remote runner":
		return strings.Fields(r.remote)
	case "detector":
		return strings.Fields(r.detector)
	case "remote detector":
		return strings.Fields(r.outside)
	case "controller":
		return strings.Fields(r.controller)
	case "view":
		return strings.Fields(r.view)
	case "edit":
		return strings.Fields(r.edit)
	default:
		return nil
	}
}

// rows returns a request for each verb and each token, about an object that does not exist.
func (r *right) rows() (all []row) {
	tokens := []string{"runner", "remote runner", "detector", "remote detector", "controller", "view", "edit", "anonymous"}
	if groups[r.on] == "nodemend.dev/v1alpha1" {
		tokens = append(tokens, "kubelet") // has rights of its own to the kinds of Kubernetes
	}
	object, sub, isSub := strings.Cut(r.on, "/")
	verbs := map[string]string{"get": "/none", "update": "/none", "merge patch": "/none", "delete": "/none"}
	switch {
	case isSub:
		sub = "/" + sub
		verbs["create"] = "/none"
	case object == "pods": // in all namespaces
		verbs = map[string]string{"list": "", "watch": ""}
	default:
		verbs["list"], verbs["watch"], verbs["create"], verbs["deletecollection"] = "", "", "", ""
	}
	for _, verb := range []string{"get", "list", "watch", "create", "update", "merge patch", "delete", "deletecollection"} {
		name, asked := verbs[verb]
		if !asked {
			continue
		}
		for _, who := range tokens {
			want := rbac
			if slices.Contains(r.may(who), strings.TrimPrefix(verb, "merge ")) {
				want = permitted
			}
			body := ""
			if slices.Contains([]string{"create", "update", "merge patch"}, verb) {
				body = "{}"
			}
			all = append(all, row{who, verb, object + name + sub, body, want, r.why})
		}
	}
	return all
}

func TestEveryTokenHasTheRightsOfItsRoleAndNoOther(t *testing.T) {
	var rows []row
	for i := range rights {
		rows = append(rows, rights[i].rows()...)
	}
	s := newScene(t)
	tokens := s.tokens()
	tokens["remote runner"], tokens["remote detector"] = s.remoteRunner(), s.remoteDetector()
	s.tryAll(t, tokens, rows)
}

// tokens returns a config for everybody whom the tables name.
func (s *scene) tokens() map[string]*rest.Config {
	s.Helper()
	unbound := s.bound("runner", nil)
	forged := rest.CopyConfig(unbound)
	forged.BearerToken += "x"
	return map[string]*rest.Config{
		"runner":           s.account("runner", s.a),
		"runner of b":      s.account("runner", s.b),
		"unbound runner":   unbound,
		"forged runner":    forged,
		"detector":         s.account("detector", s.a),
		"unbound detector": s.bound("detector", nil),
		"controller":       s.account("controller", s.b),
		"view":             s.person("view"),
		"edit":             s.person("edit"),
		"kubelet":          s.kubelet(s.a),
		"anonymous":        rest.AnonymousClientConfig(s.cfg),
	}
}
