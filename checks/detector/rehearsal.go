package detector

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks/containerruntime"
	"github.com/nodemend/nodemend/checks/kubelet"
	"github.com/nodemend/nodemend/checks/pleg"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/coreapi"
	"github.com/nodemend/nodemend/internal/filled"
)

// RehearsalTime bounds a rehearsal.
const RehearsalTime = time.Minute

// unhindered is a limit of requests a second that a rehearsal does not come to. There is one, as in
// earnest: what asks it is executed, too.
const unhindered = 1000

// twice is how often a problem has to be reported in each act: what is reported first may be of a run
// that has begun before it.
const twice = 2

// rehearse runs a detector like this one whose container runtime and kubelet do not answer, until
// it has reported that, all of it by the code that really does so. A program that locks its memory
// then has in memory what it takes to report a problem. Without that it would have to read it from
// its disk, whose death may be the problem.
//
// There are four acts, since each takes code of its own: they answer with errors, fall silent on
// connections that stand, are silent to new ones, and are gone. Meanwhile the API server refuses
// requests, and can't be reached.
//
// Nothing of it has an effect: the API server, the runtime and the kubelet are played, and no
// file is written.
func rehearse(ctx context.Context, options Options) error {
	ctx, enough := context.WithTimeout(ctx, RehearsalTime)
	defer enough()
	dir, err := os.MkdirTemp("", "nodemend-rehearsal-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is empty but for a socket
	socket := filepath.Join(dir, "cri.sock")
	cri, err := listen(ctx, "unix", socket, refuseCalls)
	if err != nil {
		return err
	}
	defer cri.stop()
	api, err := listen(ctx, "tcp", "127.0.0.1:0", refuseRequest)
	if err != nil {
		return err
	}
	defer api.stop()

	c := options.Config
	c.StateFile, c.Socket, c.Conditions = "", "", nil
	c.Heartbeat.Interval.Duration, c.Heartbeat.ProblemInterval.Duration = time.Second, time.Second
	c.Kubelet = config.Kubelet{Endpoint: "https://" + api.Addr().String(), HealthzEndpoint: "http://" + api.Addr().String(), InsecureSkipTLSVerify: true}
	c.Checks.Runtime.Endpoint = "unix://" + socket
	c.Checks.Only = nil
	scheme, err := coreapi.Scheme()
	if err != nil {
		return err
	}
	stage := &stage{node: options.NodeName, scheme: scheme, awaited: map[string]int{}, asked: map[string]int{}, acts: []func(){
		func() {
			cri.fallSilent()
			api.fallSilent()
		},
		func() {
			cri.hangUp()
			api.hangUp()
		},
		func() {
			cri.stop()
			api.stop()
		},
		enough,
	}}
	for _, kind := range Kinds() {
		run := kind.Settings(&c.Checks)
		switch kind.ConditionType {
		case containerruntime.ConditionType, pleg.ConditionType, kubelet.ConditionType: // which ask the one or the other
			run.Enabled = options.Config.Checks.Runs(kind.Name)
			if run.Enabled {
				stage.awaited[kind.ConditionType] = twice
			}
		default:
			run.Enabled = false
		}
		run.Interval.Duration, run.Timeout.Duration, run.StartupGrace.Duration = time.Second, 500*time.Millisecond, 0
		run.FailureThreshold, run.SuccessThreshold = 1, 1
	}
	if len(stage.awaited) == 0 {
		return nil // there is nothing to rehearse
	}
	log := logr.FromSlogHandler(slog.NewJSONHandler(io.Discard, nil)) // what is logged is put into words
	err = Run(klog.NewContext(ctx, log), Options{
		NodeName: options.NodeName, Config: c, EventNamespace: options.EventNamespace,
		Client:     &rest.Config{Host: "http://rehearsal", Transport: stage, QPS: unhindered, Burst: unhindered},
		rehearsing: true,
	})
	if err == nil && !stage.over() {
		err = fmt.Errorf("not all problems were reported: %w", context.Cause(ctx))
	}
	return err
}

// stage plays the API server of a rehearsal. It has a Node without problems, with a
// value in each field.
type stage struct {
	node   string
	scheme *runtime.Scheme

	lock sync.Mutex
	// awaited says of each condition how often a problem is to be reported yet before the next act.
	awaited map[string]int
	acts    []func()       // what is done at the end of this one, the next, ...
	asked   map[string]int // how often, by the method and the last part of the path
}

// over reports whether all acts have come to their end.
func (s *stage) over() bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return len(s.acts) == 0
}

