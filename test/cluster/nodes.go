package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/workqueue"
)

// creators is how many nodes are created at a time.
const creators = 16

// AddNodes creates count nodes <prefix>-0 … that kwok plays, with the labels
// in addition to kubernetes.io/hostname, and returns their names when all are
// Ready and can take pods. Five thousand take minutes: bound them by ctx.
func (c *Cluster) AddNodes(ctx context.Context, count int, prefix string, labels map[string]string) ([]string, error) {
	i := slices.IndexFunc(c.processes, func(p *child) bool { return p.name == "kwok" })
	if i < 0 {
		return nil, errors.New("adding nodes: nothing would make them Ready, start the cluster with Options.Kwok")
	}
	ctx, stopWatching := cancelOnExit(ctx, c.processes[i])
	defer stopWatching()

	names := make([]string, count)
	errs := make([]error, count)
	workqueue.ParallelizeUntil(ctx, creators, count, func(i int) {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
		_, errs[i] = c.client.CoreV1().Nodes().Create(ctx, fakeNode(names[i], labels), metav1.CreateOptions{})
	})
	if err := errors.Join(append(errs, context.Cause(ctx))...); err != nil {
		return nil, fmt.Errorf("adding nodes: %w", err)
	}
	if err := c.waitNodesReady(ctx, names); err != nil {
		return nil, fmt.Errorf("adding nodes: %w", err)
	}
	return names, nil
}

func fakeNode(name string, labels map[string]string) *corev1.Node {
	key, value, _ := strings.Cut(kwokSelector, "=")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{corev1.LabelHostname: name},
		Annotations: map[string]string{key: value},
	}}
	maps.Copy(node.Labels, labels)
	return node
}

func (c *Cluster) waitNodesReady(ctx context.Context, names []string) error {
	waiting := sets.New(names...)
	if len(waiting) == 0 {
		return nil
	}
	nodes := cache.NewListWatchFromClient(c.client.CoreV1().RESTClient(), "nodes", "", fields.Everything())
	_, err := toolswatch.UntilWithSync(ctx, nodes, &corev1.Node{}, nil, func(event watch.Event) (bool, error) {
		if node, ok := event.Object.(*corev1.Node); ok && isReady(node) {
			waiting.Delete(node.Name)
		}
		return len(waiting) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d not Ready, %s among them: %w", len(waiting), len(names), sets.List(waiting)[0], errors.Join(context.Cause(ctx), err))
	}
	return nil
}

// isReady tells whether the node is Ready and the controller manager, if there is
// one, has seen that, too.
func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}) && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeNotReady
	})
}

// cancelOnExit returns a context that ends when p exits, with that as its
// cause, and a function that must be called to release it.
func cancelOnExit(ctx context.Context, p *child) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-p.Exited:
			cancel(p.exitError())
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		watcher.Wait()
	}
}
