package sim

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodemend/nodemend/test/apiserver"
)

// handedOver remembers when an action was in the hands of another program: as long as there was the
// object that it owns.
func (o *oracles) handedOver(c apiserver.Change) {
	object, is := c.New.(*unstructured.Unstructured)
	gone := time.Time{}
	if c.New == nil {
		object, is = c.Old.(*unstructured.Unstructured)
		gone = time.Now()
	}
	if !is {
		return
	}
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == "NodeAction" {
			o.handed[owner.Name] = gone
		}
	}
}
