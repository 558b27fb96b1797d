package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func (t *tool) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [NODE]",
		Short: "What happens, as it happens",
		Long: `Print one line for every change of a remediation or a maintenance, until you stop it:
first where each open one stands, then what changes. It survives a restart of the API
server.`,
		Example: `  kubectl nodemend watch
  kubectl nodemend watch worker-17`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeNode,
	}
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		var opts []client.ListOption
		if len(args) == 1 {
			if _, err := node(ctx, c, args[0]); err != nil {
				return err
			}
			opts = append(opts, client.MatchingFields{"spec.nodeName": args[0]})
		}
		for _, list := range []client.ObjectList{&v1alpha1.RemediationList{}, &v1alpha1.NodeMaintenanceList{}} {
			if err := c.List(ctx, list, append(opts, client.Limit(1))...); err != nil {
				return err // which the watches would only repeat
			}
		}
		t.follow(ctx, c, opts)
		return nil
	})
	return cmd
}

// follow prints changes until the context ends.
func (t *tool) follow(ctx context.Context, c client.WithWatch, opts []client.ListOption) {
	changes := make(chan change)
	last := map[string]string{}
	send := func(c change) {
		select {
		case changes <- c:
		case <-ctx.Done():
		}
	}
	done := make(chan struct{})
	kinds := []client.ObjectList{&v1alpha1.RemediationList{}, &v1alpha1.NodeMaintenanceList{}}
	objects := []client.Object{&v1alpha1.Remediation{}, &v1alpha1.NodeMaintenance{}}
	for i := range kinds {
		_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: listerWatcher(c, kinds[i], opts), ObjectType: objects[i],
			Handler: cache.ResourceEventHandlerDetailedFuncs{
				AddFunc: func(obj any, first bool) {
					c := changeOf(obj)
					c.quiet = first && over(obj)
					send(c)
				},
				UpdateFunc: func(_, obj any) { send(changeOf(obj)) },
				DeleteFunc: func(obj any) {
					if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
						obj = gone.Obj
					}
					c := changeOf(obj)
					c.line = deletedLine(obj)
					send(c)
				},
			},
		})
		go func() {
			informer.RunWithContext(ctx)
			done <- struct{}{}
		}()
	}
	for running := len(kinds); running > 0; {
		select {
		case c := <-changes:
			if !c.quiet && last[c.key] != c.line {
				t.printf("%s  %s\n", t.clock.Now().Format(time.TimeOnly), c.line)
			}
			last[c.key] = c.line
		case <-done:
			running--
		}
	}
}

func listerWatcher(c client.WithWatch, kind client.ObjectList, opts []client.ListOption) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := kind.DeepCopyObject().(client.ObjectList)
			return list, c.List(ctx, list, append(opts, &client.ListOptions{Raw: &o})...)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, kind.DeepCopyObject().(client.ObjectList), append(opts, &client.ListOptions{Raw: &o})...)
		},
	}
}

// change is what is told of an object.
type change struct {
	key, line string
	// quiet keeps the line to itself until it changes.
	quiet bool
}

// changeOf tells where an object stands.
func changeOf(obj any) change {
	switch o := obj.(type) {
	case *v1alpha1.Remediation:
		return change{key: "r/" + o.Name, line: remediationLine(o)}
	case *v1alpha1.NodeMaintenance:
		return change{key: "m/" + o.Name, line: maintenanceLine(o)}
	default:
		return change{quiet: true}
	}
}

// over reports whether it is a remediation that has ended.
func over(obj any) bool {
	r, ok := obj.(*v1alpha1.Remediation)
	return ok && r.Ended()
}

func remediationLine(r *v1alpha1.Remediation) string {
	state := dash(r.State())
	if by := r.BlockedBy(); by != "" {
		state += " (" + by + ")"
	}
	line := fmt.Sprintf("%s  %s  step %d/%d attempt %d  %s", r.Spec.NodeName, r.Spec.Policy.Name, max(r.Status.Step, 1), len(r.Spec.Steps), max(r.Status.Attempt, 1), state)
	if text := message(r); text != "" {
		line += ": " + text
	}
	return line
}

func maintenanceLine(m *v1alpha1.NodeMaintenance) string {
	line := fmt.Sprintf("%s  maintenance  %s", m.Spec.NodeName, drainState(m))
	if m.DeletionTimestamp != nil {
		line += ", being given back"
	}
	return line
}

func deletedLine(obj any) string {
	switch o := obj.(type) {
	case *v1alpha1.Remediation:
		return fmt.Sprintf("%s  %s  deleted", o.Spec.NodeName, o.Spec.Policy.Name)
	case *v1alpha1.NodeMaintenance:
		return fmt.Sprintf("%s  maintenance  over", o.Spec.NodeName)
	default:
		return ""
	}
}
