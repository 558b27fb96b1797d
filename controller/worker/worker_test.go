package worker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAForestalledWriteIsRepeatedLaterEachTimeForItsObjectAlone(t *testing.T) {
	b := NewBackoff()
	conflict := fmt.Errorf("writing: %w", apierrors.NewConflict(schema.GroupResource{}, "a", errors.New("changed")))
	gone := apierrors.NewNotFound(schema.GroupResource{}, "a")
	after := func(name string, err error) time.Duration {
		t.Helper()
		result, err := b.Result(name, time.Hour, err)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return result.RequeueAfter
	}
	for i, err := range []error{conflict, gone, conflict} {
		if got, want := after("a", err), MinBackoff<<i; got != want {
			t.Errorf("time %d: again after %s, want %s", i+1, got, want)
		}
	}
	if got := after("b", conflict); got != MinBackoff {
		t.Errorf("another object is looked at after %s", got)
	}
	if got := after("a", nil); got != time.Hour {
		t.Errorf("without an error it is looked at after %s", got)
	}
	if got := after("a", conflict); got != MinBackoff {
		t.Errorf("after a success it begins with %s", got)
	}
	for range patience - 1 {
		if got := after("a", conflict); got > maxBackoff {
			t.Errorf("it is looked at after %s", got)
		}
	}
	if _, err := b.Result("a", 0, conflict); !errors.Is(err, conflict) {
		t.Errorf("nobody is told of a look that is forestalled for ever: %v", err)
	}
	if _, err := b.Result("a", 0, errors.New("boom")); err == nil {
		t.Error("another error is swallowed")
	}
}
