// Package statefile keeps what the detector has last reported in a file on the
// node, for a start at which the API server can't be reached.
//
// The file is a convenience, never an authority: what can't be read, is damaged
// or comes from another version is left aside, and nothing in it is reported
// before a check has run.
package statefile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/internal/atomicfile"
)

const (
	// version is that of the file's format.
	version = 1
	// maxSize is far more than the conditions of any node take.
	maxSize = 1 << 20
)

// State is what is kept.
type State struct {
	// NodeName and NodeUID are of the Node that the conditions belong to; the
	// UID is empty if the Node was never read.
	NodeName string    `json:"nodeName"`
	NodeUID  types.UID `json:"nodeUID,omitempty"`
	// Conditions are the detector's own, of which each type occurs once.
	Conditions []Condition `json:"conditions"`
	// SeenThere are the types of the conditions whose subject was seen on this host,
	// whatever Node was of it then.
	SeenThere []string `json:"seenThere,omitempty"`
}

// Condition is a node condition without its heartbeat.
type Condition struct {
	// BootID is the kernel's boot ID when the condition was last reported.
	BootID             string                 `json:"bootID,omitempty"`
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
	LastTransitionTime time.Time              `json:"lastTransitionTime"`
}

// ByType orders conditions.
func ByType(a, b Condition) int { return cmp.Compare(a.Type, b.Type) }

// file is the format.
type file struct {
	Version int `json:"version"`
	State
}

// Load reads the file at path for the node of this name. The error wraps
// fs.ErrNotExist if there is none; any other error means that the file is of no
// use and will be replaced.
func Load(path, nodeName string) (State, error) {
	f, err := os.Open(path)
	if err != nil {
		return State{}, fmt.Errorf("opening the state file: %w", err)
	}
	defer func() { _ = f.Close() }() // was only read
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return State{}, fmt.Errorf("reading the state file: %w", err)
	}
	state, err := parse(data)
	if err != nil {
		return State{}, fmt.Errorf("state file %s: %w", path, err)
	}
	if state.NodeName != nodeName {
		return State{}, fmt.Errorf("state file %s: it is of node %q, this is %q", path, state.NodeName, nodeName)
	}
	return state, nil
}

func parse(data []byte) (State, error) {
	if len(data) > maxSize {
		return State{}, fmt.Errorf("larger than %d bytes", maxSize)
	}
	var content file
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&content); err != nil {
		return State{}, fmt.Errorf("no valid JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return State{}, errors.New("there is more after the JSON object")
	}
	if content.Version != version {
		return State{}, fmt.Errorf("version %d, accepted is %d", content.Version, version)
	}
	seen := map[string]bool{}
	for i, c := range content.Conditions {
		switch {
		case c.Type == "" || seen[c.Type]:
			return State{}, fmt.Errorf("conditions[%d]: type %q is empty or occurs twice", i, c.Type)
		case c.Status != corev1.ConditionTrue && c.Status != corev1.ConditionFalse && c.Status != corev1.ConditionUnknown:
			return State{}, fmt.Errorf("conditions[%d]: status %q is none of True, False and Unknown", i, c.Status)
		case c.LastTransitionTime.IsZero():
			return State{}, fmt.Errorf("conditions[%d]: no lastTransitionTime", i)
		}
		seen[c.Type] = true
	}
	return content.State, nil
}

// Save replaces the file at path by state.
func Save(path string, state State) error {
	data, err := json.MarshalIndent(file{Version: version, State: state}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the state file %s: %w", path, err)
	}
	return atomicfile.Replace(path, append(data, '\n'))
}
