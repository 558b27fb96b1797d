package apiserver

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/crd"
)

// Definitions are the kinds that a server knows, with the rules of ours, compiled. They can be
// shared by any number of servers.
type Definitions struct {
	rules  map[string]*crd.Rules
	scheme *runtime.Scheme
}

// Define compiles the CustomResourceDefinitions chart/crds/*.yaml of a file system.
func Define(definitions fs.FS) (*Definitions, error) {
	all, err := crd.Load(definitions, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	d := &Definitions{rules: map[string]*crd.Rules{}, scheme: scheme}
	for _, rules := range all {
		d.rules[rules.Kind()] = rules
	}
	return d, nil
}

// Options of a Server. All are required but those that say so.
type Options struct {
	// Definitions are those of our kinds.
	Definitions *Definitions
	// Now is the server's time.
	Now func() time.Time
	// Others are kinds of other programs, with namespaces, of which the server knows nothing more; nil:
	// there are none. A Client reads and writes their objects as *unstructured.Unstructured, and does
	// not list them. They have no subresources.
	Others []schema.GroupVersionKind
	// Trusting applies schema and CEL rules only where they decide something that no
	// Go type does: in objects that people write, and in the status of budgets and
	// actions.
	Trusting bool
	// Changed is called after each change, before it is answered; nil: nobody is. It
	// may read and write.
	Changed func(Change)
	// Policies are ValidatingAdmissionPolicies, with their bindings, that are applied to
	// the requests of Transports; nil: none are.
	Policies *Policies
	// Refuse may refuse a request of a Transport in the place of the server, with an
	// error as of apierrors; nil: nothing is refused.
	Refuse func(*http.Request) error
}

// Change is what a write has changed.
type Change struct {
	// By is who has written.
	By string
	// Old is nil for an object that was created, New for one that is gone. They must
	// not be changed.
	Old, New client.Object
}

// Server is a simulated API server. It may be used concurrently.
type Server struct {
	options Options
	scheme  *runtime.Scheme

	mu      sync.RWMutex
	version uint64
	// changes counts what may change how far behind a view is.
	changes uint64
	uids    uint64
	kinds   []*kind
	byType  map[reflect.Type]*kind
	// rung is closed with the next change; nil if nobody waits for one.
	rung chan struct{}

	web web
}

// New returns a Server without any object.
func New(o Options) (*Server, error) {
	s := &Server{options: o, scheme: o.Definitions.scheme, version: 1, byType: map[reflect.Type]*kind{}}
	for _, k := range table() {
		k.objects = map[types.NamespacedName]client.Object{}
		gvk, err := apiutil.GVKForObject(k.object, s.scheme)
		if err != nil {
			return nil, err
		}
		k.gvk = gvk
		if k.gvk.Group == v1alpha1.GroupVersion.Group {
			if k.rules = o.Definitions.rules[k.gvk.Kind]; k.rules == nil {
				return nil, fmt.Errorf("no CustomResourceDefinition of kind %s", k.gvk.Kind)
			}
		}
		s.kinds = append(s.kinds, &k)
		s.byType[reflect.TypeOf(k.object)] = &k
	}
	for _, gvk := range o.Others {
		s.kinds = append(s.kinds, other(gvk))
	}
	return s, nil
}

// NewScheme returns the kinds that a Server knows.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, v1alpha1.AddToScheme(scheme)
}

// kindOf returns the kind of an object.
func (s *Server) kindOf(obj runtime.Object) (*kind, error) {
	if k := s.byType[reflect.TypeOf(obj)]; k != nil {
		return k, nil
	}
	for _, k := range s.kinds {
		if unknown(obj) && unknown(k.object) && k.gvk == obj.GetObjectKind().GroupVersionKind() {
			return k, nil
		}
	}
	return nil, fmt.Errorf("the simulated API server does not serve %T: %w", obj, &meta.NoKindMatchError{GroupKind: obj.GetObjectKind().GroupVersionKind().GroupKind()})
}

// kindOfList returns the kind of a list's items.
func (s *Server) kindOfList(list runtime.Object) (*kind, error) {
	gvk, err := apiutil.GVKForObject(list, s.scheme)
	if err != nil {
		return nil, err
	}
	for _, k := range s.kinds {
		if k.gvk.GroupVersion() == gvk.GroupVersion() && k.gvk.Kind+"List" == gvk.Kind {
			return k, nil
		}
	}
	return nil, fmt.Errorf("the simulated API server does not serve %T: %w", list, &meta.NoKindMatchError{GroupKind: gvk.GroupKind()})
}

// Version is the resourceVersion of the last change.
func (s *Server) Version() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.version
}

// nextVersion numbers a change.
func (s *Server) nextVersion() uint64 {
	s.changes++
	s.version++
	return s.version
}

// newUID returns one that looks like the real ones and is the same in each run.
func (s *Server) newUID() types.UID {
	s.uids++
	return types.UID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", s.uids))
}

// nextUID is newUID for those who do not hold the mutex.
func (s *Server) nextUID() types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newUID()
}

// now is the server's time as objects keep it.
func (s *Server) now() time.Time { return s.options.Now().UTC().Truncate(time.Second) }

// tell tells the observer. The mutex is not held.
func (s *Server) tell(by string, old, updated client.Object) {
	if s.options.Changed != nil && (old != nil || updated != nil) {
		s.options.Changed(Change{By: by, Old: old, New: updated})
	}
}

// groupResource of a kind, for errors.
func (k *kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.gvk.Group, Resource: k.resource}
}

var background = context.Background() //nolint:forbidigo // CEL wants a context, and nothing cancels it
