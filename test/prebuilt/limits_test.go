package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestAServerThatFallsSilentIsGivenUp(t *testing.T) {
	for name, test := range map[string]struct {
		published string
		sends     int // bytes, a second apart, before it falls silent
	}{
		"before it answers": {indexURL, 0},
		"in the index":      {indexURL, 20},
		"in the archive":    {archiveURL("v1.37.1"), 20},
		"in a program":      {programURL("v1.37.1", "kubelet"), 20},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			r, _ := wish(t, forAll)
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				began := time.Now()
				from := source{silence: silence, client: m.slow(test.published, test.sends)}

				g.Expect(r.fetch(t.Context(), from)).To(MatchError(And(
					ContainSubstring(path.Base(test.published)), ContainSubstring("nothing came for 10s"))))
				g.Expect(time.Since(began)).To(Equal(time.Duration(test.sends)*time.Second + silence))
			})
			NewWithT(t).Expect(names(t, filepath.Dir(r.dir))).To(BeEmpty())
		})
	}
}

func TestAServerThatSendsDropsIsGivenUpInTheEnd(t *testing.T) {
	m := newMirror(t)
	t.Setenv(mirrorEnv, "")
	dir := filepath.Join(t.TempDir(), "prebuilt")
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		began := time.Now()
		from := source{silence: silence, client: m.slow(indexURL, 1e6)}

		g.Expect(run(t.Context(), []string{"--kubernetes=v1.37.1", "--dir=" + dir, "etcd"}, from)).To(
			MatchError(ContainSubstring("envtest-releases.yaml: not done within 5m0s")))
		g.Expect(time.Since(began)).To(Equal(total))
	})
}

// slow is a client without a network: what is published at the URL comes a byte a
// second, and no more than so many bytes; 0 is not even an answer.
func (m *mirror) slow(published string, bytes int) *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.String() == published {
			if bytes == 0 {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(&drops{r.Context(), bytes})}, nil
		}
		answer := httptest.NewRecorder()
		m.Config.Handler.ServeHTTP(answer, httptest.NewRequestWithContext(r.Context(), r.Method, "/"+r.URL.Host+r.URL.Path, nil))
		return answer.Result(), nil
	})}
}

// drops is a body of which a byte comes each second, until there are none left.
type drops struct {
	ctx  context.Context
	left int
}

func (d *drops) Read(p []byte) (int, error) {
	var next <-chan time.Time
	if d.left > 0 {
		next = time.After(time.Second)
	}
	select {
	case <-next:
		d.left--
		return copy(p, "#"), nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}
