package remediation

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// unseenFor is for how long a remediation may be missing in the cache that was just created.
const unseenFor = 5 * time.Second

// written has the remediations as this controller's last writes have made them, until the
// cache has them, too. A decision from before them would be in vain: its write is refused.
// It is safe for use by several goroutines.
type written struct {
	mu     sync.Mutex
	byName map[string]*ownWrite
}

// ownWrite is what a write has made of a remediation.
type ownWrite struct {
	remediation *v1alpha1.Remediation
	// created is when the remediation was, unless the cache has shown it since.
	created time.Time
}

// created remembers a remediation that was created now.
func (w *written) created(r *v1alpha1.Remediation, now time.Time) { w.put(&ownWrite{r, now}) }

// keep remembers what a write has made of a remediation.
func (w *written) keep(r *v1alpha1.Remediation) { w.put(&ownWrite{remediation: r}) }

// put remembers a write. Its remediation must not be changed any more.
func (w *written) put(write *ownWrite) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byName == nil {
		w.byName = map[string]*ownWrite{}
	}
	name := write.remediation.Name
	if before := w.byName[name]; before != nil && write.created.IsZero() && before.remediation.UID == write.remediation.UID {
		write.created = before.created
	}
	w.byName[name] = write
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
	if c, err := resourceversion.CompareResourceVersion(last.remediation.ResourceVersion, cached.ResourceVersion); err != nil || c <= 0 || last.remediation.UID != cached.UID {
		delete(w.byName, cached.Name)
		return cached
	}
	last.created = time.Time{}
	return last.remediation
}

// unseen returns the remediation of this name that was just created, if the cache is still
// without it. If it is for longer, it is gone: nil.
func (w *written) unseen(name string, now time.Time) *v1alpha1.Remediation {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.byName[name]
	if last == nil {
		return nil
	}
	if age := now.Sub(last.created); last.created.IsZero() || age < 0 || age > unseenFor {
		delete(w.byName, name)
		return nil
	}
	return last.remediation
}

// drop forgets a remediation that is gone.
func (w *written) drop(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byName, name)
}
