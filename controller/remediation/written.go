package remediation

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// written has the remediations as this controller's last writes have made them, until the
// cache has them, too. A decision from before them would be in vain: its write is refused.
// It is safe for use by several goroutines.
type written struct {
	mu     sync.Mutex
	byName map[string]*v1alpha1.Remediation
}

// keep remembers what a write has made of a remediation, which must not be changed any more.
func (w *written) keep(r *v1alpha1.Remediation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byName == nil {
		w.byName = map[string]*v1alpha1.Remediation{}
	}
	w.byName[r.Name] = r
}

// latest returns the remediation as the last write has made it, or as the cache has it if that
// is not older.
func (w *written) latest(cached *v1alpha1.Remediation) *v1alpha1.Remediation {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.byName[cached.Name]
	if last == nil {
		return cached
	}
	if c, err := resourceversion.CompareResourceVersion(last.ResourceVersion, cached.ResourceVersion); err != nil || c <= 0 || last.UID != cached.UID {
		delete(w.byName, cached.Name)
		return cached
	}
	return last
}

// drop forgets a remediation that is gone.
func (w *written) drop(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byName, name)
}
