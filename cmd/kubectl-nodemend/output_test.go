package main

import (
	"strings"
	"testing"
	"time"
)

func TestALengthOfTimeMayHaveDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "0s": 0,
		"": -1, "d": -1, "1.5d": -1, "-1d": -1, "-5m": -1, "1d-5m": -1, "5": -1, "1w": -1, "99999d": -1,
	} {
		var got spanFlag
		err := got.Set(text)
		if want < 0 && (err == nil || !strings.Contains(err.Error(), "for example 90s, 1h30m or 1d")) {
			t.Errorf("%q is taken as %v (%v)", text, time.Duration(got), err)
		}
		if want >= 0 && (err != nil || time.Duration(got) != want) {
			t.Errorf("%q is taken as %v (%v), want %v", text, time.Duration(got), err, want)
		}
	}
}

func TestOneThingIsNotSeveral(t *testing.T) {
	for want, got := range map[string]string{
		"1 node": count(1, "node"), "0 nodes": count(0, "node"), "1 RemedyPolicy": count(1, "RemedyPolicy"), "2 RemedyPolicies": count(2, "RemedyPolicy"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
