package hardware

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/atomicfile"
	"github.com/nodemend/nodemend/internal/bounded"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// maxState is more than a verdict.State takes.
const maxState = 4 << 20

// Store keeps what is remembered of the hardware in a file. The detector and
// people who acknowledge failures may use it at the same time.
type Store struct {
	// Path of the file. Its directory is created.
	Path string
	// LookOnly is whether the check only reads it.
	LookOnly bool
}

// used reports whether a BMC was ever read, by whether there is the file: a driver may come later
// than the detector. If the disk does not tell, runs do.
func (s Store) used(clk clock.Clock) bool {
	there, err := bounded.Within(clk, storeLimit, func() bool { return exists(s.Path) })
	return there || err != nil
}

// Load returns what is remembered; the zero state if there is no file.
func (s Store) Load() (verdict.State, error) {
	f, err := os.Open(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return verdict.State{}, nil
	}
	if err != nil {
		return verdict.State{}, fmt.Errorf("opening the hardware state: %w", err)
	}
	defer func() { _ = f.Close() }() // was only read
	data, err := io.ReadAll(io.LimitReader(f, maxState))
	if err != nil {
		return verdict.State{}, fmt.Errorf("reading the hardware state: %w", err)
	}
	var state verdict.State
	if err := json.Unmarshal(data, &state); err != nil {
		return verdict.State{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	return state, nil
}

// Update changes what is remembered by change, while nobody else does.
func (s Store) Update(change func(verdict.State) verdict.State) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	state, err := s.Load()
	if err != nil {
		return err
	}
	return s.save(change(state))
}

// replace is Update for the check, which goes on without a file that can't be
// used: change is told whether it can. If it is only to be read, nothing is saved.
func (s Store) replace(change func(state verdict.State, usable bool) verdict.State) error {
	if s.LookOnly {
		state, err := s.Load()
		change(state, err == nil)
		return nil
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	state, err := s.Load()
	return s.save(change(state, err == nil))
}

func (s Store) save(state verdict.State) error {
	data, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("writing the hardware state: %w", err)
	}
	return atomicfile.Replace(s.Path, append(data, '\n'))
}

// lock waits until nobody else holds the lock.
func (s Store) lock() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the hardware state: %w", err)
	}
	f, err := os.OpenFile(s.Path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the hardware state: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the hardware state: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil // which unlocks
}
