package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/cut"
)

// maxAlerts bounds the answer of a server of alerts, in bytes.
const maxAlerts = 32 << 20

// alertmanager is one that is polled.
type alertmanager struct{ config.AlertServer }

func (am alertmanager) String() string { return "Alertmanager" }

// read implements source.
func (am alertmanager) read(ctx context.Context) (a answer, err error) {
	client, err := clientFor(am.Trust, nil)
	if err != nil {
		return a, err
	}
	defer client.CloseIdleConnections()
	// As GET /api/v2/alerts has them.
	var list []struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		EndsAt      time.Time         `json:"endsAt"` // unless it is repeated
		Fingerprint string            `json:"fingerprint"`
		Status      struct {
			State       string   `json:"state"`
			SilencedBy  []string `json:"silencedBy"`
			InhibitedBy []string `json:"inhibitedBy"`
		} `json:"status"`
	}
	if a.now, err = get(ctx, client, am.AlertServer, "/api/v2/alerts", &list); err != nil {
		return a, err
	}
	if list == nil {
		return a, fmt.Errorf("%s/api/v2/alerts answers no list", am.URL)
	}
	for _, one := range list {
		state, known := map[string]alertState{"active": firing, "suppressed": silenced, "unprocessed": silenced}[one.Status.State]
		if !known || one.Fingerprint == "" || one.EndsAt.IsZero() {
			return a, fmt.Errorf("%s/api/v2/alerts: an alert has the state %q, the fingerprint %q and endsAt %s, which is not understood",
				am.URL, one.Status.State, one.Fingerprint, one.EndsAt.Format(time.RFC3339))
		}
		if len(one.Status.SilencedBy)+len(one.Status.InhibitedBy) > 0 {
			state = silenced
		}
		a.alerts = append(a.alerts, alert{labels: one.Labels, annotations: one.Annotations, id: one.Fingerprint, until: one.EndsAt, state: state})
	}
	// After the alerts: if it is the process that was asked before, it was in between.
	var status struct {
		Uptime time.Time `json:"uptime"`
	}
	if _, err = get(ctx, client, am.AlertServer, "/api/v2/status", &status); err != nil {
		return a, err
	}
	if status.Uptime.IsZero() {
		return a, fmt.Errorf("%s/api/v2/status does not say since when it runs", am.URL)
	}
	a.process = status.Uptime
	return a, nil
}

// get reads one resource, and returns the time by the server's clock.
func get(ctx context.Context, client *http.Client, server config.AlertServer, path string, into any) (time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(server.URL, "/")+path, nil)
	if err != nil {
		return time.Time{}, err
	}
	if err := authorize(request, server.Trust); err != nil {
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
	if err := decode(response.Body, into); err != nil {
		return time.Time{}, fmt.Errorf("%s: its answer can't be read: %w", request.URL, err)
	}
	return now, nil
}

// decode reads one JSON value of at most maxAlerts bytes.
func decode(body io.Reader, into any) error {
	limited := &io.LimitedReader{R: body, N: maxAlerts}
	err := json.NewDecoder(limited).Decode(into)
	if err != nil && limited.N <= 0 {
		return errors.New("it is too large")
	}
	return err
}
