package apiserver_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/apiserver"
)

// A cache sees every Node whatever becomes of its watches.
func TestACacheOutlivesDisconnectsCompactionsAndRefusals(t *testing.T) {
	definitions, err := apiserver.Define(deploy.CRDs)
	if err != nil {
		t.Fatal(err)
	}
	apiserver.Bubble(t, func(t *testing.T) {
		var away atomic.Bool
		s, err := apiserver.New(apiserver.Options{Definitions: definitions, Now: time.Now, Refuse: func(*http.Request) error {
			if away.Load() {
				return apierrors.NewServiceUnavailable("etcd is away")
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		admin := s.Client("admin", nil)
		c, err := kubernetes.NewForConfig(&rest.Config{Host: "http://simulated", Transport: s.Transport(userNamed(""))})
		if err != nil {
			t.Fatal(err)
		}
		factory := informers.NewSharedInformerFactory(c, 0)
		nodes := factory.Core().V1().Nodes()
		store := nodes.Informer().GetStore()
		stop := make(chan struct{})
		factory.Start(stop)
		factory.WaitForCacheSync(stop)
		sees := func(name string, happens func()) {
			t.Helper()
			happens()
			if err := admin.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
				t.Fatal(err)
			}
			for range 600 {
				synctest.Wait()
				if _, found, _ := store.GetByKey(name); found {
					return
				}
				time.Sleep(time.Second) // virtual
			}
			t.Errorf("node %s is not seen", name)
		}
		sees("first", func() {})
		sees("disconnected", s.Disconnect)
		sees("compacted", func() {
			s.Disconnect()
			s.Compact(s.Version())
		})
		sees("refused", func() {
			away.Store(true)
			s.Disconnect()
			time.AfterFunc(time.Minute, func() { away.Store(false) })
		})
		if _, err := c.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Continue: tokenOf(t, c, s)}); !apierrors.IsResourceExpired(err) {
			t.Errorf("the rest of a list that is too old: %v", err)
		}
		close(stop)
		factory.Shutdown()
	})
}

// tokenOf is that of a list whose rest is gone.
func tokenOf(t *testing.T, c kubernetes.Interface, s *apiserver.Server) string {
	t.Helper()
	list, err := c.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Client("admin", nil).Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "later"}}); err != nil {
		t.Fatal(err)
	}
	s.Compact(s.Version())
	return list.Continue
}
