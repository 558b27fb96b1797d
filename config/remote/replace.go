package remote

import "k8s.io/apimachinery/pkg/util/validation"

// Replace says which machines steps replace may have deleted. What is left out may not.
type Replace struct {
	// ClusterAPI allows Machines of one Cluster.
	ClusterAPI *ClusterAPI `yaml:"clusterAPI"`
	// Karpenter allows NodeClaims of this cluster.
	Karpenter bool `yaml:"karpenter"`
}

// ClusterAPI names the Cluster that this cluster is, as Cluster API knows it.
type ClusterAPI struct {
	// Namespace and Cluster name it.
	Namespace string `yaml:"namespace"`
	Cluster   string `yaml:"cluster"`
	// Kubeconfig is that of the management cluster; "": this cluster is it.
	Kubeconfig string `yaml:"kubeconfig"`
}

func (r *Replace) problems(p problems) {
	if r.ClusterAPI == nil && !r.Karpenter {
		p.add("allows nothing: accepted are clusterAPI and karpenter: true. Leave it out, if no machine may be replaced")
	}
	c := r.ClusterAPI
	if c == nil {
		return
	}
	p = p.in("clusterAPI")
	if len(validation.IsDNS1123Label(c.Namespace)) > 0 {
		p.in("namespace").add("%q is no namespace: accepted is that of the Cluster which this cluster is", c.Namespace)
	}
	if len(validation.IsDNS1123Subdomain(c.Cluster)) > 0 {
		p.in("cluster").add("%q is no name of a Cluster: accepted is that of the one which this cluster is", c.Cluster)
	}
	p.file(c.Kubeconfig, false, "kubeconfig")
}
