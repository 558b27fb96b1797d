package drain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// apiServer has the pods of a node and answers evictions with what the test says:
// nil lets a pod go.
type apiServer struct {
	t       *testing.T
	answer  func(ctx context.Context, e *policyv1.Eviction) error
	listErr error

	mu        sync.Mutex
	pods      []corev1.Pod
	evictions []policyv1.Eviction
}

func (s *apiServer) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		if got, want := request.URL.Query().Get("fieldSelector"), "spec.nodeName=n1"; got != want {
			s.t.Errorf("pods are listed with %q, want %q", got, want)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.listErr != nil {
			return respond(s.listErr, nil), nil
		}
		return respond(nil, &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: s.pods}), nil
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	var e policyv1.Eviction
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &e); err != nil {
		return nil, err
	}
	if want := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/eviction", e.Namespace, e.Name); request.URL.Path != want {
		s.t.Errorf("posted to %s, want %s", request.URL.Path, want)
	}
	s.mu.Lock()
	s.evictions = append(s.evictions, e)
	s.mu.Unlock()
	if s.answer != nil {
		if err := s.answer(request.Context(), &e); err != nil {
			if request.Context().Err() != nil {
				return nil, request.Context().Err()
			}
			return respond(err, nil), nil
		}
	}
	return respond(nil, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}), nil
}

// errFlowControl is answered in plain text, before the API server has looked at the request.
var errFlowControl = errors.New("too many requests")

// respond makes the response that the API server makes of an error or an object.
func respond(err error, obj any) *http.Response {
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		s := status.Status()
		s.APIVersion, s.Kind = "v1", "Status"
		obj, response.StatusCode = s, int(s.Code)
		if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
			response.Header.Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
		}
	}
	if errors.Is(err, errFlowControl) {
		response.StatusCode, response.Header = http.StatusTooManyRequests, http.Header{"Content-Type": {"text/plain"}, "Retry-After": {"1"}}
		response.Body = io.NopCloser(strings.NewReader(err.Error()))
		return response
	}
	data, err := json.Marshal(obj)
	if err != nil {
		data = []byte(err.Error())
	}
	response.Body = io.NopCloser(bytes.NewReader(data))
	return response
}

// evicted returns how many evictions were asked for since the last call.
func (s *apiServer) evicted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.evictions)
	s.evictions = nil
	return n
}

func newDrainer(t *testing.T, pods ...corev1.Pod) (*Drainer, *apiServer, *clocktesting.FakeClock) {
	t.Helper()
	server, clk := &apiServer{t: t, pods: pods}, clocktesting.NewFakeClock(now)
	d, err := New(&rest.Config{Host: "http://server", QPS: -1}, &http.Client{Transport: server}, clk)
	if err != nil {
		t.Fatal(err)
	}
	return d, server, clk
}

func pass(t *testing.T, d *Drainer, options *v1alpha1.Drain) Result {
	t.Helper()
	r, err := d.Pass(t.Context(), "n1", options, true)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// blocked is what the API server says about a PodDisruptionBudget.
func blocked(retryAfter int) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget web needs 1 healthy pods and has 1 currently"})
	return err
}