// RoundTrip implements http.RoundTripper.
func (s *stage) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }() // was only read
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	switch way := s.fails(r); {
	case way == 1:
		return refuse(r, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case way == 2:
		return refuse(r, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	case way == 3:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", unix.ECONNREFUSED)}
	case r.Method == http.MethodGet:
		return s.answer(r, http.StatusOK, s.healthyNode())
	case strings.HasSuffix(r.URL.Path, "/status"):
		if err := s.take(body); err != nil {
			return nil, err
		}
		return s.answer(r, http.StatusOK, s.healthyNode())
	default: // an event
		return s.answer(r, http.StatusCreated, &corev1.Event{})
	}
}

// fails returns in which way a request fails, from 1 on; 0: in none. Each second one of its kind does.
func (s *stage) fails(r *http.Request) int {
	what := r.Method + " " + path.Base(r.URL.Path)
	s.lock.Lock()
	defer s.lock.Unlock()
	s.asked[what]++
	if s.asked[what]%2 == 1 {
		return 0
	}
	return s.asked[what] / 2
}

// refuse answers by an error. That there are too many requests says when to try again: client-go does
// so by itself.
func refuse(r *http.Request, code int32, reason metav1.StatusReason) (*http.Response, error) {
	data, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "rehearsal",
	})
	response := response(r, int(code), runtime.ContentTypeJSON, data)
	if code == http.StatusTooManyRequests {
		response.Header.Set("Retry-After", "0")
	}
	return response, err
}

// take notes which problems a patch reports, and begins the next act when all have been.
func (s *stage) take(patch []byte) error {
	var node corev1.Node
	if err := json.Unmarshal(patch, &node); err != nil {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	left := 0
	for _, c := range node.Status.Conditions {
		if c.Status != corev1.ConditionFalse {
			s.awaited[string(c.Type)]--
		}
	}
	for _, n := range s.awaited {
		left += max(0, n)
	}
	if left > 0 || len(s.acts) == 0 {
		return nil
	}
	for conditionType := range s.awaited {
		s.awaited[conditionType] = twice
	}
	end := s.acts[0]
	s.acts = s.acts[1:]
	end()
	return nil
}

func (s *stage) healthyNode() *corev1.Node {
	now := metav1.Now()
	healthy := func(conditionType string, status corev1.ConditionStatus) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: corev1.NodeConditionType(conditionType), Status: status, Reason: "Rehearsal", LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	node := &corev1.Node{}
	filled.Fill(node, now.Time)
	node.Name, node.UID, node.ResourceVersion, node.DeletionTimestamp = s.node, "rehearsal", "1", nil
	node.Status.Conditions = append(node.Status.Conditions, healthy(string(corev1.NodeReady), corev1.ConditionTrue))
	for _, kind := range Kinds() {
		node.Status.Conditions = append(node.Status.Conditions, healthy(kind.ConditionType, corev1.ConditionFalse))
	}
	return node
}

// answer answers as an API server does to this client.
func (s *stage) answer(r *http.Request, status int, object runtime.Object) (*http.Response, error) {
	var data bytes.Buffer
	if err := protobuf.NewSerializer(s.scheme, s.scheme).Encode(object, &data); err != nil {
		return nil, err
	}
	return response(r, status, runtime.ContentTypeProtobuf, data.Bytes()), nil
}

func response(r *http.Request, status int, contentType string, data []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/2.0", ProtoMajor: 2, Request: r,
		Header: http.Header{"Content-Type": {contentType}, "Date": {metav1.Now().UTC().Format(http.TimeFormat)}},
		Body:   io.NopCloser(bytes.NewReader(data)), ContentLength: int64(len(data)),
	}
}
