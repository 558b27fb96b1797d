package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// nodeName returns the flag's value, or else the environment variable
// NODE_NAME, or else the host name in lower case, which is the name that the
// kubelet registers unless it is told another one.
func nodeName(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if name := os.Getenv("NODE_NAME"); name != "" {
		return name, nil
	}
	hostname, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("finding the node's name: %w; give it with --node-name or NODE_NAME", err)
	}
	return strings.ToLower(hostname), nil
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
