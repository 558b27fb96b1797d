package attempt

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Executor carries out attempts, each by an object of the cluster. Nothing is begun on a node
// while an object says that something may be running there (invariant I2 of docs/design.md).
type Executor interface {
	// Who does the work, for people: "the node's runner".
	Who() string
	// Kind is that of its objects, and Object an empty one.
	Kind() schema.GroupVersionKind
	Object() client.Object
	// Tell returns what an object tells. They share what must not be changed.
	Tell(object client.Object) Attempt
	// OnNode returns the attempts on the node of this name, from a cache.
	OnNode(ctx context.Context, cache client.Reader, node string) ([]Attempt, error)
	// OfRemediation returns the attempts of the remediation of this name, as the API server
	// has them.
	OfRemediation(ctx context.Context, live client.Reader, name string) ([]Attempt, error)
	// Start creates the object. That it exists is success: an earlier try got through.
	Start(ctx context.Context, c client.Client, o Order) error
	// Cancel sees that the attempt of an object never begins. It fails with a conflict if it has
	// begun since the object was read.
	Cancel(ctx context.Context, c client.Client, object client.Object, end End) error
	// Recall tells who has begun the attempt of an object to stop. It fails with a conflict if
	// the object has changed since it was read.
	Recall(ctx context.Context, c client.Client, object client.Object, why Recall) error
}

// named is an executor under the name that remedies give it.
type named struct {
	name v1alpha1.Executor
	Executor
}

// executors are all of them. A maintenance is none: it runs nothing on its node, and its
// remediation decides how it ends.
func executors() []named {
	return []named{
		{v1alpha1.ExecutorRunner, nodeActions{}},
		{v1alpha1.ExecutorRemote, nodeActions{executor: v1alpha1.ExecutorRemote}},
		{v1alpha1.ExecutorExternal, nodeActions{executor: v1alpha1.ExecutorExternal}},
	}
}

// Executors returns one for each kind of object: it lists and tells those of all executors that
// have this kind.
func Executors() (all []Executor) {
	for _, by := range executors() {
		if !slices.ContainsFunc(all, func(other Executor) bool { return other.Kind() == by.Kind() }) {
			all = append(all, by.Executor)
		}
	}
	return all
}

// By returns who carries out the attempts of a step. It is the node's runner if there is no such
// step, or it has no attempts: then somebody has written a status of their own.
func By(step *v1alpha1.Step) Executor {
	for _, by := range executors() {
		if step != nil && by.name == step.Executor() {
			return by.Executor
		}
	}
	return nodeActions{}
}

// Get reads the object of this name, and returns what it tells; nil: there is none. get reports
// whether there is one.
func Get(by Executor, name string, get func(name string, object client.Object) (bool, error)) (*Attempt, error) {
	object := by.Object()
	found, err := get(name, object)
	if err != nil || !found {
		return nil, err
	}
	a := by.Tell(object)
	return &a, nil
}

// OnNode returns the attempts on the node of this name, whoever carries them out, from a cache.
func OnNode(ctx context.Context, cache client.Reader, node string) (all []Attempt, err error) {
	for _, by := range Executors() {
		some, err := by.OnNode(ctx, cache, node)
		if err != nil {
			return nil, fmt.Errorf("listing what runs on node %s: %w", node, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// OfRemediation returns the attempts of the remediation of this name, whoever carries them out,
// as the API server has them.
func OfRemediation(ctx context.Context, live client.Reader, name string) (all []Attempt, err error) {
	for _, by := range Executors() {
		some, err := by.OfRemediation(ctx, live, name)
		if err != nil {
			return nil, fmt.Errorf("listing the attempts of remediation %s: %w", name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// Delete deletes the object of this name. That there is none is success.
func Delete(ctx context.Context, c client.Client, by Executor, name string) error {
	object := by.Object()
	object.SetName(name)
	if err := client.IgnoreNotFound(c.Delete(ctx, object)); err != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return nil
}
