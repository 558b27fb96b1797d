package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// mirrorEnv names the environment variable with the URL of a mirror. The mirror
// holds each file below the name of its host, as "wget --force-directories"
// stores it: <mirror>/dl.k8s.io/release/v1.37.1/… "off" downloads nothing.
const mirrorEnv = "CONTROLPLANE_MIRROR"

// maxText is the largest index or checksum that is read, in bytes. The index
// has 0.1 MB in 2026.
const maxText = 10 << 20

// source is where files come from.
type source struct {
	client  *http.Client
	mirror  *url.URL      // nil: from where they are published
	silence time.Duration // after so long without a byte a download has failed
}

func parseMirror(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	if text == "off" {
		return nil, fmt.Errorf("%s is off", mirrorEnv)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf(`%s is not the URL of a mirror: set it to one that begins with http:// or https://, or to "off"`, mirrorEnv)
	}
	return u, nil
}

// locate returns where the file that is published at this URL is taken from.
func (s source) locate(published string) (*url.URL, error) {
	u, err := url.Parse(published)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%q is not a URL to download from", published)
	}
	if s.mirror == nil {
		return u, nil
	}
	return s.mirror.JoinPath(u.Host, u.Path), nil
}

// text returns a small file.
func (s source) text(ctx context.Context, published string) ([]byte, error) {
	var b bytes.Buffer
	_, err := s.copy(ctx, published, &b, maxText)
	return b.Bytes(), err
}

// file writes a file to path and returns its size. It is an error when its
// checksum, in hexadecimal digits, is another one.
func (s source) file(ctx context.Context, published, path string, sum hash.Hash, want string) (size int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	size, err = s.copy(ctx, published, io.MultiWriter(f, sum), 0)
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, want) {
		return 0, fmt.Errorf("%s is refused: its checksum is %.12s…, but %.12s… was published", published, got, want)
	}
	return size, nil
}

// copy writes what is published at the URL to w, and fails when that is more
// than limit bytes, unless limit is 0.
func (s source) copy(ctx context.Context, published string, w io.Writer, limit int64) (int64, error) {
	from, err := s.locate(published)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(s.silence, func() { cancel(fmt.Errorf("nothing came for %s", s.silence)) })
	defer watchdog.Stop()

	fail := func(err error) (int64, error) {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err // it names the URL again, with a password
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return 0, fmt.Errorf("GET %s: %w", from.Redacted(), err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return fail(err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fail(errors.New(response.Status))
	}
	body := io.Reader(heard{response.Body, func() { watchdog.Reset(s.silence) }})
	if limit > 0 {
		body = io.LimitReader(body, limit+1)
	}
	size, err := io.Copy(w, body)
	if err != nil {
		return fail(err)
	}
	if limit > 0 && size > limit {
		return fail(fmt.Errorf("larger than %d bytes", limit))
	}
	return size, nil
}

// heard calls a function after each read.
type heard struct {
	io.Reader
	call func()
}

func (h heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.call()
	return n, err
}
