package services

// Reasons of the condition, the gravest first: of several problems the first counts.
const (
	// ReasonKubeProxyGone: nobody listens where kube-proxy has to.
	ReasonKubeProxyGone = "KubeProxyGone"
	// ReasonKubeProxyTimeout: kube-proxy does not answer.
	ReasonKubeProxyTimeout = "KubeProxyTimeout"
	// ReasonKubeProxyStale: kube-proxy says that it can't apply changes of Services.
	ReasonKubeProxyStale = "KubeProxyStale"
	// ReasonNoConfig: no pod network is configured.
	ReasonNoConfig = "CNIConfigMissing"
	// ReasonInvalidConfig: the pod network's configuration can't be loaded.
	ReasonInvalidConfig = "CNIConfigInvalid"
	// ReasonNoPlugin: the configuration names a program that is not there.
	ReasonNoPlugin = "CNIPluginMissing"
	// ReasonResolverGone: the resolver on this node does not run.
	ReasonResolverGone = "ResolverGone"
	// ReasonNoRoute: the node has no route to its nameservers.
	ReasonNoRoute = "NoRouteToNameserver"
	// ReasonNoNameserver: the node is configured without one.
	ReasonNoNameserver = "NoNameserver"
	// ReasonSilent, with Unknown: no nameserver answers, which may be their fault.
	ReasonSilent = "NameserversSilent"
	// ReasonFailing, with Unknown: nameservers answer that they can't tell.
	ReasonFailing = "NameserversFail"
	// ReasonNotSeen, with Unknown: something could not be looked at.
	ReasonNotSeen = "ServiceNetworkNotSeen"
	// ReasonInterrupted, with Unknown: the run was stopped.
	ReasonInterrupted = "Interrupted"
	// ReasonHealthy: none of these.
	ReasonHealthy = "ServiceNetworkHealthy"
)

// grave are the reasons of problems, the gravest first.
func grave() []string {
	return []string{
		ReasonKubeProxyGone, ReasonKubeProxyTimeout, ReasonKubeProxyStale,
		ReasonNoConfig, ReasonInvalidConfig, ReasonNoPlugin,
		ReasonResolverGone, ReasonNoRoute, ReasonNoNameserver,
	}
}
