package detector

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

type part struct{ err error }

func (p part) Healthy() error { return p.err }

func TestHealthzNamesEveryPartThatIsStuck(t *testing.T) {
	for name, tc := range map[string]struct {
		parts []healthy
		code  int
		body  string
	}{
		"all well": {[]healthy{part{}, part{}}, http.StatusOK, "ok\n"},
		"two stuck": {[]healthy{part{errors.New("one hangs")}, part{}, part{errors.New("three hangs")}},
			http.StatusServiceUnavailable, "one hangs\nthree hangs\n"},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			newHealthHandler(nil, progress(tc.parts)).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/healthz", nil))
			if recorder.Code != tc.code || recorder.Body.String() != tc.body {
				t.Errorf("got %d %q, want %d %q", recorder.Code, recorder.Body, tc.code, tc.body)
			}
		})
	}
}
