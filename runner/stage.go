package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"runtime"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// stage plays the API server of a rehearsal: it has one action, and the policy, the
// remediation and the Node that the action takes to be executed. Each kind of request about
// the action fails once, so that it is repeated.
type stage struct {
	ended func() // called when the action has been reported, with an event
	// refusesEvents: that is logged, with the event.
	refusesEvents bool

	lock    sync.Mutex
	action  v1alpha1.NodeAction
	told    bool
	failed  map[string]bool // by the methods that have failed once
	objects map[string]any  // by the ends of their paths
}

func newStage(node string, step v1alpha1.Step, ended func()) (*stage, error) {
	const name, fault = "rehearsal", "Rehearsed"
	hash, err := step.Hash()
	if err != nil {
		return nil, err
	}
	now := metav1.Now()
	meta := func(of string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: of, UID: name, ResourceVersion: "1", Generation: 1, CreationTimestamp: now}
	}
	match := []v1alpha1.ConditionMatch{{Type: fault, Status: corev1.ConditionTrue}}
	policy := v1alpha1.PolicyReference{Name: name, UID: name}
	s := &stage{ended: ended, failed: map[string]bool{}}
	s.action = v1alpha1.NodeAction{TypeMeta: own("NodeAction"), ObjectMeta: meta(name), Spec: v1alpha1.NodeActionSpec{
		NodeName: node, NodeUID: name, Policy: policy, Remediation: name, RemediationUID: name,
		StepHash: hash, Step: 1, Attempt: 1, ExpiresAt: metav1.NewTime(now.Add(rehearsalTime)),
	}}
	s.objects = map[string]any{
		"remediations/" + name: &v1alpha1.Remediation{
			TypeMeta: own("Remediation"), ObjectMeta: meta(name),
			Spec: v1alpha1.RemediationSpec{
				NodeName: node, NodeUID: name, Policy: policy, Match: match, Steps: []v1alpha1.Step{step},
				Trigger: v1alpha1.Trigger{Type: fault, Status: corev1.ConditionTrue, LastTransitionTime: now},
			},
			Status: v1alpha1.RemediationStatus{Action: name},
		},
		"remedypolicies/" + name: &v1alpha1.RemedyPolicy{
			TypeMeta: own("RemedyPolicy"), ObjectMeta: meta(name),
			Spec: v1alpha1.RemedyPolicySpec{Match: match, Steps: []v1alpha1.Step{step}},
		},
		"nodes/" + node: &corev1.Node{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: meta(node),
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: fault, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now},
			}},
		},
	}
	for resource, object := range filledObjects() {
		s.objects[resource+"/"+filledName] = object
	}
	return s, nil
}

// own is the type of an object of ours.
func own(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind}
}

// reported says whether the action has come to its end.
func (s *stage) reported() bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.action.Finished() != nil
}

// RoundTrip implements http.RoundTripper.
func (s *stage) RoundTrip(request *http.Request) (*http.Response, error) {
	runtime.GC()
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		if err := request.Body.Close(); err != nil {
			return nil, err
		}
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	defer s.look()
	dir, name := path.Split(strings.TrimSuffix(request.URL.Path, "/status"))
	resource := path.Base(dir)
	switch {
	case name == s.action.Name && !s.failed[request.Method]:
		s.failed[request.Method] = true
		if request.Method == http.MethodPut {
			return nil, errors.New("lost")
		}
		return answer(request, http.StatusServiceUnavailable, failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable))
	case s.objects[resource+"/"+name] != nil:
		return answer(request, http.StatusOK, s.objects[resource+"/"+name])
	case resource == actionResource && request.Method == http.MethodPut:
		if err := json.Unmarshal(body, &s.action); err != nil {
			return nil, fmt.Errorf("reading what a rehearsal has written: %w", err)
		}
		s.action.ResourceVersion += "1"
		return answer(request, http.StatusOK, s.action)
	case resource == actionResource:
		return answer(request, http.StatusOK, s.action)
	case name == actionResource:
		return s.list(request)
	case name == "events":
		s.told = true
		if s.refusesEvents {
			return answer(request, http.StatusInternalServerError, failure(http.StatusInternalServerError, metav1.StatusReasonInternalError))
		}
		return answer(request, http.StatusCreated, json.RawMessage(body))
	default:
		return answer(request, http.StatusNotFound, failure(http.StatusNotFound, metav1.StatusReasonNotFound))
	}
}

func failure(code int32, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason,
	}
}

// look ends the rehearsal.
func (s *stage) look() {
	if s.told && s.action.Finished() != nil {
		s.ended()
	}
}

// list answers a list, or a watch, which may begin with one (KEP-3157).
func (s *stage) list(request *http.Request) (*http.Response, error) {
	if query := request.URL.Query(); query.Get("watch") == "" {
		return answer(request, http.StatusOK, v1alpha1.NodeActionList{
			TypeMeta: own("NodeActionList"),
			ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []v1alpha1.NodeAction{s.action},
		})
	} else if query.Get("sendInitialEvents") == "" {
		return stream(request), nil
	}
	type event struct {
		Type   string              `json:"type"`
		Object v1alpha1.NodeAction `json:"object"`
	}
	end := v1alpha1.NodeAction{TypeMeta: s.action.TypeMeta}
	end.ResourceVersion, end.Annotations = "1", map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	added, err := json.Marshal(event{"ADDED", s.action})
	if err != nil {
		return nil, err
	}
	bookmark, err := json.Marshal(event{"BOOKMARK", end})
	return stream(request, added, bookmark), err
}

// answer answers a request by an object.
func answer(request *http.Request, status int, object any) (*http.Response, error) {
	body, err := json.Marshal(object)
	return response(request, status, io.NopCloser(bytes.NewReader(body))), err
}

// stream answers a request by some objects, and by no end as long as it lasts.
func stream(request *http.Request, objects ...[]byte) *http.Response {
	return response(request, http.StatusOK, io.NopCloser(io.MultiReader(bytes.NewReader(bytes.Join(objects, nil)), lasts{request.Context()})))
}

// lasts is read without an end until a request has ended.
type lasts struct{ request context.Context }

func (l lasts) Read([]byte) (int, error) {
	<-l.request.Done()
	return 0, io.EOF
}

func response(request *http.Request, status int, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/2.0", ProtoMajor: 2, ContentLength: -1,
		Header:  http.Header{"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}},
		Request: request, Body: body,
	}
}
