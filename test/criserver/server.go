// Package criserver is a small stand-in for a container runtime: it answers
// the calls of the Container Runtime Interface (CRI) by which a runtime's
// health is judged, and can be made to be slow, to hang or to report that it is
// not ready. A real kubelet without pods is content with it.
//
// It is for tests, and for demonstrations on machines where containerd can't be
// run. It runs no containers.
package criserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// hangFilePoll is how often a call that hangs looks whether HangFile is gone.
const hangFilePoll = 50 * time.Millisecond

var errStopping = status.Error(codes.Unavailable, "the server is stopping")

// Options of a server. The zero value answers every call at once.
type Options struct {
	// HangFile, if not empty, is the path of a file: while it exists, every call
	// hangs. So a shell command can stop and resume the server.
	HangFile string
	// HangMethods limits what Hang and HangFile stop to these calls, by their
	// full names such as "/runtime.v1.RuntimeService/ListPodSandbox". Empty:
	// all calls.
	HangMethods []string
	// Delay is how long every call takes that does not hang.
	Delay time.Duration
	// Sandboxes is how many pod sandboxes ListPodSandbox returns, and
	// Containers how many containers ListContainers does.
	Sandboxes, Containers int
}

// Server is a running stand-in. Its methods may be called concurrently.
type Server struct {
	grpc     *grpc.Server
	served   chan struct{}
	stopping chan struct{}
	stop     sync.Once

	mu              sync.Mutex
	resumed         chan struct{} // closed while calls are answered
	notReady        string        // reason; empty while ready
	networkNotReady string        // reason; empty while ready
}

// Start serves CRI on a unix socket at socketPath until Stop. A socket that a
// former server left at this path is replaced.
func Start(ctx context.Context, socketPath string, options Options) (*Server, error) {
	if err := os.Remove(socketPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("replacing the CRI socket %s: %w", socketPath, err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socketPath)
	if err != nil {
		return nil, fmt.Errorf("opening the CRI socket %s: %w", socketPath, err)
	}
	return Serve(listener, options), nil
}

// Serve serves CRI on listener until Stop, which closes it. Before Serve, the
// kernel queues connections that nobody answers, as with a process that is
// stopped by SIGSTOP.
func Serve(listener net.Listener, options Options) *Server {
	s := &Server{
		served:   make(chan struct{}),
		stopping: make(chan struct{}),
		resumed:  make(chan struct{}),
	}
	close(s.resumed)
	s.grpc = grpc.NewServer(grpc.UnaryInterceptor(s.intercept(options)))
	runtimeapi.RegisterRuntimeServiceServer(s.grpc, &runtimeService{
		server: s, sandboxes: options.Sandboxes, containers: options.Containers,
	})
	runtimeapi.RegisterImageServiceServer(s.grpc, imageService{})
	go func() {
		defer close(s.served)
		_ = s.grpc.Serve(listener) // ends when Stop is called, or listener is closed
	}()
	return s
}

// Stop ends the server and removes its socket. Calls that hang fail.
func (s *Server) Stop() {
	s.stop.Do(func() {
		close(s.stopping)
		s.grpc.Stop()
		<-s.served
	})
}

// Hang lets every call from now on hang until Resume, Stop or its deadline.
// Connections are still accepted.
func (s *Server) Hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.resumed:
		s.resumed = make(chan struct{})
	default:
	}
}

// Resume ends Hang; the calls that hang are answered.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.resumed:
	default:
		close(s.resumed)
	}
}

// NotReady lets Status report RuntimeReady=false with this reason; an empty
// reason makes the runtime ready again.
func (s *Server) NotReady(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notReady = reason
}

// NetworkNotReady lets Status report NetworkReady=false with this reason, as a
// runtime without CNI configuration does; an empty reason ends it.
func (s *Server) NetworkNotReady(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.networkNotReady = reason
}

func (s *Server) intercept(options Options) grpc.UnaryServerInterceptor {
	affected := map[string]bool{}
	for _, method := range options.HangMethods {
		affected[method] = true
	}
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if len(affected) == 0 || affected[info.FullMethod] {
			if err := s.wait(ctx, options.HangFile); err != nil {
				return nil, err
			}
		}
		if options.Delay > 0 {
			if err := s.sleep(ctx, options.Delay); err != nil {
				return nil, err
			}
		}
		return handler(ctx, request)
	}
}

// wait returns when calls are to be answered.
func (s *Server) wait(ctx context.Context, hangFile string) error {
	s.mu.Lock()
	resumed := s.resumed
	s.mu.Unlock()
	select {
	case <-resumed:
	case <-s.stopping:
		return errStopping
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	for hangFile != "" {
		if _, err := os.Stat(hangFile); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err := s.sleep(ctx, hangFilePoll); err != nil {
			return err
		}
	}
	return nil
}

// sleep returns after d, or with the error that the call is to end with.
func (s *Server) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-s.stopping:
		return errStopping
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}
