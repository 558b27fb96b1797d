package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"
	"time"
)

const platform = "linux/amd64"

// mirror serves on loopback what is published.
type mirror struct {
	*httptest.Server

	mu    sync.Mutex
	files map[string]http.HandlerFunc // by their paths on the mirror
	asked []string
}

// newMirror has the programs of v1.37.1, each a script that prints its name, and
// an index of that release.
func newMirror(t *testing.T) *mirror {
	m := &mirror{files: map[string]http.HandlerFunc{}}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.asked = append(m.asked, r.URL.Path)
		file := m.files[r.URL.Path]
		m.mu.Unlock()
		if file == nil {
			http.NotFound(w, r)
			return
		}
		file(w, r)
	}))
	t.Cleanup(m.Close)
	m.addRelease(t, "v1.37.1")
	m.put(indexURL, indexOf("v1.37.1"))
	return m
}

func (m *mirror) addRelease(t *testing.T, release string) {
	m.put(archiveURL(release), string(archiveOf(t, release, archived...)))
	for _, program := range []string{"kube-controller-manager", "kube-scheduler", "kubelet"} {
		text := script(program, release)
		m.put(programURL(release, program), text)
		m.put(programURL(release, program)+".sha256", fmt.Sprintf("%x\n", sha256.Sum256([]byte(text))))
	}
}

// put serves a text for what is published at a URL.
func (m *mirror) put(published, text string) {
	m.handle(published, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
}

func (m *mirror) handle(published string, file http.HandlerFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files["/"+strings.TrimPrefix(published, "https://")] = file
}

// requests returns the names of the files that were asked for, and forgets them.
func (m *mirror) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for _, p := range m.asked {
		names = append(names, path.Base(p))
	}
	m.asked = nil
	return names
}

func (m *mirror) source(t *testing.T) source {
	u, err := url.Parse(m.URL)
	if err != nil {
		t.Fatal(err)
	}
	return source{client: m.Client(), mirror: u, silence: time.Minute}
}

// silent sends half of what it promises, and then nothing more.
func silent(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "10")
	_, _ = w.Write([]byte("12345"))
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// cut sends half of what it promises and hangs up.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "10")
	_, _ = w.Write([]byte("12345"))
}

// hangUp answers nothing.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func script(program, release string) string {
	return "#!/bin/sh\necho " + program + " " + release + "\n"
}

func programURL(release, program string) string {
	return releasesURL + "/" + release + "/bin/" + platform + "/" + program
}

func archiveURL(release string) string {
	return "https://github.com/archives/" + archiveName(release, platform)
}

// archiveOf has the programs in the folder of the real ones.
func archiveOf(t *testing.T, release string, programs ...string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	add := func(header tar.Header, text string) {
		header.Size = int64(len(text))
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	add(tar.Header{Name: "controller-tools/envtest/", Typeflag: tar.TypeDir, Mode: 0o755}, "")
	for _, program := range programs {
		add(tar.Header{Name: "controller-tools/envtest/" + program, Typeflag: tar.TypeReg, Mode: 0o755}, script(program, release))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// indexOf is an index with the archives of these releases for one platform,
// whose hashes are right for archives of all three programs.
func indexOf(releases ...string) string {
	text := "releases:\n"
	for _, release := range releases {
		sum := sha512.Sum512(archiveOf(nil, release, archived...))
		text += fmt.Sprintf("  %s:\n    %s:\n      hash: %s\n      selfLink: %s\n",
			release, archiveName(release, platform), hex.EncodeToString(sum[:]), archiveURL(release))
	}
	return text
}