func TestWhatTheServerSaysAboutAnEvictionIsUnderstood(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	terminating := apierrors.NewForbidden(pods, "p", errors.New("unable to create new content"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	negative := apierrors.NewForbidden(pods, "web", errors.New("negative"))
	negative.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "web: negative"}}
	twoBudgets := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: "This pod has more than one PodDisruptionBudget"}}
	tests := []struct {
		name    string
		answer  error
		want    v1alpha1.PodReason
		message string
		next    time.Duration
	}{
		{"it goes", nil, v1alpha1.PodTerminating, "told to end", time.Second},
		{"it is gone", apierrors.NewNotFound(pods, "p"), gone, "", time.Second},
		{"another has its name", apierrors.NewConflict(pods, "p", errors.New("the UID in the precondition (uid-of-p) does not match the UID in record (x)")), gone, "", time.Second},
		{"it was changed too often", apierrors.NewConflict(pods, "p", errors.New("the object has been modified")), v1alpha1.PodEvictionFailed, "has been modified", time.Second},
		{"a budget", blocked(0), v1alpha1.PodDisruptionBudget, "The disruption budget web needs 1", time.Second},
		{"a budget that is broken", negative, v1alpha1.PodDisruptionBudget, "web: negative", time.Second},
		{"two budgets", twoBudgets, v1alpha1.PodEvictionFailed, "more than one PodDisruptionBudget", time.Second},
		{"its namespace goes", terminating, v1alpha1.PodTerminating, "namespace", time.Second},
		{"it may not be evicted by us", apierrors.NewForbidden(pods, "p", errors.New("no rights")), v1alpha1.PodEvictionFailed, "no rights", time.Second},
		{"a webhook's own limit", apierrors.NewTooManyRequests("try again", 2), v1alpha1.PodEvictionFailed, "try again", time.Second},
		{"the server has too much to do", errFlowControl, v1alpha1.PodEvictable, "too much to do", time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, server, _ := newDrainer(t, newPod("p"))
			server.answer = func(context.Context, *policyv1.Eviction) error { return tt.answer }
			r := pass(t, d, &v1alpha1.Drain{})
			got := v1alpha1.RemainingPod{}
			if len(r.Pods) == 1 {
				got = r.Pods[0]
			}
			if (len(r.Pods) == 0) != (tt.want == gone) || got.Reason != tt.want || !strings.Contains(got.Message, tt.message) {
				t.Errorf("got %+v, want %s (%s)", got, tt.want, tt.message)
			}
			if r.Done || r.Next != tt.next {
				t.Errorf("done %v, next %s, want %s", r.Done, r.Next, tt.next)
			}
			if n := server.evicted(); n != 1 {
				t.Errorf("%d requests", n)
			}
			_, again := d.nodes["n1"].refusals["uid-of-p"]
			if nothingMore := tt.answer == nil || tt.want == gone; again == nothingMore {
				t.Errorf("tried again: %v", again)
			}
		})
	}
}

