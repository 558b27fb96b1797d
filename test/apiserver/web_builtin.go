package apiserver

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// newHub returns the kinds of Kubernetes as its API server has them: what is v1 outside
// is what it works with inside, too.
func newHub(s *Server) (*runtime.Scheme, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	for _, k := range s.kinds {
		if k.rules != nil {
			continue
		}
		list, err := scheme.New(k.gvk.GroupVersion().WithKind(k.gvk.Kind + "List"))
		if err != nil {
			return nil, err
		}
		scheme.AddKnownTypes(schema.GroupVersion{Group: k.gvk.Group, Version: runtime.APIVersionInternal}, k.object.DeepCopyObject(), list)
		if err := scheme.AddFieldLabelConversionFunc(k.gvk, k.convertField); err != nil {
			return nil, err
		}
	}
	scheme.AddKnownTypes(schema.GroupVersion{Group: policyv1.GroupName, Version: runtime.APIVersionInternal}, &policyv1.Eviction{})
	addDefaults(scheme)
	return scheme, nil
}

// convertField accepts the fields that can be selected by.
func (k *kind) convertField(label, value string) (string, string, error) {
	if _, err := k.field(label); err != nil {
		return "", "", fmt.Errorf("field label not supported: %s", label)
	}
	return label, value, nil
}

// installBuiltIn serves the kinds of Kubernetes.
func (s *Server) installBuiltIn(handler *genericapiserver.APIServerHandler, scheme *runtime.Scheme, codecs serializer.CodecFactory, admit admission.Interface) error {
	types := applyconfigurations.NewTypeConverter(scheme)
	byVersion := map[schema.GroupVersion]map[string]rest.Storage{}
	for _, k := range s.kinds {
		if k.rules != nil {
			continue
		}
		version := k.gvk.GroupVersion()
		if byVersion[version] == nil {
			byVersion[version] = map[string]rest.Storage{}
		}
		if err := s.addStorage(byVersion[version], k, scheme, codecs); err != nil {
			return err
		}
	}
	for version, storages := range byVersion {
		root := "/apis"
		if version.Group == "" {
			root = "/api"
		}
		if err := install(handler, root, version, storages, scheme, codecs, types, admit); err != nil {
			return err
		}
	}
	return nil
}

func install(handler *genericapiserver.APIServerHandler, root string, version schema.GroupVersion, storages map[string]rest.Storage,
	scheme *runtime.Scheme, codecs serializer.CodecFactory, types managedfields.TypeConverter, admit admission.Interface,
) error {
	group := endpoints.APIGroupVersion{
		Storage: storages, Root: root, GroupVersion: version,
		OptionsExternalVersion: &optionsVersion, MetaGroupVersion: &metaVersion,
		Serializer: codecs, ParameterCodec: runtime.NewParameterCodec(scheme),
		Typer: scheme, Creater: scheme, //nolint:misspell // its name
		Convertor: scheme, ConvertabilityChecker: scheme, Defaulter: scheme, UnsafeConvertor: scheme,
		Namer: meta.NewAccessor(), TypeConverter: types,
		EquivalentResourceRegistry: runtime.NewEquivalentResourceRegistry(),
		Authorizer:                 authorizerfactory.NewAlwaysAllowAuthorizer(),
		Admit:                      admit, MinRequestTimeout: minRequestTimeout, MaxRequestBodyBytes: 3 << 20,
	}
	_, _, err := group.InstallREST(handler.GoRestfulContainer)
	return err
}

// addStorage adds a kind's resource and its subresources.
func (s *Server) addStorage(storages map[string]rest.Storage, k *kind, scheme *runtime.Scheme, codecs serializer.CodecFactory) error {
	strategies := strategiesOf(k, scheme)
	list := k.gvk.GroupVersion().WithKind(k.gvk.Kind + "List")
	store := &genericregistry.Store{
		NewFunc: func() runtime.Object { return k.object.DeepCopyObject() },
		NewListFunc: func() runtime.Object {
			obj, _ := scheme.New(list) // newHub has made one
			return obj
		},
		DefaultQualifiedResource:  k.groupResource(),
		SingularQualifiedResource: schema.GroupResource{Group: k.gvk.Group, Resource: k.singular()},
		CreateStrategy:            strategies.main, UpdateStrategy: strategies.main, DeleteStrategy: strategies.main,
		ResetFieldsStrategy: strategies.main,
		ReturnDeletedObject: k.returnsDeleted(),
		TableConvertor:      rest.NewDefaultTableConvertor(k.groupResource()),
	}
	options := &generic.StoreOptions{
		RESTOptions: s.storageOptions(k, codecs.LegacyCodec(k.gvk.GroupVersion())),
		AttrFunc:    k.attributes,
	}
	if err := store.CompleteWithOptions(options); err != nil {
		return err
	}
	storages[k.resource] = store
	if k.status {
		ofStatus := *store
		ofStatus.UpdateStrategy, ofStatus.ResetFieldsStrategy = strategies.status, strategies.status
		storages[k.resource+"/status"] = &statusStorage{&ofStatus}
	}
	if k.resource == "pods" {
		storages["pods/eviction"] = &evictionStorage{server: s, pods: store}
	}
	return nil
}

// attributes are what an object can be selected by.
func (k *kind) attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	object := obj.(client.Object)
	set := fields.Set{"metadata.name": object.GetName()}
	if k.namespaced {
		set["metadata.namespace"] = object.GetNamespace()
	}
	for name, value := range k.fields {
		set[name] = value(object)
	}
	return object.GetLabels(), set, nil
}

// statusStorage serves a status subresource.
type statusStorage struct{ store *genericregistry.Store }

var _ = rest.Patcher(&statusStorage{})

// New implements rest.Storage.
func (t *statusStorage) New() runtime.Object { return t.store.New() }

// Destroy implements rest.Storage.
func (t *statusStorage) Destroy() {}

// Get implements rest.Getter.
func (t *statusStorage) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return t.store.Get(ctx, name, options)
}

// Update implements rest.Updater. It never creates.
func (t *statusStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return t.store.Update(ctx, name, info, create, update, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (t *statusStorage) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return t.store.GetResetFields()
}

// ConvertToTable implements rest.TableConvertor.
func (t *statusStorage) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return t.store.ConvertToTable(ctx, object, options)
}
