package exporter

import (
	"k8s.io/klog/v2"
)

// outcomeLog logs results of requests when they change: an outage is two lines,
// not one for every attempt.
type outcomeLog struct {
	logger klog.Logger
	last   string
}

func (l *outcomeLog) result(verb string, err error) {
	now := outcome(err)
	if now == l.last {
		return
	}
	switch {
	case err != nil:
		l.logger.Error(err, "Request to the API server failed; conditions are kept and written later", "verb", verb)
	case l.last == "":
		l.logger.V(1).Info("API server answers", "verb", verb)
	default:
		l.logger.Info("API server answers again", "verb", verb)
	}
	l.last = now
}
