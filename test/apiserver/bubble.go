package apiserver

import (
	"testing"
	"testing/synctest"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Bubble runs a test in a bubble of testing/synctest, as synctest.Test does, in which the
// clients of Kubernetes work: one of their handlers of errors, which keeps a process from
// logging too often, remembers when it last did. A bubble's time begins in the year 2000,
// and so it would wait for decades. Tests that use Bubble must not run in parallel.
func Bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = handlers[:1] // the one that logs
	defer func() { utilruntime.ErrorHandlers = handlers }()
	synctest.Test(t, test)
}
