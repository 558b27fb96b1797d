package exporter

import "time"

// Limits of the delay before a failed request is tried again.
const (
	firstRetry = time.Second
	maxRetry   = 30 * time.Second
)

// jitter returns d changed by up to ten percent either way, so that the nodes
// of a cluster do not write in step. rand returns numbers in [0, 1).
func jitter(d time.Duration, rand func() float64) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand()))
}

// backoff returns the delay after so many failures in a row: doubling from one
// to thirty seconds, then up to halved, so that the nodes of a cluster do not
// come back in step after an outage.
func backoff(failures int, rand func() float64) time.Duration {
	delay := maxRetry
	if shift := failures - 1; shift < 5 {
		delay = min(delay, firstRetry<<shift)
	}
	return time.Duration(float64(delay) * (1 - 0.5*rand()))
}
