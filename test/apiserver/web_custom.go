package apiserver

import (
	"net/http"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	openapigenerated "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// installOurs serves our kinds by what serves the kinds of CustomResourceDefinitions in
// an API server.
func (s *Server) installOurs(handler *genericapiserver.APIServerHandler, admit admission.Interface) error {
	known := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	for _, k := range s.kinds {
		if k.rules == nil {
			continue
		}
		if err := known.Add(established(k.rules.Definition)); err != nil {
			return err
		}
	}
	converters, err := metadataTypes()
	if err != nil {
		return err
	}
	custom, err := apiserver.NewCustomResourceDefinitionHandler(nil, nil, definitions{known}, http.NotFoundHandler(),
		restOptions{s}, admit, nil, nil, nil, 1, authorizerfactory.NewAlwaysAllowAuthorizer(), time.Minute, minRequestTimeout, converters, 3<<20)
	if err != nil {
		return err
	}
	handler.NonGoRestfulMux.HandlePrefix("/apis/"+v1alpha1.GroupVersion.Group+"/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Count(r.URL.Path, "/") < 4 { // the documents of other versions
			http.NotFound(w, r)
			return
		}
		custom.ServeHTTP(w, r)
	}))
	return nil
}

// metadataTypes describe what all objects have, for the ownership of its fields.
func metadataTypes() (map[string]*spec.Schema, error) {
	namer := openapi.NewDefinitionNamer(apiserver.Scheme)
	config := genericapiserver.DefaultOpenAPIV3Config(openapigenerated.GetOpenAPIDefinitions, namer)
	return builder3.BuildOpenAPIDefinitionsForResources(config, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
}

// established returns the definition as it is when its kind is served.
func established(definition *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	crd := definition.DeepCopy()
	crd.UID = types.UID(crd.Name)
	crd.Status.AcceptedNames = crd.Spec.Names
	if crd.Status.AcceptedNames.Singular == "" {
		crd.Status.AcceptedNames.Singular = strings.ToLower(crd.Spec.Names.Kind)
	}
	crd.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	for _, condition := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.NamesAccepted, apiextensionsv1.Established} {
		crd.Status.Conditions = append(crd.Status.Conditions, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: condition, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: metav1.Unix(0, 0),
		})
	}
	return crd
}

// definitions are CustomResourceDefinitions that never change.
type definitions struct{ known toolscache.Indexer }

var _ informers.CustomResourceDefinitionInformer = definitions{}

// Informer implements informers.CustomResourceDefinitionInformer. It never runs.
func (definitions) Informer() toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &apiextensionsv1.CustomResourceDefinition{}, 0, toolscache.Indexers{})
}

// Lister implements informers.CustomResourceDefinitionInformer.
func (d definitions) Lister() listers.CustomResourceDefinitionLister {
	return listers.NewCustomResourceDefinitionLister(d.known)
}

// restOptions let the registries of our kinds keep their objects in the store.
type restOptions struct{ server *Server }

var _ generic.RESTOptionsGetter = restOptions{}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o restOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	k, err := o.server.kindOfResource(resource)
	if err != nil {
		return generic.RESTOptions{}, err
	}
	return o.server.storageOptions(k, unstructured.UnstructuredJSONScheme), nil
}

// resourcesOf are what the API server tells of our kinds.
func (s *Server) resourcesOf(group string) (resources []metav1.APIResource) {
	for _, k := range s.kinds {
		if k.rules == nil || k.gvk.Group != group {
			continue
		}
		names := established(k.rules.Definition).Status.AcceptedNames
		resources = append(resources, metav1.APIResource{
			Name: names.Plural, SingularName: names.Singular, Namespaced: k.namespaced, Kind: names.Kind,
			Verbs:      metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"},
			ShortNames: names.ShortNames, Categories: names.Categories,
			StorageVersionHash: discovery.StorageVersionHash(k.gvk.Group, k.gvk.Version, k.gvk.Kind),
		})
		if k.status {
			resources = append(resources, metav1.APIResource{
				Name: names.Plural + "/status", Namespaced: k.namespaced, Kind: names.Kind, Verbs: metav1.Verbs{"get", "patch", "update"},
			})
		}
	}
	return resources
}