func TestAnEvictionIsForThisPodAndWithTheGraceAskedFor(t *testing.T) {
	for _, grace := range []*int64{nil, ptr.To[int64](0), ptr.To[int64](17)} {
		d, server, _ := newDrainer(t, newPod("p"))
		pass(t, d, &v1alpha1.Drain{GracePeriodSeconds: grace})
		want := &metav1.DeleteOptions{GracePeriodSeconds: grace, Preconditions: metav1.NewUIDPreconditions("uid-of-p")}
		if diff := cmp.Diff(want, server.evictions[0].DeleteOptions); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestARefusedPodIsTriedAgainLaterAndLater(t *testing.T) {
	d, server, clk := newDrainer(t, newPod("p"))
	server.answer = func(context.Context, *policyv1.Eviction) error { return blocked(0) }
	pass(t, d, &v1alpha1.Drain{})
	server.evicted()
	for _, delay := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		clk.Step(delay*time.Second - time.Millisecond)
		if r := pass(t, d, &v1alpha1.Drain{}); server.evicted() != 0 || r.Pods[0].Reason != v1alpha1.PodDisruptionBudget || r.Next != time.Millisecond {
			t.Fatalf("within %ds: tried again, or %+v", delay, r)
		}
		clk.Step(time.Millisecond)
		pass(t, d, &v1alpha1.Drain{})
		if n := server.evicted(); n != 1 {
			t.Fatalf("after %ds: %d requests", delay, n)
		}
	}
	d.Forget("n1")
	pass(t, d, &v1alpha1.Drain{})
	if server.evicted() != 1 {
		t.Error("not tried at once after Forget")
	}
}

func TestRetryAfterIsHonouredWithoutWaiting(t *testing.T) {
	d, server, clk := newDrainer(t, newPod("p"))
	server.answer = func(context.Context, *policyv1.Eviction) error { return blocked(10) }
	began := time.Now()
	pass(t, d, &v1alpha1.Drain{})
	if took := time.Since(began); took > 5*time.Second || server.evicted() != 1 {
		t.Errorf("the pass waited: %s", took)
	}
	clk.Step(10*time.Second - time.Millisecond)
	pass(t, d, &v1alpha1.Drain{})
	if server.evicted() != 0 {
		t.Error("tried before the time the server asked for")
	}
	clk.Step(time.Millisecond)
	pass(t, d, &v1alpha1.Drain{})
	if server.evicted() != 1 {
		t.Error("not tried after the time the server asked for")
	}
}

func TestANewPodOfTheSameNameStartsAnew(t *testing.T) {
	d, server, _ := newDrainer(t, newPod("p"))
	server.answer = func(context.Context, *policyv1.Eviction) error { return blocked(0) }
	pass(t, d, &v1alpha1.Drain{})
	server.evicted()
	server.pods[0].UID = "another"
	pass(t, d, &v1alpha1.Drain{})
	if server.evicted() != 1 {
		t.Error("the new pod waits for the old one's refusal")
	}
	if n := len(d.nodes["n1"].refusals); n != 1 {
		t.Errorf("%d refusals are remembered", n)
	}
}

func TestARefusalOfOnePodConcernsNoOther(t *testing.T) {
	d, server, _ := newDrainer(t, newPod("a"), newPod("b"), newPod("c"))
	server.answer = func(_ context.Context, e *policyv1.Eviction) error {
		if e.Name == "b" {
			return blocked(0)
		}
		return nil
	}
	r := pass(t, d, &v1alpha1.Drain{})
	var got []string
	for _, p := range r.Pods {
		got = append(got, p.Name+" "+string(p.Reason))
	}
	if diff := cmp.Diff([]string{"b DisruptionBudget", "a Terminating", "c Terminating"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTwoDrainsOfOneNodeShareWhatWasRefused(t *testing.T) {
	d, server, _ := newDrainer(t, newPod("p"), newPod("selected", labelled("app", "a")))
	server.answer = func(context.Context, *policyv1.Eviction) error { return blocked(0) }
	var passes sync.WaitGroup
	for _, options := range []*v1alpha1.Drain{{}, {PodSelector: selecting("app", "a")}} {
		passes.Go(func() {
			if _, err := d.Pass(t.Context(), "n1", options, true); err != nil {
				t.Error(err)
			}
		})
	}
	passes.Wait()
	server.evicted()
	pass(t, d, &v1alpha1.Drain{PodSelector: selecting("app", "a")})
	pass(t, d, &v1alpha1.Drain{})
	if server.evicted() != 0 {
		t.Error("a refusal was forgotten since the other drain does not select the pod")
	}
}

func TestALookEvictsNothing(t *testing.T) {
	d, server, _ := newDrainer(t, newPod("p"))
	r, err := d.Pass(t.Context(), "n1", &v1alpha1.Drain{}, false)
	if err != nil || server.evicted() != 0 || r.Left != 1 || r.Done || r.Pods[0].Reason != v1alpha1.PodEvictable {
		t.Errorf("got %+v, %v", r, err)
	}
	server.answer = func(context.Context, *policyv1.Eviction) error { return blocked(0) }
	pass(t, d, &v1alpha1.Drain{})
	server.evicted()
	r, err = d.Pass(t.Context(), "n1", &v1alpha1.Drain{}, false)
	if err != nil || server.evicted() != 0 || r.Pods[0].Reason != v1alpha1.PodDisruptionBudget || r.Next != 4*firstPoll {
		t.Errorf("after a refusal that nobody repeats: %+v, %v", r, err)
	}
}

func TestAVetoLetsNothingBeEvicted(t *testing.T) {
	d, server, _ := newDrainer(t, newPod("p"), newPod("busy", daemon, labelled("busy", "yes")))
	options := &v1alpha1.Drain{VetoedBy: selecting("busy", "yes")}
	if r := pass(t, d, options); server.evicted() != 0 || r.Vetoes != 1 || r.Left != 2 || r.Done || r.Pods[0].Reason != v1alpha1.PodVeto {
		t.Errorf("got %+v", r)
	}
	server.pods = server.pods[1:]
	if r := pass(t, d, options); r.Done {
		t.Errorf("done although a pod vetoes: %+v", r)
	}
}

func TestADrainIsDoneWhenNothingIsWaitedFor(t *testing.T) {
	d, server, clk := newDrainer(t, newPod("p", endsIn(time.Second)), newPod("daemon", daemon))
	if r := pass(t, d, &v1alpha1.Drain{}); r.Done || r.Left != 1 {
		t.Errorf("ends: %+v", r)
	}
	clk.Step(time.Second + stuckAfter + time.Millisecond)
	if r := pass(t, d, &v1alpha1.Drain{}); !r.Done || r.Stuck != 1 || r.Left != 0 || r.Next != 0 || len(r.Pods) != 1 {
		t.Errorf("stuck: %+v", r)
	}
	server.pods = server.pods[1:]
	if r := pass(t, d, &v1alpha1.Drain{}); !r.Done || r.Stuck != 0 || len(r.Pods) != 0 {
		t.Errorf("gone: %+v", r)
	}
	if server.evicted() != 0 {
		t.Error("something was evicted")
	}
}

func TestTheNextPassComesLaterWhileNothingChanges(t *testing.T) {
	d, server, _ := newDrainer(t, newPod("data", storage))
	for i, want := range []time.Duration{1, 2, 4, 5, 5} {
		if r := pass(t, d, &v1alpha1.Drain{}); r.Next != want*time.Second {
			t.Errorf("pass %d: next after %s, want %ds", i, r.Next, want)
		}
	}
	server.pods = append(server.pods, newPod("late", endsIn(time.Hour)))
	if r := pass(t, d, &v1alpha1.Drain{}); r.Next != time.Second {
		t.Errorf("after a change: next after %s", r.Next)
	}
	pass(t, d, &v1alpha1.Drain{})
	server.pods[1] = newPod("evictable")
	if r := pass(t, d, &v1alpha1.Drain{}); r.Next != time.Second {
		t.Errorf("after an eviction: next after %s", r.Next)
	}
}

func TestEvictionsAreParallelButBoundedAndEndWithThePass(t *testing.T) {
	const pods = 3 * parallel
	d, server, _ := newDrainer(t)
	for i := range pods {
		server.pods = append(server.pods, newPod(fmt.Sprint("p", i)))
	}
	var mu sync.Mutex
	inFlight, most := 0, 0
	full := make(chan struct{})
	server.answer = func(ctx context.Context, _ *policyv1.Eviction) error {
		mu.Lock()
		inFlight++
		if most = max(most, inFlight); inFlight == parallel && most == parallel {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		defer func() { mu.Lock(); inFlight--; mu.Unlock() }()
		select { // the first ones wait until as many as may be are under way
		case <-full:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := d.Pass(ctx, "n1", &v1alpha1.Drain{}, true)
	if err != nil || r.Left != pods || most != parallel || inFlight != 0 || server.evicted() != pods {
		t.Errorf("left %d, at most %d at a time, %d outlived the pass, %v", r.Left, most, inFlight, err)
	}
	if len(r.Pods) != 32 {
		t.Errorf("%d pods are listed", len(r.Pods))
	}
}

func TestASlowServerDoesNotHoldAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, server, _ := newDrainer(t)
		for i := range 4 * parallel {
			server.pods = append(server.pods, newPod(fmt.Sprint("p", i)))
		}
		server.answer = func(ctx context.Context, _ *policyv1.Eviction) error {
			select {
			case <-time.After(startTime * 2 / 3):
				return nil
			case <-ctx.Done():
				t.Error("an eviction under way was cut short")
				return ctx.Err()
			}
		}
		began := time.Now()
		r := pass(t, d, &v1alpha1.Drain{})
		if took := time.Since(began); took != 2*startTime*2/3 || server.evicted() != 2*parallel {
			t.Errorf("the pass took %s", took)
		}
		if last := r.Pods[len(r.Pods)-1]; r.Left != 4*parallel || r.Next != time.Second || last.Reason != v1alpha1.PodTerminating {
			t.Errorf("got %+v", r)
		}
	})
}

func TestAPassEndsWithItsContext(t *testing.T) {
	d, server, _ := newDrainer(t)
	for i := range 3 * parallel {
		server.pods = append(server.pods, newPod(fmt.Sprint("p", i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	server.answer = func(ctx context.Context, _ *policyv1.Eviction) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	if _, err := d.Pass(ctx, "n1", &v1alpha1.Drain{}, true); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := server.evicted(); n > parallel {
		t.Errorf("%d evictions were started", n)
	}
	if n := len(d.nodes["n1"].refusals); n != 0 {
		t.Errorf("%d pods count as refused", n)
	}
}

func TestAListThatFailsIsAnError(t *testing.T) {
	d, server, _ := newDrainer(t)
	server.listErr = apierrors.NewTooManyRequests("busy", 10)
	began := time.Now()
	if _, err := d.Pass(t.Context(), "n1", &v1alpha1.Drain{}, true); !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "node n1") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the pass waited: %s", took)
	}
}

func TestWhatNeedsAPersonIsListedFirst(t *testing.T) {
	reasons := []v1alpha1.PodReason{
		v1alpha1.PodVeto, v1alpha1.PodEvictionFailed, v1alpha1.PodLocalStorage, v1alpha1.PodUnmanaged, v1alpha1.PodDisruptionBudget,
		v1alpha1.PodStuckTerminating, v1alpha1.PodVetoed, v1alpha1.PodTerminating, v1alpha1.PodEvictable,
	}
	var plan Plan
	for i := range reasons {
		for _, name := range []string{"b", "a"} {
			pod := newPod(name)
			plan.Pods = append(plan.Pods, Verdict{Pod: &pod, Reason: reasons[len(reasons)-1-i]})
		}
	}
	r := (&node{}).result(&plan, 0, true, now)
	for i, p := range r.Pods {
		if want := []string{"a", "b"}[i%2]; p.Reason != reasons[i/2] || p.Name != want {
			t.Errorf("pod %d: %s %s, want %s %s", i, p.Reason, p.Name, reasons[i/2], want)
		}
	}
}

func TestALongMessageFitsIntoTheStatus(t *testing.T) {
	held := func(pod *corev1.Pod) { pod.Finalizers = []string{strings.Repeat("a", 400), strings.Repeat("b", 400)} }
	d, _, _ := newDrainer(t, newPod("p", endsIn(-time.Hour), held))
	if r := pass(t, d, &v1alpha1.Drain{}); len(r.Pods[0].Message) > 512 {
		t.Errorf("%d bytes", len(r.Pods[0].Message))
	}
}

func TestAMessageIsCutInWholeCharacters(t *testing.T) {
	for _, message := range []string{"short", strings.Repeat("a", 512), strings.Repeat("ä", 300), "a" + strings.Repeat("€", 300), "bad \xff byte"} {
		got := clip(message)
		if len(got) > 512 || !utf8.ValidString(got) || len(message) <= 512 && utf8.ValidString(message) && got != message {
			t.Errorf("%.20s…: got %d bytes, valid %v", message, len(got), utf8.ValidString(got))
		}
		if len(message) > 512 && !strings.HasSuffix(got, "…") {
			t.Errorf("%.20s… is cut without a mark", message)
		}
	}
}
