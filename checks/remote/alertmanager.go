package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/cut"
)

// maxAlerts bounds the answer of an Alertmanager, in bytes.
const maxAlerts = 32 << 20

// States of an alert, as Alertmanager's API v2 has them.
const (
	stateActive      = "active"
	stateSuppressed  = "suppressed"
	stateUnprocessed = "unprocessed"
)

// alert is one as GET /api/v2/alerts has it.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	// EndsAt is when it ends unless it is repeated.
	EndsAt      time.Time `json:"endsAt"`
	Fingerprint string    `json:"fingerprint"`
	Status      struct {
		State       string   `json:"state"`
		SilencedBy  []string `json:"silencedBy"`
		InhibitedBy []string `json:"inhibitedBy"`
	} `json:"status"`
}

// counts reports whether it fires, and nobody has silenced or inhibited it.
func (a *alert) counts() bool {
	return a.Status.State == stateActive && len(a.Status.SilencedBy) == 0 && len(a.Status.InhibitedBy) == 0
}

// answer is what an Alertmanager has said.
type answer struct {
	alerts []alert
	// now is the time by its clock, less than a second before it was so.
	now time.Time
	// process is when it was started: it keeps alerts in memory only.
	process time.Time
}

// ask asks an Alertmanager for all alerts.
func ask(ctx context.Context, am config.Alertmanager) (a answer, err error) {
	client, err := clientFor(am.Trust, nil)
	if err != nil {
		return a, err
	}
	defer client.CloseIdleConnections()
	if a.now, err = get(ctx, client, am, "/api/v2/alerts", &a.alerts); err != nil {
		return a, err
	}
	if a.alerts == nil {
		return a, fmt.Errorf("%s/api/v2/alerts answers no list", am.URL)
	}
	for i := range a.alerts {
		one := &a.alerts[i]
		if one.Fingerprint == "" || one.EndsAt.IsZero() || !slices.Contains([]string{stateActive, stateSuppressed, stateUnprocessed}, one.Status.State) {
			return a, fmt.Errorf("%s/api/v2/alerts: an alert has the state %q, the fingerprint %q and endsAt %s, which is not understood",
				am.URL, one.Status.State, one.Fingerprint, one.EndsAt.Format(time.RFC3339))
		}
	}
	// After the alerts: if it is the process that was asked before, it was in between.
	var status struct {
		Uptime time.Time `json:"uptime"`
	}
	if _, err = get(ctx, client, am, "/api/v2/status", &status); err != nil {
		return a, err
	}
	if status.Uptime.IsZero() {
		return a, fmt.Errorf("%s/api/v2/status does not say since when it runs", am.URL)
	}
	a.process = status.Uptime
	return a, nil
}

// get reads one resource, and returns the time by the server's clock.
func get(ctx context.Context, client *http.Client, am config.Alertmanager, path string, into any) (time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(am.URL, "/")+path, nil)
	if err != nil {
		return time.Time{}, err
	}
	if err := authorize(request, am.Trust); err != nil {
		return time.Time{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = response.Body.Close() }() // was only read
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, shownBody))
		return time.Time{}, fmt.Errorf("%s: HTTP status %d: %s", request.URL, response.StatusCode, strings.Join(strings.Fields(cut.Plain(string(text))), " "))
	}
	now, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("%s answers without a date: %w", request.URL, err)
	}
	limited := &io.LimitedReader{R: response.Body, N: maxAlerts}
	if err := json.NewDecoder(limited).Decode(into); err != nil {
		if limited.N <= 0 {
			err = errors.New("it is too large")
		}
		return time.Time{}, fmt.Errorf("%s: its answer can't be read: %w", request.URL, err)
	}
	return now, nil
}
