package others

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/controller/evidence"
)

const (
	// kuredAnnotation is on a node from before kured drains it until it has rebooted, with
	// --annotate-nodes (cmd/kured/main.go of kubereboot/kured).
	kuredAnnotation = "weave.works/kured-reboot-in-progress"
	// kuredLockAnnotation is on kured's DaemonSet, whatever its name; --lock-annotation may name another
	// one.
	kuredLockAnnotation = "weave.works/kured-node-lock"
)

func kuredReboots(node *corev1.Node, _ Step) Hold {
	if _, does := node.Annotations[kuredAnnotation]; !does {
		return Hold{}
	}
	return Hold{Why: fmt.Sprintf("kured is about to reboot node %s: it has the annotation %s", node.Name, kuredAnnotation)}
}

// kuredLock asks whether kured has the lock for the node. Its DaemonSet is found by the annotation,
// since people choose name and namespace.
func kuredLock(ctx context.Context, c client.Reader, node *corev1.Node, step Step) (Hold, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DaemonSetList"))
	if err := c.List(ctx, &list); err != nil {
		return Hold{}, err
	}
	for i := range list.Items {
		ds := &list.Items[i]
		if value, is := ds.Annotations[kuredLockAnnotation]; is {
			if hold := locked(value, ds.Namespace+"/"+ds.Name, node.Name, step.Now); hold.Why != "" {
				return hold, nil
			}
		}
	}
	return Hold{}, nil
}

// lock is kured's (pkg/daemonsetlock): of one node, or of several with --concurrency.
type lock struct {
	NodeID  string        `json:"nodeID"`
	Created time.Time     `json:"created"`
	TTL     time.Duration `json:"TTL"`
	Locks   []lock        `json:"locks"`
}

// locked reads the lock in the annotation of a DaemonSet. One that is not understood is not kured's:
// whoever may write any DaemonSet could hold all nodes by it.
func locked(value, daemonSet, node string, now time.Time) Hold {
	var all lock
	if json.Unmarshal([]byte(value), &all) != nil {
		return Hold{}
	}
	for _, l := range append(all.Locks, all) {
		if l.NodeID != node || l.TTL > 0 && !l.Created.Add(l.TTL+evidence.MaxSkew).After(now) {
			continue
		}
		return Hold{Why: fmt.Sprintf("kured has locked node %s since %s, to reboot it: annotation %s of DaemonSet %s",
			node, stamp(l.Created), kuredLockAnnotation, daemonSet)}
	}
	return Hold{}
}
