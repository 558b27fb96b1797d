// Package coreapi is a client of the API group core/v1. That of client-go
// (kubernetes/typed/core/v1) is linked with every API group that Kubernetes has; to register
// them touches 13 MiB of the program at each start.
package coreapi

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// New returns a client of core/v1 for the API server that cfg names. It does not change cfg.
func New(cfg *rest.Config) (rest.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("setting up the connection to the API server %s: %w", cfg.Host, err)
	}
	return NewWithClient(cfg, client)
}

// NewWithClient is New with a connection that the caller has set up for cfg.
func NewWithClient(cfg *rest.Config, client *http.Client) (rest.Interface, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.GroupVersion, cfg.APIPath = &corev1.SchemeGroupVersion, "/api"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	core, err := rest.RESTClientForConfigAndClient(cfg, client)
	if err != nil {
		return nil, fmt.Errorf("setting up the connection to the API server %s: %w", cfg.Host, err)
	}
	return core, nil
}

// Scheme returns one that knows core/v1 alone.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the API group core/v1: %w", err)
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	return scheme, nil
}

// Node reads a node from the API server's cache, which can be behind.
func Node(ctx context.Context, core rest.Interface, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := core.Get().Resource("nodes").Name(name).Param("resourceVersion", "0").Do(ctx).Into(node)
	return node, err
}

// Events returns what writes events to their own namespaces.
func Events(core rest.Interface) record.EventSink { return events{core} }

type events struct{ core rest.Interface }

func (e events) Create(event *corev1.Event) (*corev1.Event, error) {
	return send(e.core.Post().Namespace(event.Namespace).Body(event))
}

func (e events) Update(event *corev1.Event) (*corev1.Event, error) {
	return send(e.core.Put().Namespace(event.Namespace).Name(event.Name).Body(event))
}

func (e events) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	return send(e.core.Patch(types.StrategicMergePatchType).Namespace(event.Namespace).Name(event.Name).Body(data))
}

func send(request *rest.Request) (*corev1.Event, error) {
	written := &corev1.Event{}
	err := request.Resource("events").Do(context.TODO()).Into(written) //nolint:forbidigo // the interface of sinks has no context
	return written, err
}
