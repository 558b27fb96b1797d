package apiserver

import (
	"slices"

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

// Stored returns all objects of a kind, by their names. Neither they nor the slice must be changed.
func Stored[T client.Object](s *Server) []T {
	var none T
	k, err := s.kindOf(none)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if all, ok := k.sorted.([]T); ok {
		return all
	}
	all := make([]T, 0, len(k.objects))
	for _, obj := range k.objects {
		all = append(all, obj.(T))
	}
	slices.SortFunc(all, func(a, b T) int { return byKey(a, b) })
	k.sorted = all
	return all
}
