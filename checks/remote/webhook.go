package remote

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/serve"
)

const (
	// webhookPath is where notifications are taken.
	webhookPath = "/alerts"
	// maxKnown is how many alerts are kept.
	maxKnown = 50_000
	// unconfirmed is for how long an alert that was said to have resolved is kept that way.
	unconfirmed = 2 * time.Hour
)

// webhook takes Alertmanager's notifications. An Alertmanager says of an alert that it has resolved
// also when nobody has repeated it. So that is believed only when an alert that always fires was
// repeated all the time, from long enough before until long enough afterwards. Of a silenced alert
// it says nothing any more.
type webhook struct {
	config.Webhook
	clock    clock.PassiveClock
	watchdog []config.Matcher
	// wanted reports whether an alert is of the table.
	wanted func(labels map[string]string) bool

	mu sync.Mutex
	// listens is since when it is.
	listens time.Time
	known   map[string]*heard
	// missed is when something was sent that could not be taken in, and why.
	missed time.Time
	why    string
}

// heard is an alert, and when it was.
type heard struct {
	alert
	// starts and ends are those of the alert, by the clock of who sends it.
	starts, ends time.Time
	// since is from when on it was heard of in this state, without a break; at is when anything
	// was heard of it for the last time.
	since, at time.Time
}

