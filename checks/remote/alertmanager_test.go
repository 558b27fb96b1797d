package remote

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	config "github.com/nodemend/nodemend/config/detector"
)

const (
	oneAlert = `[{"labels":{"alertname":"A","node":"n"},"annotations":{"summary":"s"},"startsAt":"2026-03-01T11:00:00.000Z","endsAt":"2026-03-01T12:04:00.000Z",
		"updatedAt":"2026-03-01T12:00:00.000Z","fingerprint":"f","receivers":[{"name":"r"}],"generatorURL":"","status":{"state":"active","silencedBy":[],"inhibitedBy":[]}}]`
	theStatus = `{"cluster":{"status":"disabled"},"uptime":"2026-03-01T10:00:00.123Z","versionInfo":{}}`
)

// playedAlertmanager is a strict, played one.
type playedAlertmanager struct {
	alerts, status string
	code           int
	noDate         bool
}

func (a playedAlertmanager) start(t *testing.T, token string) config.AlertServer {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, known := map[string]string{"/base/api/v2/alerts": a.alerts, "/base/api/v2/status": a.status}[r.URL.Path]
		if r.Method != http.MethodGet || !known || r.URL.RawQuery != "" || r.Header.Get("Authorization") != token {
			t.Errorf("%s %s by %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		w.Header().Set("Date", epoch.Format(http.TimeFormat))
		if a.noDate {
			w.Header()["Date"] = nil
		}
		if a.code != 0 {
			w.WriteHeader(a.code)
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return config.AlertServer{URL: server.URL + "/base/", Trust: config.Trust{CAFile: writeFile(t, string(pemOf(server.Certificate())))}}
}

func TestAnAlertmanagerIsRead(t *testing.T) {
	am := playedAlertmanager{alerts: oneAlert, status: theStatus}.start(t, "Bearer abc")
	am.TokenFile = writeFile(t, "abc\n")
	got, err := alertmanager{am}.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.alerts) != 1 || !got.now.Equal(epoch) || !got.process.Equal(epoch.Add(-2*time.Hour+123*time.Millisecond)) {
		t.Fatalf("got %+v", got)
	}
	if a := got.alerts[0]; a.labels["node"] != "n" || a.state != firing || !a.until.Equal(epoch.Add(4*time.Minute)) || a.id != "f" {
		t.Errorf("got %+v", a)
	}
}

func TestASilencedAlertIsToldApart(t *testing.T) {
	for name, edit := range map[string][2]string{
		"suppressed": {"active", "suppressed"}, "not looked at": {"active", "unprocessed"},
		"silenced": {`"silencedBy":[]`, `"silencedBy":["s"]`}, "inhibited": {`"inhibitedBy":[]`, `"inhibitedBy":["i"]`},
	} {
		am := playedAlertmanager{alerts: strings.ReplaceAll(oneAlert, edit[0], edit[1]), status: theStatus}.start(t, "")
		if got, err := (alertmanager{am}).read(t.Context()); err != nil || got.alerts[0].state != silenced {
			t.Errorf("%s: got %+v, %v", name, got.alerts, err)
		}
	}
}

// What is not understood must not become an empty list, which would be health.
func TestWhatIsNotAnAnswerIsAnError(t *testing.T) {
	with := func(before, after string) string { return strings.ReplaceAll(oneAlert, before, after) }
	for name, tt := range map[string]struct {
		am   playedAlertmanager
		want string
	}{
		"an error":                      {playedAlertmanager{code: 503, alerts: "no \x1b way"}, "HTTP status 503: no � way"},
		"a login":                       {playedAlertmanager{code: 302}, "HTTP status 302"},
		"a page":                        {playedAlertmanager{alerts: "<html>"}, "its answer can't be read"},
		"nothing":                       {playedAlertmanager{alerts: ""}, "its answer can't be read"},
		"null":                          {playedAlertmanager{alerts: "null", status: theStatus}, "answers no list"},
		"an object":                     {playedAlertmanager{alerts: `{"status":"success","data":[]}`}, "its answer can't be read"},
		"a part":                        {playedAlertmanager{alerts: oneAlert[:100]}, "its answer can't be read"},
		"no state":                      {playedAlertmanager{alerts: with(`"state":"active",`, ""), status: theStatus}, `the state ""`},
		"another state":                 {playedAlertmanager{alerts: with("active", "firing"), status: theStatus}, `the state "firing"`},
		"no fingerprint":                {playedAlertmanager{alerts: with(`"fingerprint":"f",`, ""), status: theStatus}, `the fingerprint ""`},
		"no end":                        {playedAlertmanager{alerts: with(`"endsAt"`, `"ends"`), status: theStatus}, "endsAt 0001-01-01"},
		"no date":                       {playedAlertmanager{alerts: oneAlert, status: theStatus, noDate: true}, "answers without a date"},
		"it does not say when it began": {playedAlertmanager{alerts: oneAlert, status: "{}"}, "does not say since when it runs"},
	} {
		if _, err := (alertmanager{tt.am.start(t, "")}).read(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
	am := playedAlertmanager{alerts: oneAlert, status: theStatus}.start(t, "")
	am.CAFile = writeFile(t, string(stranger(t)))
	if _, err := (alertmanager{am}).read(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("of an authority that has not signed it: got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (alertmanager{am}).read(ended); err == nil {
		t.Error("it has an answer after its end")
	}
}
