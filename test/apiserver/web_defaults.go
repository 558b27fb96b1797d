package apiserver

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// addDefaults lets pods have the defaults that the API server gives them.
func addDefaults(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&corev1.Pod{}, func(obj any) { defaultPod(obj.(*corev1.Pod)) })
	scheme.AddTypeDefaultingFunc(&corev1.Namespace{}, func(obj any) {
		namespace := obj.(*corev1.Namespace)
		if namespace.Name == "" {
			return
		}
		if namespace.Labels == nil {
			namespace.Labels = map[string]string{}
		}
		namespace.Labels[corev1.LabelMetadataName] = namespace.Name
	})
}

func defaultPod(pod *corev1.Pod) {
	spec := &pod.Spec
	setDefault(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setDefault(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setDefault(&spec.SchedulerName, corev1.DefaultSchedulerName)
	setDefault(&spec.EnableServiceLinks, ptr.To(corev1.DefaultEnableServiceLinks))
	setDefault(&spec.TerminationGracePeriodSeconds, ptr.To(int64(corev1.DefaultTerminationGracePeriodSeconds)))
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		setDefault(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
		setDefault(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
		setDefault(&c.ImagePullPolicy, pullPolicyOf(c.Image))
	}
}

// pullPolicyOf an image: the latest one, which is that without a tag, may have changed.
func pullPolicyOf(image string) corev1.PullPolicy {
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if tag == "" || tag == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// setDefault gives a field its default if it has no value.
func setDefault[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}

// qosOf is the class of a pod: guaranteed ones are not told apart from burstable ones.
func qosOf(pod *corev1.Pod) corev1.PodQOSClass {
	for _, c := range pod.Spec.Containers {
		if len(c.Resources.Requests)+len(c.Resources.Limits) > 0 {
			return corev1.PodQOSBurstable
		}
	}
	return corev1.PodQOSBestEffort
}
