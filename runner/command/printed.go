package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/atomicfile"
)

// printed is what a runner that is stopped has kept of a command's output, for the next
// one: little more than maxOutput and maxLine bytes.
type printed struct {
	Tail      []byte `json:"tail,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	// Line is the beginning of a line. Nothing in it is redacted yet.
	Line []byte `json:"line,omitempty"`
	Skip bool   `json:"skip,omitempty"`
}

// printedPath is a file for root alone. The name of a unit can be too long for it.
func (r *Remedy) printedPath(unit string) string {
	sum := sha256.Sum256([]byte(unit))
	return filepath.Join(r.opts.Dir, "printed-"+hex.EncodeToString(sum[:16])+".json")
}

// leave stops reading and keeps what was read for the next runner. That this fails, as
// on a full disk, loses the beginning of the output and nothing else.
func (r *Remedy) leave(ctx context.Context, unit string, p *pipe) {
	if p == nil {
		return
	}
	p.close()
	data, err := json.Marshal(p.out.kept())
	if err == nil {
		err = atomicfile.Replace(r.printedPath(unit), data)
	}
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "What the command has printed so far is lost")
	}
}

// takeUp returns an output that begins with what the runner before has left. It is taken
// away: if this one is killed, the next must not take it for all that was read.
func (r *Remedy) takeUp(unit string, policy *v1alpha1.OutputPolicy) *output {
	path := r.printedPath(unit)
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.Remove(path)
	}
	var left printed
	if err != nil || json.Unmarshal(data, &left) != nil {
		return newOutput(policy, true)
	}
	o := newOutput(policy, false)
	o.tail, o.line, o.skip = tail{buf: left.Tail, truncated: left.Truncated}, left.Line, left.Skip
	return o
}

// removePrinted removes what nobody has taken up.
func (r *Remedy) removePrinted(unit string) error {
	if err := os.Remove(r.printedPath(unit)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing what the command has printed: %w", err)
	}
	return nil
}

// kept returns what is kept so far.
func (o *output) kept() printed {
	o.mu.Lock()
	defer o.mu.Unlock()
	return printed{Tail: o.tail.buf, Truncated: o.tail.truncated, Line: o.line, Skip: o.skip}
}
