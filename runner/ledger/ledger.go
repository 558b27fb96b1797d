// Package ledger remembers on the node what its runners have begun, from the
// moment before the first side effect until the node boots again.
//
// It is what makes a second execution impossible when the API server's memory is
// not enough: an action that was deleted and created again under its name is
// known, and a runner that finds the claim of a killed one knows whether anything
// was begun for it.
package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/nodemend/nodemend/internal/atomicfile"
	"github.com/nodemend/nodemend/runner/remedy"
)

// maxReported is how many reported entries are kept: far more actions than a node
// sees while one of them could be created again.
const maxReported = 1000

// Entry is what is known of one order.
type Entry struct {
	Order remedy.Order `json:"order"`
	// Outcome is nil as long as the order may be under way.
	Outcome *remedy.Outcome `json:"outcome,omitempty"`
	// Ended is how long the node had been up when it was known to have ended. 0 before that, and
	// in entries of earlier versions.
	Ended time.Duration `json:"ended,omitempty"`
	// Reported says that the API server knows the outcome or that the action is
	// gone. Little more than the name and the times is kept then.
	Reported bool `json:"reported,omitempty"`
}

// Ledger keeps entries in a directory. Not safe for concurrent use.
type Ledger struct {
	dir     string
	id      string
	entries map[string]*Entry // by the name of the action
}

// Open opens the ledger in a directory, whose lock the caller holds. It is made
// for root alone if it is not there. A file in it that can't be read is an
// error, since it may stand for something that was executed.
func Open(dir string) (*Ledger, error) {
	l := &Ledger{dir: dir, entries: map[string]*Entry{}}
	if err := os.MkdirAll(l.actions(), 0o700); err != nil {
		return nil, fmt.Errorf("making the runner's ledger: %w", err)
	}
	if err := l.identify(); err != nil {
		return nil, err
	}
	if err := l.load(); err != nil {
		return nil, err
	}
	return l, nil
}

// RunnerID returns an ID for a runner process that writes to this ledger.
func (l *Ledger) RunnerID() string { return l.id + "." + string(uuid.NewUUID())[:8] }

// Knows reports whether the runner process with this ID has written to this
// ledger. If so, it has begun nothing that is not in it.
func (l *Ledger) Knows(runnerID string) bool { return strings.HasPrefix(runnerID, l.id+".") }

// Find returns the entry of the action with this name, or nil.
func (l *Ledger) Find(action string) *Entry { return l.entries[action] }

// Pending returns the entries whose outcome is not reported, oldest first.
func (l *Ledger) Pending() []*Entry {
	var pending []*Entry
	for _, e := range l.entries {
		if !e.Reported {
			pending = append(pending, e)
		}
	}
	slices.SortFunc(pending, older)
	return pending
}

// Begin enters an order. It is called before its first side effect, which must
// not follow an error.
func (l *Ledger) Begin(order remedy.Order) error {
	if e := l.entries[order.Action]; e != nil {
		return fmt.Errorf("the runner's ledger has NodeAction %s already, with UID %s", order.Action, e.Order.UID)
	}
	if err := l.put(&Entry{Order: order}); err != nil {
		delete(l.entries, order.Action)
		// It may be there although it could not be made sure that it lasts.
		return errors.Join(err, l.remove(order.Action))
	}
	return nil
}

// remove removes the file of an action, if there is one.
func (l *Ledger) remove(action string) error {
	if err := os.Remove(l.path(action)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing an entry of the runner's ledger: %w", err)
	}
	return nil
}

// End enters the outcome of an order, and how long the node has been up. After an error
// both are known to this process only.
func (l *Ledger) End(action string, outcome remedy.Outcome, uptime time.Duration) error {
	e := *l.entries[action]
	e.Outcome, e.Ended = &outcome, uptime
	return l.put(&e)
}

// LastEnd is how long the node had been up when an order of this boot last ended; 0: none has.
func (l *Ledger) LastEnd(bootID string) (uptime time.Duration) {
	for _, e := range l.entries {
		if e.Order.BootID == bootID {
			uptime = max(uptime, e.Ended)
		}
	}
	return uptime
}

// Reported enters that the outcome need not be reported any more.
func (l *Ledger) Reported(action string) error {
	order, ended := l.entries[action].Order, l.entries[action].Ended
	err := l.put(&Entry{
		Order:    remedy.Order{Action: order.Action, UID: order.UID, BootID: order.BootID, StartedAt: order.StartedAt},
		Ended:    ended,
		Reported: true,
	})
	return errors.Join(err, l.prune())
}

// put keeps the entry in memory even if it can't be written.
func (l *Ledger) put(e *Entry) error {
	data, err := json.Marshal(e)
	if err == nil {
		err = atomicfile.Replace(l.path(e.Order.Action), data)
	}
	l.entries[e.Order.Action] = e
	if err != nil {
		return fmt.Errorf("writing the runner's ledger: %w", err)
	}
	return nil
}

// prune forgets the oldest reported entries if there are too many.
func (l *Ledger) prune() error {
	var reported []*Entry
	for _, e := range l.entries {
		if e.Reported {
			reported = append(reported, e)
		}
	}
	if len(reported) <= maxReported {
		return nil
	}
	slices.SortFunc(reported, older)
	var errs []error
	for _, e := range reported[:len(reported)-maxReported] {
		if err := l.remove(e.Order.Action); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(l.entries, e.Order.Action)
	}
	return errors.Join(errs...)
}

func older(a, b *Entry) int { return a.Order.StartedAt.Compare(b.Order.StartedAt) }

// identify gives the ledger an ID of its own, once: a new ledger, in which entries
// of an old one may be missing, has another.
func (l *Ledger) identify() error {
	path := filepath.Join(l.dir, "id")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		data = []byte(uuid.NewUUID())
		err = atomicfile.Replace(path, data)
	}
	if err != nil {
		return fmt.Errorf("identifying the runner's ledger: %w", err)
	}
	if l.id = strings.TrimSpace(string(data)); l.id == "" {
		return fmt.Errorf("identifying the runner's ledger: %s is empty; if nothing of it can be running, remove the directory %s", path, l.dir)
	}
	return nil
}

func (l *Ledger) load() error {
	files, err := os.ReadDir(l.actions())
	if err != nil {
		return fmt.Errorf("reading the runner's ledger: %w", err)
	}
	for _, file := range files {
		if strings.HasPrefix(file.Name(), ".") {
			continue // a write that a crash cut short
		}
		e, err := read(filepath.Join(l.actions(), file.Name()))
		if err != nil {
			return fmt.Errorf("reading the runner's ledger: %w; if nothing of it can be running, remove the directory %s: what was begun is then reported as Interrupted", err, l.dir)
		}
		l.entries[e.Order.Action] = e
	}
	return nil
}

func read(path string) (*Entry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	e := &Entry{}
	if err := json.Unmarshal(data, e); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if e.Order.Action == "" || e.Order.UID == "" {
		return nil, fmt.Errorf("%s: it names no action", path)
	}
	return e, nil
}

func (l *Ledger) actions() string { return filepath.Join(l.dir, "actions") }

// path is the file of an action. Names can be too long for one.
func (l *Ledger) path(action string) string {
	sum := sha256.Sum256([]byte(action))
	return filepath.Join(l.actions(), hex.EncodeToString(sum[:16])+".json")
}
