package apiserver

import (
	"errors"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	toolscache "k8s.io/client-go/tools/cache"
)

// minRequestTimeout is how long a watch lasts at least whose client names no time.
const minRequestTimeout = 30 * time.Minute

// web serves HTTP. It is made when it is first asked for, since a search needs none.
type web struct {
	once    sync.Once
	handler http.Handler
	err     error

	forms forms

	mu sync.Mutex
	// disconnect is closed to end all watches.
	disconnect chan struct{}
}

func (w *web) handlerOf(s *Server) (http.Handler, error) {
	w.once.Do(func() { w.handler, w.err = newWeb(s) })
	return w.handler, w.err
}

// Disconnect ends all watches of Transports, as a server does that is restarted.
func (s *Server) Disconnect() {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	if s.web.disconnect != nil {
		close(s.web.disconnect)
		s.web.disconnect = nil
	}
}

// disconnected is closed by the next Disconnect.
func (s *Server) disconnected() <-chan struct{} {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	if s.web.disconnect == nil {
		s.web.disconnect = make(chan struct{})
	}
	return s.web.disconnect
}

// newWeb installs the API server's own handlers.
func newWeb(s *Server) (http.Handler, error) {
	scheme, err := newHub(s)
	if err != nil {
		return nil, err
	}
	codecs := serializer.NewCodecFactory(scheme)
	if err := s.createNamespaces(); err != nil {
		return nil, err
	}
	admit := s.admission()
	handler := genericapiserver.NewAPIServerHandler("simulated", codecs, func(h http.Handler) http.Handler { return h }, nil)
	if err := s.installBuiltIn(handler, scheme, codecs, admit); err != nil {
		return nil, err
	}
	if err := s.installOurs(handler, admit); err != nil {
		return nil, err
	}
	s.installDiscovery(handler, codecs)
	routes.Version{Version: &version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1"}}.Install(handler.GoRestfulContainer)
	return s.withFilters(handler, codecs), nil
}

// withFilters does what the API server does before it serves a request, as far as
// handlers rely on it.
func (s *Server) withFilters(handler http.Handler, codecs serializer.CodecFactory) http.Handler {
	handler = s.withRefusals(handler, codecs)
	handler = filters.WithWarningRecorder(handler)
	handler = filters.WithCacheControl(handler)
	handler = filters.WithRequestInfo(handler, &request.RequestInfoFactory{
		APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
	})
	handler = filters.WithRequestReceivedTimestamp(handler)
	return filters.WithAuditInit(handler)
}

// withRefusals asks Options.Refuse.
func (s *Server) withRefusals(next http.Handler, codecs serializer.CodecFactory) http.Handler {
	if s.options.Refuse == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.options.Refuse(r); err != nil {
			responsewriters.ErrorNegotiated(err, codecs, schema.GroupVersion{Version: "v1"}, w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// storageOptions let a kind's registry keep its objects in the store.
func (s *Server) storageOptions(k *kind, codec runtime.Codec) generic.RESTOptions {
	return generic.RESTOptions{
		StorageConfig:           storagebackend.NewDefaultConfig("/registry", codec).ForResource(k.groupResource()),
		ResourcePrefix:          k.prefix(),
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: 1,
		Decorator: func(_ *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error),
			empty, _ func() runtime.Object, _ storage.AttrFunc, _ storage.IndexerFuncs, _ *toolscache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			return &registry{server: s, kind: k, prefix: prefix, empty: empty}, func() {}, nil
		},
	}
}

// prefix of the keys of a kind's objects in etcd, which errors tell.
func (k *kind) prefix() string {
	switch {
	case k.rules != nil:
		return "/registry/" + k.gvk.Group + "/" + k.resource
	case k.resource == "nodes":
		return "/registry/minions"
	default:
		return "/registry/" + k.resource
	}
}

// kindOfResource returns the kind of a resource.
func (s *Server) kindOfResource(resource schema.GroupResource) (*kind, error) {
	for _, k := range s.kinds {
		if k.groupResource() == resource {
			return k, nil
		}
	}
	return nil, errors.New("the simulated API server does not serve " + resource.String())
}

var optionsVersion = schema.GroupVersion{Version: "v1"}

var metaVersion = metav1.SchemeGroupVersion
