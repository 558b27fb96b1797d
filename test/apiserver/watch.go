package apiserver

import (
	"fmt"
	"slices"
	"sort"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Event is one change of one object.
type Event struct {
	// Version is the resourceVersion of the change.
	Version uint64
	// Old is nil for an object that was created. New is nil for one that is gone; Last
	// is how it was then, with that version.
	Old, New, Last client.Object
}

// record appends an event to the kind's log. The mutex is held.
func (k *kind) record(e Event) {
	k.log = append(k.log, e)
	k.sorted = nil
}

// since returns the events of the kind after the version. It fails as expired if they
// are gone. They must not be changed.
func (s *Server) since(k *kind, version uint64) ([]Event, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if version < k.compacted {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, k.compacted))
	}
	first := sort.Search(len(k.log), func(i int) bool { return k.log[i].Version > version })
	return k.log[first:len(k.log):len(k.log)], nil
}

// bell returns a channel that is closed with the next change of anything.
func (s *Server) bell() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rung == nil {
		s.rung = make(chan struct{})
	}
	return s.rung
}

// ring tells those who wait for a change. The mutex is held.
func (s *Server) ring() {
	if s.rung != nil {
		close(s.rung)
		s.rung = nil
	}
}

// Compact forgets the events up to a version, as etcd does after a while: a watch from
// before then fails.
func (s *Server) Compact(version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	for _, k := range s.kinds {
		first := sort.Search(len(k.log), func(i int) bool { return k.log[i].Version > version })
		k.log = slices.Clone(k.log[first:])
		k.compacted = max(k.compacted, version)
	}
	s.web.forms.keep(s.kinds)
}
