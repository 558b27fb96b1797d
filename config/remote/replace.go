package remote

import (
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodemend/nodemend/internal/power"
)

// Replace says which machines steps replace may have deleted. What is left out may not.
type Replace struct {
	// ClusterAPI allows Machines of one Cluster.
	ClusterAPI *ClusterAPI `yaml:"clusterAPI"`
	// Karpenter allows NodeClaims of this cluster.
	Karpenter bool `yaml:"karpenter"`
	// Magnum allows servers of one cluster of OpenStack's Magnum.
	Magnum *Magnum `yaml:"magnum"`
}

// Magnum names the cluster that this cluster is, as Magnum knows it.
type Magnum struct {
	// Cluster is its UUID.
	Cluster   string `yaml:"cluster"`
	OpenStack `yaml:",inline"`
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
	if r.ClusterAPI == nil && !r.Karpenter && r.Magnum == nil {
		p.add("allows nothing: accepted are clusterAPI, karpenter: true and magnum. Leave it out, if no machine may be replaced")
	}
	if m := r.Magnum; m != nil {
		p := p.in("magnum")
		if _, err := power.ParseUUID(m.Cluster); err != nil {
			p.in("cluster").add("%q is no UUID: accepted is that of the Magnum cluster which this cluster is", m.Cluster)
		}
		m.problems(p) // of its OpenStack
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
