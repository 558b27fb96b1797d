package exporter

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestOnlyWhatALogMayHaveShownIsLatched(t *testing.T) {
	type run struct {
		status corev1.ConditionStatus
		reason string
	}
	for name, tc := range map[string]struct {
		reported string // the reason of the problem that a former process has reported
		runs     []run
		want     run
	}{
		"a log's":                         {"Logged", []run{{no, "Fine"}}, run{yes, "Logged"}},
		"a plugin's":                      {"Failed", []run{{no, "Fine"}}, run{no, "Fine"}},
		"several plugins'":                {"Failed,Broken", []run{{no, "Fine"}}, run{no, "Fine"}},
		"both":                            {"Failed,Logged", []run{{no, "Fine"}}, run{yes, "Logged"}},
		"of a rule that is gone":          {"Former", []run{{no, "Fine"}}, run{yes, "Former"}},
		"a log's, the plugin can't tell":  {"Logged", []run{{unknown, "Timeout"}}, run{yes, "Logged"}},
		"a plugin's, it can't tell":       {"Failed", []run{{unknown, "Timeout"}}, run{unknown, "Timeout"}},
		"a log's, the plugin fails":       {"Logged", []run{{yes, "Failed"}}, run{yes, "Logged,Failed"}},
		"a log's, the plugin has failed":  {"Logged", []run{{yes, "Failed"}, {no, "Fine"}}, run{yes, "Logged"}},
		"a log's, shown anew and over":    {"Logged", []run{{yes, "Logged"}, {no, "Fine"}}, run{no, "Fine"}},
		"both, the plugin fails":          {"Failed,Logged", []run{{yes, "Failed"}}, run{yes, "Logged,Failed"}},
		"a plugin's, then the log's too":  {"Failed", []run{{no, "Fine"}, {yes, "Logged"}}, run{yes, "Logged"}},
		"a plugin's, and it is the log's": {"Failed", []run{{yes, "Failed,Logged"}, {no, "Fine"}}, run{no, "Fine"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, Options{
				Boot:    epoch.Add(-24 * time.Hour),
				Latches: map[corev1.NodeConditionType]Latch{runtime: {Others: []string{"Failed", "Broken"}}},
			})
			stored := a(runtime, yes, epoch.Add(-time.Minute), lastWeek)
			stored.Reason = tc.reported
			w.node(stored)
			for _, r := range tc.runs {
				w.pass(time.Minute)
				w.observe(observation{conditionType: runtime, status: r.status, reason: r.reason, at: w.now})
			}
			got := w.entries[runtime]
			if got.shown.status != tc.want.status || got.shown.reason != tc.want.reason {
				t.Errorf("it is %s %s, want %s %s", got.shown.status, got.shown.reason, tc.want.status, tc.want.reason)
			}
			if tc.want.status == yes && len(tc.runs) == 1 && !got.since.Equal(lastWeek) {
				t.Errorf("its transition has moved to %s", got.since)
			}
		})
	}
}