// notification is version 4 of what Alertmanager sends.
type notification struct {
	Version   string `json:"version"`
	Truncated int    `json:"truncatedAlerts"`
	Alerts    []struct {
		Status      string            `json:"status"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		StartsAt    time.Time         `json:"startsAt"`
		EndsAt      time.Time         `json:"endsAt"` // zero while it fires
		Fingerprint string            `json:"fingerprint"`
	} `json:"alerts"`
}

func (w *webhook) String() string { return "Alertmanager" }

// serve listens until ctx ends. Only who leads does: elsewhere a notification is refused, and
// Alertmanager sends it again.
func (w *webhook) serve(ctx context.Context) error {
	w.mu.Lock()
	w.listens = w.clock.Now()
	w.mu.Unlock()
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+webhookPath, func(answer http.ResponseWriter, request *http.Request) {
		if code, err := w.take(request); err != nil {
			if code != http.StatusUnauthorized { // who has no token does not fill the log; Alertmanager's own says it
				klog.FromContext(ctx).Error(err, "A notification of alerts is not taken", "from", request.RemoteAddr, "status", code)
			}
			http.Error(answer, err.Error(), code)
		}
	})
	// The files are read anew: certificates are renewed.
	certificate := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(w.CertFile, w.KeyFile)
		return &pair, err
	}
	return serve.AtTLS(ctx, "alerts.webhook.address", w.Address, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate}, mux)
}

// take takes in one notification. The code is that of the answer to an error: of a status below 500
// Alertmanager does not send it again.
func (w *webhook) take(request *http.Request) (code int, err error) {
	token, err := tokenOf(w.TokenFile)
	if err != nil {
		return http.StatusServiceUnavailable, err
	}
	sent, is := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	if !is || subtle.ConstantTimeCompare([]byte(sent), []byte(token)) != 1 {
		return http.StatusUnauthorized, errors.New("the token is not that of tokenFile: see http_config.authorization.credentials of Alertmanager's receiver")
	}
	var n notification
	err = decode(request.Body, &n)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		err = n.understood()
	}
	if err == nil {
		err = w.keep(n)
	}
	if err != nil {
		w.missed, w.why = w.clock.Now(), err.Error()
		return http.StatusBadRequest, err
	}
	return http.StatusOK, nil
}

// understood returns an error for what may have another meaning.
func (n notification) understood() error {
	if n.Version != "4" {
		return fmt.Errorf("it has version %q: accepted is 4", n.Version)
	}
	for _, one := range n.Alerts {
		if one.Fingerprint == "" || one.StartsAt.IsZero() || one.Status != "firing" && (one.Status != "resolved" || one.EndsAt.IsZero()) {
			return fmt.Errorf("an alert has the status %q, the fingerprint %q, startsAt %s and endsAt %s, which is not understood",
				one.Status, one.Fingerprint, one.StartsAt.Format(time.RFC3339), one.EndsAt.Format(time.RFC3339))
		}
	}
	return nil
}

// keep remembers what it says. The mutex is held.
func (w *webhook) keep(n notification) error {
	now := w.clock.Now()
	for _, one := range n.Alerts {
		late := w.ConfirmedAfter.Duration
		if matches(w.watchdog, one.Labels) {
			late = 0 // it lives anew, which confirms no end of before
		} else if !w.wanted(one.Labels) {
			continue
		}
		sent := &heard{
			alert:  alert{labels: one.Labels, annotations: one.Annotations, id: one.Fingerprint, state: firing, until: now.Add(w.RepeatedWithin.Duration)},
			starts: one.StartsAt, ends: one.EndsAt, since: now, at: now,
		}
		if one.Status == "resolved" {
			sent.state, sent.until = resolving, now.Add(unconfirmed)
		}
		before := w.known[sent.id]
		switch {
		case before == nil && len(w.known) >= maxKnown:
			return fmt.Errorf("more than %d alerts are of the table", maxKnown)
		case before != nil && before.overtakes(sent, late):
			if before.state == resolving {
				before.at = now // who is late may be right
			}
			continue
		case before != nil && before.goesOn(sent):
			sent.since = before.since
		case before == nil && late == 0 && now.Sub(w.listens) < w.RepeatedWithin.Duration:
			sent.since = w.listens // each is repeated only so often
		}
		w.known[sent.id] = sent
	}
	if n.Truncated > 0 {
		return fmt.Errorf("%d alerts were left out: set max_alerts of the receiver to 0", n.Truncated)
	}
	return nil
}

// overtakes reports whether what was heard before is later: a notification that is sent again, or
// another Alertmanager's, may be late. One that says so long after an end that it fires is not.
func (h *heard) overtakes(sent *heard, late time.Duration) bool {
	if h.state != resolving || !sent.starts.Equal(h.starts) {
		return sent.starts.Before(h.starts)
	}
	return sent.state == resolving || sent.at.Sub(h.since) < late
}

// goesOn reports whether an alert fires as before, and was repeated in time.
func (h *heard) goesOn(sent *heard) bool {
	return h.state == firing && sent.state == firing && sent.starts.Equal(h.starts) && sent.at.Before(h.until)
}

// confirms reports whether an alert that always fires shows that another one has resolved. It was
// heard of, without a break, from before the end was said until so long after anything was heard of
// the other one; and it began before that, or so long before its end that a Prometheus that was
// started then has not just left it unrepeated.
func (h *heard) confirms(other *heard, long time.Duration) bool {
	unbroken := h.since.Before(other.since) && h.at.Sub(other.at) >= long
	return unbroken && (!other.starts.Before(h.starts) || other.ends.Sub(h.starts) >= long)
}

// read implements source.
func (w *webhook) read(context.Context) (a answer, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.now = w.clock.Now()
	a.listensOnly = true
	a.partial = w.listens.IsZero() || a.now.Sub(w.listens) < w.RepeatedWithin.Duration
	if !w.missed.IsZero() && a.now.Sub(w.missed) < w.RepeatedWithin.Duration {
		a.incomplete = w.why
	}
	var watchdogs []*heard
	for _, one := range w.known {
		if one.state == firing && matches(w.watchdog, one.labels) {
			watchdogs = append(watchdogs, one)
		}
	}
	for id, one := range w.known {
		confirmed := func(watchdog *heard) bool { return watchdog.confirms(one, w.ConfirmedAfter.Duration) }
		if !a.now.Before(one.until) || one.state == resolving && slices.ContainsFunc(watchdogs, confirmed) {
			delete(w.known, id)
			continue
		}
		a.alerts = append(a.alerts, one.alert)
	}
	return a, nil
}
