package cluster

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig file that connects as config does, for
// programs that are started beside the cluster. It knows the kinds of credentials
// that the configs of this package have: a bearer token and impersonation.
func WriteKubeconfig(path string, config *rest.Config) error {
	const name = "nodemend"
	err := clientcmd.WriteToFile(api.Config{
		Clusters: map[string]*api.Cluster{name: {
			Server:                   config.Host,
			CertificateAuthorityData: config.CAData,
		}},
		AuthInfos: map[string]*api.AuthInfo{name: {
			Token:                config.BearerToken,
			Impersonate:          config.Impersonate.UserName,
			ImpersonateGroups:    config.Impersonate.Groups,
			ImpersonateUserExtra: config.Impersonate.Extra,
		}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
	if err != nil {
		return fmt.Errorf("writing kubeconfig %s: %w", path, err)
	}
	return nil
}
