package bounded

import "sync"

// Group makes calls beside each other. Its zero value has made none.
type Group struct {
	running  sync.WaitGroup
	lock     sync.Mutex
	panicked *Panic // the first
}

// Go starts a call of f.
func (g *Group) Go(f func()) {
	g.running.Go(func() {
		if p := guard(f); p != nil {
			g.lock.Lock()
			defer g.lock.Unlock()
			if g.panicked == nil {
				g.panicked = p
			}
		}
	})
}

// Wait waits for all calls. If one has panicked, so does Wait.
func (g *Group) Wait() {
	g.running.Wait()
	if g.panicked != nil {
		panic(*g.panicked) //nolint:forbidigo // it is the call's
	}
}
