package apiserver

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Peek returns a stored object of obj's kind, nil if there is none. It must not be
// changed.
func Peek[T client.Object](s *Server, key types.NamespacedName) T {
	var none T
	k, err := s.kindOf(none)
	if err != nil {
		return none
	}
	stored, err := s.get(k, key)
	if err != nil {
		return none
	}
	return stored.(T)
}

// Stored returns all objects of a kind, by their names. They must not be changed.
func Stored[T client.Object](s *Server) []T {
	var none T
	k, err := s.kindOf(none)
	if err != nil {
		return nil
	}
	objects, _, _ := s.list(k, Selection{}) // which everything is in
	all := make([]T, len(objects))
	for i, obj := range objects {
		all[i] = obj.(T)
	}
	return all
}
