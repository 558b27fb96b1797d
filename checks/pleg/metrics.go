package pleg

import (
	"bytes"
	"fmt"
	"strconv"
)

// maxValue is more than any count or time can be: as a time, the year 2286.
const maxValue = 1e10

// sample is what a page of the kubelet's metrics says about its PLEG.
type sample struct {
	// lastSeen is when the last relist that succeeded began, in Unix time with a
	// resolution of a second; 0: none has. Valid if hasLastSeen.
	lastSeen    float64
	hasLastSeen bool
	// processStart is when the kubelet was started, in Unix time; 0: not known.
	processStart float64
	// durations are those of all relists.
	durations total
	// intervals are those from the last relist that succeeded to the beginning
	// of the next one.
	intervals total
	// evented is whether Evented PLEG is, or was, in use.
	evented bool
}

// total is what a histogram has seen.
type total struct{ count, seconds float64 }

// since returns what was seen after an earlier total of the same process.
func (t total) since(earlier total) total {
	return total{count: t.count - earlier.count, seconds: t.seconds - earlier.seconds}
}

// mean is in seconds; 0 if nothing was seen.
func (t total) mean() float64 {
	if t.count <= 0 {
		return 0
	}
	return t.seconds / t.count
}

// maxLine is more than the lines that are needed can have, in bytes.
const maxLine = 4 << 10

// parser reads a page in Prometheus' text format, version 0.0.4, that is written
// to it in pieces. It looks at the names of all lines but only at the values of
// those that it needs, and keeps nothing but the beginning of a line.
type parser struct {
	sample sample
	// begun is the line whose end has not been written yet.
	begun []byte
	err   error
}

// Write takes in a piece of the page. It never fails: end does.
func (p *parser) Write(piece []byte) (int, error) {
	rest := piece
	for {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		if !ended {
			break
		}
		rest = after
		if len(p.begun) > 0 {
			p.begun = append(p.begun, line[:min(len(line), maxLine-len(p.begun))]...)
			line = p.begun
		}
		p.add(line)
		p.begun = p.begun[:0]
	}
	p.begun = append(p.begun, rest[:min(len(rest), maxLine-len(p.begun))]...)
	return len(piece), nil
}

func (p *parser) add(line []byte) {
	if p.err == nil {
		p.err = p.sample.add(line)
	}
}

// end returns what the page says.
func (p *parser) end() (sample, error) {
	p.add(p.begun)
	p.begun = nil
	if p.err != nil {
		return sample{}, p.err
	}
	return p.sample, nil
}

func (s *sample) add(line []byte) error {
	// All names below begin like this; most lines are told by their first byte.
	if !bytes.HasPrefix(line, []byte("kube")) && !bytes.HasPrefix(line, []byte("process_start")) {
		return nil
	}
	end := bytes.IndexAny(line, " {")
	if end < 0 {
		return nil
	}
	name, rest := line[:end], line[end:]
	var target *float64
	var evented float64
	switch string(name) {
	case "kubelet_pleg_last_seen_seconds":
		target, s.hasLastSeen = &s.lastSeen, true
	case "process_start_time_seconds":
		target = &s.processStart
	case "kubelet_pleg_relist_duration_seconds_count":
		target = &s.durations.count
	case "kubelet_pleg_relist_duration_seconds_sum":
		target = &s.durations.seconds
	case "kubelet_pleg_relist_interval_seconds_count":
		target = &s.intervals.count
	case "kubelet_pleg_relist_interval_seconds_sum":
		target = &s.intervals.seconds
	case "kubelet_evented_pleg_connection_success_count", "kubelet_evented_pleg_connection_error_count":
		target = &evented
	case "kubernetes_feature_enabled":
		if !bytes.Contains(rest, []byte(`name="EventedPLEG"`)) {
			return nil
		}
		target = &evented
	default:
		return nil
	}
	value, err := parseValue(rest)
	if err != nil {
		return fmt.Errorf("metric %s: %w", name, err)
	}
	*target = value
	s.evented = s.evented || evented > 0
	return nil
}

// parseValue returns the value behind the labels, if any. All values that are
// needed are times and counts.
func parseValue(rest []byte) (float64, error) {
	if labels := bytes.LastIndexByte(rest, '}'); labels >= 0 {
		rest = rest[labels+1:]
	}
	rest = bytes.TrimLeft(rest, " \t")
	if end := bytes.IndexAny(rest, " \t\r"); end >= 0 { // a timestamp follows
		rest = rest[:end]
	}
	value, err := strconv.ParseFloat(string(rest), 64)
	if err != nil {
		return 0, err
	}
	if !(value >= 0 && value < maxValue) { // NaN is neither
		return 0, fmt.Errorf("%v is neither a time nor a count", value)
	}
	return value, nil
}
