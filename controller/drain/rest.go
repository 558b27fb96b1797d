package drain

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// restPods are reached by a REST client since typed ones, and controller-runtime's,
// repeat a request for as long as a server says Retry-After, and sleep meanwhile. A list
// costs the same with each.
type restPods struct{ client rest.Interface }

func newRESTPods(cfg *rest.Config, client *http.Client) (restPods, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = "/api", &corev1.SchemeGroupVersion
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c, err := rest.RESTClientForConfigAndClient(cfg, client)
	if err != nil {
		return restPods{}, fmt.Errorf("setting up the client for drains: %w", err)
	}
	return restPods{c}, nil
}

// OnNode implements Pods. Since Kubernetes 1.31 the list comes from the index that the
// API server's cache has for that, and is consistent with etcd.
func (p restPods) OnNode(ctx context.Context, node string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := p.client.Get().Resource("pods").
		VersionedParams(&metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
		}, scheme.ParameterCodec).
		MaxRetries(0). // each would wait here for as long as the server says
		Do(ctx).Into(&list)
	return list.Items, err
}

// Evict implements Pods.
func (p restPods) Evict(ctx context.Context, pod *corev1.Pod, gracePeriodSeconds *int64) error {
	return p.client.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		Body(&policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{
				GracePeriodSeconds: gracePeriodSeconds,
				Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
			},
		}).
		MaxRetries(0). // each would wait here for as long as the server says
		Do(ctx).Error()
}
