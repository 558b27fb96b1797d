package containerruntime

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// defaultCandidates are where runtimes listen for CRI, the most specific first.
func defaultCandidates() []string {
	return []string{
		"/run/k3s/containerd/containerd.sock", // RKE2's, too
		"/run/crio/crio.sock",
		"/var/run/crio/crio.sock",
		"/run/containerd/containerd.sock",
	}
}

// sockets chooses the runtime's socket among candidates. Its methods may be
// called concurrently.
//
// It takes the first that exists and never goes back to a later one: if the
// chosen socket vanishes, its runtime is down, and what else listens on this node
// has nothing to do with that. It does go on to an earlier one, whose runtime may
// have been slower to start. A single candidate is taken whether it exists or not.
type sockets struct {
	candidates []string

	mu     sync.Mutex
	chosen string
}

// find returns the path of the socket, or "" as long as none has existed.
func (s *sockets) find() string {
	if len(s.candidates) == 1 {
		return s.candidates[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, path := range s.candidates {
		if path == s.chosen {
			break
		}
		if isSocket(path) {
			s.chosen = path
			break
		}
	}
	return s.chosen
}

// missing says that find has found none.
func (s *sockets) missing() string {
	return "no container runtime found: none of " + strings.Join(s.candidates, ", ") + " is a socket"
}

// isSocket takes what may not be looked at for a socket, so that this is reported.
// Directories occur: Docker makes one where a path that it mounts is missing.
func isSocket(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return errors.Is(err, fs.ErrPermission)
	}
	return info.Mode().Type() == fs.ModeSocket
}
