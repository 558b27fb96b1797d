package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Transport returns what carries the HTTP requests of a user to the server: for the
// Transport of a rest.Config, with any Host. No socket is opened and nothing outlives a
// request, so it may be used in a bubble of testing/synctest in which the server was made.
// A watch ends with its request's context.
func (s *Server) Transport(u user.Info) http.RoundTripper { return &transport{s, u} }

type transport struct {
	server *Server
	user   user.Info
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }() // a RoundTripper has to, and it was read
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	handler, err := t.server.web.handlerOf(t.server)
	if err != nil {
		return nil, fmt.Errorf("simulating an API server: %w", err)
	}
	ctx, cancel := context.WithCancel(request.WithUser(r.Context(), t.user))
	served := r.Clone(ctx)
	served.RequestURI = r.URL.RequestURI()
	served.RemoteAddr = "192.0.2.1:1"
	if served.Body == nil {
		served.Body = http.NoBody
	}
	if isWatch(r) {
		return t.stream(handler, served, cancel)
	}
	defer cancel()
	w := &answer{header: http.Header{}}
	if err := serve(handler, w, served); err != nil {
		return nil, err
	}
	return t.response(r, w.code, w.header, int64(w.body.Len()), io.NopCloser(&w.body)), nil
}

func isWatch(r *http.Request) bool {
	watch, _ := strconv.ParseBool(r.URL.Query().Get("watch"))
	return r.Method == http.MethodGet && (watch || strings.Contains(r.URL.Path, "/watch/"))
}

// serve returns an error if the handler aborts the connection.
func serve(handler http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if p := recover(); p == http.ErrAbortHandler { //nolint:errorlint // what recover returns is no error
			err = io.ErrUnexpectedEOF
		} else if p != nil {
			panic(p) //nolint:forbidigo // the handler's own
		}
	}()
	handler.ServeHTTP(w, r)
	w.WriteHeader(http.StatusOK) // if it has not been said yet
	return nil
}

func (t *transport) response(r *http.Request, code int, header http.Header, length int64, body io.ReadCloser) *http.Response {
	header.Set("Date", t.server.options.Now().UTC().Format(http.TimeFormat))
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: body, ContentLength: length, Request: r,
	}
}

// stream serves a watch.
func (t *transport) stream(handler http.Handler, r *http.Request, cancel context.CancelFunc) (*http.Response, error) {
	reader, writer := io.Pipe()
	w := &streamed{answer: answer{header: http.Header{}}, begun: make(chan struct{}), pipe: writer}
	stop := context.AfterFunc(r.Context(), func() { _ = writer.CloseWithError(r.Context().Err()) })
	done := make(chan error, 1)
	go func() {
		err := serve(handler, w, r)
		stop()
		_ = writer.CloseWithError(err) // nil: the watch has ended
		done <- err
	}()
	select {
	case <-w.begun:
		return t.response(r, w.code, w.sent, -1, &streamBody{reader, cancel}), nil
	case err := <-done:
		cancel()
		return nil, err
	case <-r.Context().Done():
		cancel()
		return nil, r.Context().Err()
	}
}

// streamBody is the body of a watch, which ends when it is closed.
type streamBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *streamBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// answer is a response in memory.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *answer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *answer) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
}

// Write implements http.ResponseWriter.
func (w *answer) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(data)
}

// streamed is a response whose body is read while it is written.
type streamed struct {
	answer
	sent  http.Header
	once  sync.Once
	begun chan struct{}
	pipe  *io.PipeWriter
}

var _ http.Flusher = (*streamed)(nil)

// WriteHeader implements http.ResponseWriter.
func (w *streamed) WriteHeader(code int) {
	w.once.Do(func() {
		w.code, w.sent = code, w.header.Clone()
		close(w.begun)
	})
}

// Write implements http.ResponseWriter.
func (w *streamed) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(data)
}

// Flush implements http.Flusher.
func (w *streamed) Flush() { w.WriteHeader(http.StatusOK) }

// CloseNotify implements http.CloseNotifier, without which the API server does not stream.
// The context of the request tells the same.
func (w *streamed) CloseNotify() <-chan bool { return nil }
