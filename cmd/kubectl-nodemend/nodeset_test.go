package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestANodeThatIsNamedTwiceIsTakenOnce(t *testing.T) {
	var r requests
	var of nodeSet
	nodes, err := of.nodes(t.Context(), r.cluster(t, sick("a", ""), sick("b", "")), "a", "b", "a")
	if err != nil || len(nodes) != 2 {
		t.Errorf("got %d nodes, %v", len(nodes), err)
	}
}

func TestANodeThatCannotBeExcludedDoesNotKeepTheOthers(t *testing.T) {
	var r requests
	a, b := sick("a", ""), sick("b", "")
	c := interceptor.NewClient(r.cluster(t, a, b), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if obj.GetName() == "a" {
				return errors.New("connection refused")
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	var out bytes.Buffer
	tool := atNoon()
	tool.streams = genericiooptions.IOStreams{Out: &out}
	nodes, err := (&nodeSet{}).nodes(t.Context(), c, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	err = tool.setExcluded(t.Context(), c, nodes, true, "")
	if err == nil || !strings.Contains(err.Error(), "node a: connection refused") || out.String() != "node b is excluded\n" {
		t.Errorf("got %v and %q", err, out.String())
	}
}
