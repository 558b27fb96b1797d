// Package apiserver simulates the part of a Kubernetes API server that Nodemend uses, in
// memory: objects with their versions and generations, the status subresource,
// finalizers, preconditions, selectors, watches, and evictions. The defaults, the schema
// and the CEL rules of our kinds are applied by the API server's own packages.
//
// A test compares it with a real API server: what it answers to a script of requests has
// to be the same, and so have the events of watches.
//
// It can be used in two ways. Client has typed objects and no JSON: for a search that
// makes millions of requests. Transport speaks HTTP, for whole programs with their own
// clients and caches.
package apiserver
