package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

// volumes are those of StatefulSets, each of one pod, with what of Kubernetes moves them: all of it believes
// the taint out-of-service blindly.
type volumes struct {
	world *world
	all   []*volume
	// moving are the nodes with the taint of which pods and volumes are being freed.
	moving map[string]bool
}

// volume is that of one pod, which has the volume's name, as has its VolumeAttachment.
type volume struct {
	name string
	// at is the node that it is attached to; nil: none. writes is the boot of that node in which the pod writes
	// to it, 0: it does not.
	at     *node
	writes int
	// sticks is until when its driver can't detach it.
	sticks time.Time
}

// runs reports whether the pod of the volume writes to it: a host that hangs may go on at any time.
func (v *volume) runs() bool { return v.at != nil && v.writes != 0 && v.at.up && v.at.boot == v.writes }

// add has a pod with a volume on a node.
func (s *volumes) add(n *node) {
	v := &volume{name: n.name + "-db"}
	s.all = append(s.all, v)
	s.place(v, n)
}

// place binds the pod of a volume to a node, and attaches the volume to that.
func (s *volumes) place(v *volume, n *node) {
	w := s.world
	w.pod(n, v.name)
	w.must(w.admin.Create(w.ctx, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: v.name}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: "csi.example.com", NodeName: n.name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To(v.name)},
	}}))
	v.at, v.writes = n, 0
	w.after(2*time.Second, func() { s.run(n) })
}

// pod returns that of a volume, nil if there is none.
func (s *volumes) pod(v *volume) *corev1.Pod {
	return apiserver.Peek[*corev1.Pod](s.world.server, client.ObjectKey{Namespace: "default", Name: v.name})
}

// of returns the volume of a pod, nil if it has none.
func (s *volumes) of(pod *corev1.Pod) *volume {
	for _, v := range s.all {
		if v.name == pod.Name {
			return v
		}
	}
	return nil
}

// run lets the kubelet of a node start and end pods as the API server has them. It starts none that is told to
// end, nor one that does not tolerate a taint.
func (s *volumes) run(n *node) {
	obj := n.object()
	if obj == nil || !n.connected() {
		return
	}
	for _, v := range s.all {
		if v.at != n {
			continue
		}
		pod := s.pod(v)
		switch {
		case pod == nil || pod.Spec.NodeName != n.name:
			v.writes = 0
		case v.writes != n.boot && pod.DeletionTimestamp == nil && !v1alpha1.IsOutOfService(obj):
			v.writes = n.boot
			s.world.say("kubelet "+n.name, "pod %s writes", v.name)
		}
	}
}

// attend plays what Kubernetes does about a change.
func (s *volumes) attend(c apiserver.Change) {
	w := s.world
	if node, is := c.New.(*corev1.Node); is && v1alpha1.IsOutOfService(node) && !s.moving[node.Name] {
		if s.moving == nil {
			s.moving = map[string]bool{}
		}
		s.moving[node.Name] = true
		w.after(of(w.choices, time.Second, 0, 5*time.Second), func() { s.move(w.node(node.Name)) })
		for _, v := range s.all {
			if v.at != nil && v.at.name == node.Name && w.chaos && w.chance(250) {
				v.sticks = time.Now().Add(of(w.choices, 8*time.Minute, 2*time.Minute))
			}
		}
	}
	if pod, is := c.Old.(*corev1.Pod); is && c.New == nil {
		if v := s.of(pod); v != nil {
			w.after(of(w.choices, time.Second, 10*time.Second), func() { s.detach(v, false) })
			w.after(of(w.choices, 5*time.Second, 30*time.Second), func() { s.again(v) })
		}
	}
}

// move frees pods and volumes of a node for as long as it has the taint: pods are told to end, those that are
// are gone if the node is not Ready, and volumes of the gone are detached.
func (s *volumes) move(n *node) {
	w := s.world
	obj := n.object()
	if obj == nil || !v1alpha1.IsOutOfService(obj) {
		delete(s.moving, n.name)
		return
	}
	for _, pod := range apiserver.Stored[*corev1.Pod](w.server) {
		switch {
		case pod.Spec.NodeName != n.name:
		case pod.DeletionTimestamp == nil:
			w.must(client.IgnoreNotFound(w.admin.Delete(w.ctx, pod.DeepCopy())))
		case notReady(obj):
			w.must(client.IgnoreNotFound(w.admin.Delete(w.ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))))
		}
	}
	for _, v := range s.all {
		if v.at == n {
			s.detach(v, true)
		}
	}
	w.after(of(w.choices, 3*time.Second, 20*time.Second), func() { s.move(n) })
}

// detach detaches the volume of a pod that is gone: at once if its node's kubelet has ended it or the node has the
// taint, later by time alone.
func (s *volumes) detach(v *volume, tainted bool) {
	w := s.world
	switch {
	case v.at == nil || s.pod(v) != nil:
		return
	case v.sticks.After(time.Now()):
		w.after(time.Until(v.sticks), func() { s.detach(v, tainted) })
		return
	}
	if obj := v.at.object(); v.writes != 0 && !tainted && (obj == nil || !v1alpha1.IsOutOfService(obj)) {
		s.run(v.at) // its kubelet sees it, too
		if v.writes != 0 {
			w.after(6*time.Minute, func() { s.detach(v, true) })
			return
		}
	}
	w.oracles.detached(v)
	w.say("attach-detach", "volume %s is detached from %s", v.name, v.at.name)
	w.must(w.admin.Delete(w.ctx, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: v.name}}))
	v.at, v.writes = nil, 0
}

// again makes the pod of a volume anew, on a node that takes it, once the volume is detached.
func (s *volumes) again(v *volume) {
	w := s.world
	if s.pod(v) != nil {
		return
	}
	var fit []*node
	for _, n := range w.nodes {
		if obj := n.object(); obj != nil && available(obj) {
			fit = append(fit, n)
		}
	}
	if v.at != nil || fit == nil {
		w.after(30*time.Second, func() { s.again(v) })
		return
	}
	w.count("a pod with a volume starts again")
	s.place(v, of(w.choices, fit...))
}

// ends notes that the kubelet has ended a pod.
func (s *volumes) ends(pod *corev1.Pod) {
	if v := s.of(pod); v != nil && v.at != nil && v.at.name == pod.Spec.NodeName {
		v.writes = 0
	}
}
