package hostunits

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// claimAge is how old a claim can get before it counts for nothing.
const claimAge = 3 * time.Minute

// claim is a file of the host that says which installer looks after a unit. While
// the pod is replaced there may be two for a moment: the later one takes the claim
// over, and the earlier one keeps its hands off, or they would undo each other's
// work. It takes the claim back if the later one has gone.
type claim struct {
	path string
	id   types.UID
}

type claimContent struct {
	ID      types.UID `json:"id"`
	Renewed time.Time `json:"renewed"`
}

// take makes the claim ours, whoever had it.
func (c claim) take() error {
	content, err := json.Marshal(claimContent{ID: c.id, Renewed: time.Now()})
	if err != nil {
		return err
	}
	_, err = ensure(c.path, 0o600, content)
	return err
}

// renew renews the claim and reports whether it is ours. One that is gone or has got
// too old is taken.
func (c claim) renew() (ours bool, err error) {
	holder, err := c.holder()
	if err != nil || holder != "" && holder != c.id {
		return false, err
	}
	return true, c.take()
}

// release gives the claim up if it is ours.
func (c claim) release() error {
	holder, err := c.holder()
	if err != nil || holder != c.id {
		return err
	}
	return os.Remove(c.path)
}

// holder returns which installer has the claim; empty if none that is alive has.
func (c claim) holder() (types.UID, error) {
	data, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading which installer looks after the unit: %w", err)
	}
	var content claimContent
	if json.Unmarshal(data, &content) != nil {
		return "", nil //nolint:nilerr // what nobody can read claims nothing
	}
	if age := time.Since(content.Renewed); age > claimAge || age < -claimAge { // the clock may have been set
		return "", nil
	}
	return content.ID, nil
}
