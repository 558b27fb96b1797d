package cluster

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Connect returns a control plane that another process has started, by its
// [Cluster.Kubeconfig]. Its programs are that process's: Stop leaves them alone, and
// nothing can be added to them.
func Connect(kubeconfig string) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("connecting to the control plane of %s: %w", kubeconfig, err)
	}
	config.QPS = -1 // no limit
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the control plane of %s: %w", kubeconfig, err)
	}
	return &Cluster{Config: config, Kubeconfig: kubeconfig, client: client}, nil
}
