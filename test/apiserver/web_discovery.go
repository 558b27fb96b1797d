package apiserver

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// installDiscovery serves what is served: /api, /apis and below.
func (s *Server) installDiscovery(handler *genericapiserver.APIServerHandler, codecs serializer.CodecFactory) {
	addresses := discovery.DefaultAddresses{DefaultAddress: "192.0.2.1:443"}
	container := handler.GoRestfulContainer
	container.Add(discovery.NewLegacyRootAPIHandler(addresses, codecs, "/api").WebService())
	groups := discovery.NewRootAPIsHandler(addresses, codecs)
	var told []string
	for _, k := range s.kinds {
		if k.gvk.Group == "" || slices.Contains(told, k.gvk.Group) {
			continue
		}
		told = append(told, k.gvk.Group)
		version := metav1.GroupVersionForDiscovery{GroupVersion: k.gvk.GroupVersion().String(), Version: k.gvk.Version}
		group := metav1.APIGroup{Name: k.gvk.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}
		groups.AddGroup(group)
		if k.rules == nil {
			container.Add(discovery.NewAPIGroupHandler(codecs, group).WebService())
			continue
		}
		mux := handler.NonGoRestfulMux
		mux.Handle("/apis/"+k.gvk.Group, discovery.NewAPIGroupHandler(codecs, group))
		mux.Handle("/apis/"+k.gvk.GroupVersion().String(), discovery.NewAPIVersionHandler(codecs, k.gvk.GroupVersion(),
			discovery.APIResourceListerFunc(func() []metav1.APIResource { return s.resourcesOf(v1alpha1.GroupVersion.Group) })))
	}
	container.Add(groups.WebService())
}
