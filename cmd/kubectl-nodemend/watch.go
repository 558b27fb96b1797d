package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/fold"
)

func (t *tool) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [NODE]",
		Short: "What happens, as it happens",
		Long: `Print one line whenever a remediation or a maintenance stands elsewhere, until you stop it:
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
			opts = append(opts, client.MatchingFields{"spec.nodeName": args[0]})
		}
		known := false
		for _, list := range []client.ObjectList{&v1alpha1.RemediationList{}, &v1alpha1.NodeMaintenanceList{}} {
			if err := c.List(ctx, list, append(opts, client.Limit(1))...); err != nil {
				return err // which the watches would only repeat
			}
			known = known || meta.LenList(list) > 0
		}
		if len(args) == 1 && !known {
			if _, err := node(ctx, c, args[0]); err != nil {
				return err
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
					if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
						obj = last.Obj
					}
					c := changeOf(obj)
					c.stands, c.message = gone(obj), ""
					send(c)
				},
			},
		})
		go func() {
			informer.RunWithContext(ctx)
			done <- struct{}{}
		}()
	}
	tell := func(line string) {
		_, _ = fmt.Fprintln(t.streams.Out, t.painted(t.news(line))) // nobody is left to tell
	}
	tell(happened("TIME", "NODE", "POLICY", "STEP", "STATE"))
	for running := len(kinds); running > 0; {
		select {
		case c := <-changes:
			news := c.step + " " + c.stands
			if !c.quiet && last[c.key] != news {
				tell(happened(t.timeOfDay(), c.node, c.policy, c.step, c.stands+detail("", c.message)))
			}
			last[c.key] = news
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
	key, node, policy, step string
	// stands is where it stands. Nothing is told before that changes: the numbers in a
	// message alone are no news.
	stands, message string
	// quiet keeps it to itself until it changes.
	quiet bool
}

// happened is a line in columns.
func happened(when, node, policy, step, what string) string {
	return fmt.Sprintf("%-8s  %-12s  %-20s  %-6s  %s", when, oneLine(node), oneLine(policy), step, oneLine(what))
}

// news is a line of what happened, folded below the node if it goes to a terminal.
func (t *tool) news(line string) string {
	if width := fold.Width(t.streams.Out); width > 0 {
		return strings.Join(fold.Line(line, width, len("15:04:05  ")), "\n")
	}
	return line
}

// changeOf tells where an object stands.
func changeOf(obj any) change {
	switch o := obj.(type) {
	case *v1alpha1.Remediation:
		return remediationChange(o)
	case *v1alpha1.NodeMaintenance:
		c := change{key: "m/" + o.Name, node: o.Spec.NodeName, policy: "(maintenance)", step: "-", stands: drainState(o)}
		if o.DeletionTimestamp != nil {
			c.stands += ", being given back"
		}
		return c
	default:
		return change{quiet: true}
	}
}

// over reports whether it is a remediation that has ended.
func over(obj any) bool {
	r, ok := obj.(*v1alpha1.Remediation)
	return ok && r.Ended()
}

func remediationChange(r *v1alpha1.Remediation) change {
	c := change{key: "r/" + r.Name, node: r.Spec.NodeName, policy: r.Spec.Policy.Name, stands: cmp.Or(r.State(), "new"), message: message(r)}
	if by := r.BlockedBy(); by != "" {
		c.stands += " (" + by + ")"
		c.message = strings.TrimPrefix(c.message, by+": ")
	}
	c.step = fmt.Sprintf("%d/%d", max(r.Status.Step, 1), len(r.Spec.Steps))
	if attempt := r.Status.Attempt; attempt > 1 {
		c.stands += fmt.Sprintf(", attempt %d", attempt)
	}
	return c
}

// gone is what an object stands at that was deleted.
func gone(obj any) string {
	if _, ok := obj.(*v1alpha1.NodeMaintenance); ok {
		return "over"
	}
	return "deleted"
}
