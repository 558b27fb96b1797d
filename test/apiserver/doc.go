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
// clients and caches: there the API server's own handlers and registries work on the store
// in the place of etcd, and its own plugin evaluates ValidatingAdmissionPolicies.
//
// Not simulated is what k8s.io/kubernetes alone knows: nothing is defaulted but pods, and
// of the objects of Kubernetes only metadata is validated. Nor is there authorization, and
// an event of events.k8s.io is not one of the core, too. Both seams read UIDs and versions
// from one count, and times from Options.Now; who owns a field has the time of the process.
package apiserver
