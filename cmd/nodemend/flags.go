package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// nodeName returns the flag's value, or else the environment variable
// NODE_NAME, or else the host name in lower case, which is the name that the
// kubelet registers unless it is told another one. It refuses what no Node can be named.
func nodeName(flag string) (name string, err error) {
	from := "--node-name"
	if name = flag; name == "" {
		name, from = os.Getenv("NODE_NAME"), "NODE_NAME"
	}
	if name == "" {
		from = "the host name"
		if name, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("finding the node's name: %w; give it with --node-name or NODE_NAME", err)
		}
		name = strings.ToLower(name)
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", usageError{fmt.Errorf("no Node can have the name %q (%s): accepted are lower-case letters, digits, - and ., "+
			"beginning and ending with one of the first two, 253 at the most; give it with --node-name or NODE_NAME", name, from)}
	}
	return name, nil
}

// restConfig says how to reach the API server: by the given kubeconfig file,
// or else by those in KUBECONFIG or ~/.kube/config, or else by the service
// account of the pod. Requests carry the role's name in their User-Agent.
func restConfig(kubeconfig, role string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding out how to reach the API server: %w; give a file with --kubeconfig or KUBECONFIG, or run as a pod with a service account", err)
	}
	return rest.AddUserAgent(cfg, "nodemend-"+role), nil
}

func nodeNameFlag(flags *pflag.FlagSet, name *string) {
	flags.StringVar(name, "node-name", "",
		"name of this node's Node object (default: $NODE_NAME, then the host name in lower case)")
}

func kubeconfigFlag(flags *pflag.FlagSet, file *string) {
	flags.StringVar(file, "kubeconfig", "",
		"kubeconfig `file` to reach the API server (default: $KUBECONFIG, then ~/.kube/config, then the pod's service account)")
}

func addressFlags(flags *pflag.FlagSet, metrics, health *string) {
	flags.StringVar(metrics, "metrics-address", "",
		"TCP `address` to serve /metrics on, for example :9102 (default: not served)")
	flags.StringVar(health, "health-address", "",
		"TCP `address` to serve /healthz and /readyz on, for example :9103 (default: not served)")
}
