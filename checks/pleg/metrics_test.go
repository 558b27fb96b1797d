package pleg

import (
	"bytes"
	_ "embed"
	"strings"
	"testing"
)

// metrics is a page in the style of the kubelet's, of a process that was started
// about an hour before its last relist at 1700000000.
//
//go:embed testdata/metrics.txt
var metrics []byte

func TestAPageIsRead(t *testing.T) {
	whole := sample{
		lastSeen: 1.7e9, hasLastSeen: true, processStart: 1699996428.15,
		durations: total{count: 3564, seconds: 7.128},
		intervals: total{count: 3563, seconds: 3570.126},
	}
	evented := whole
	evented.evented = true
	without := whole
	without.lastSeen, without.hasLastSeen = 0, false

	for name, tc := range map[string]struct {
		page string
		want sample
	}{
		"as it is":                         {string(metrics), whole},
		"without a final newline":          {strings.TrimSpace(string(metrics)), whole},
		"with carriage returns":            {strings.ReplaceAll(string(metrics), "\n", "\r\n"), whole},
		"with timestamps":                  {changed("last_seen_seconds 1.7e+09", "last_seen_seconds 1.7e+09 1700000001000"), whole},
		"with a label that is new":         {changed("last_seen_seconds 1.7e+09", `last_seen_seconds{pleg="} {"} 1.7e+09`), whole},
		"Evented PLEG by its feature":      {changed(`{name="EventedPLEG",stage="ALPHA"} 0`, `{name="EventedPLEG",stage="ALPHA"} 1`), evented},
		"Evented PLEG by its connection":   {changed("evented_pleg_connection_success_count 0", "evented_pleg_connection_success_count 1"), evented},
		"Evented PLEG by its failure":      {changed("evented_pleg_connection_error_count 0", "evented_pleg_connection_error_count 5"), evented},
		"without the gauge":                {changed("kubelet_pleg_last_seen_seconds 1.7e+09\n", ""), without},
		"empty":                            {"", sample{}},
		"something else":                   {"<html>\n<body>kubelet_pleg_last_seen_seconds</body>\nkubelet\n", sample{}},
		"a name that only begins the same": {"kubelet_pleg_last_seen_seconds_total 5\n", sample{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseMetrics([]byte(tc.page))
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

// changed returns the page with one part replaced.
func changed(from, to string) string {
	return string(bytes.Replace(metrics, []byte(from), []byte(to), 1))
}

func TestAValueThatIsNoneIsAnError(t *testing.T) {
	for _, value := range []string{"", " ", "x", "NaN", "+Inf", "-1", "1e300", "1.7e+09x"} {
		_, err := parseMetrics([]byte("kubelet_pleg_last_seen_seconds " + value + "\n"))
		if err == nil || !strings.Contains(err.Error(), "kubelet_pleg_last_seen_seconds") {
			t.Errorf("value %q: got error %v, want one with the metric's name", value, err)
		}
	}
}

func FuzzParseMetrics(f *testing.F) {
	f.Add(metrics)
	f.Add([]byte("kubelet_pleg_last_seen_seconds{} 1\n\n}"))
	f.Add([]byte(`kubernetes_feature_enabled{name="EventedPLEG"`))
	f.Fuzz(func(t *testing.T, page []byte) {
		s, err := parseMetrics(page)
		if err != nil {
			if s != (sample{}) {
				t.Errorf("got %+v with error %v", s, err)
			}
			return
		}
		for _, value := range []float64{s.lastSeen, s.processStart, s.durations.count, s.durations.seconds, s.intervals.count, s.intervals.seconds} {
			if !(value >= 0 && value < maxValue) {
				t.Errorf("got %+v", s)
			}
		}
		if s.lastSeen != 0 && !s.hasLastSeen {
			t.Errorf("got a gauge that the page lacks: %+v", s)
		}
	})
}

// large returns a page of at least 300 KiB: that of a node with many pods.
func large() []byte {
	const line = `kubelet_container_log_filesystem_used_bytes{container="app",namespace="default",pod="app-7d764666f9-2x8wr",uid="1d2c9f0a-6a8e-4b0f-9f3b-0d1f6f0f8f11"} 4096` + "\n"
	return append(bytes.Repeat([]byte(line), 300<<10/len(line)), metrics...)
}

func BenchmarkParse(b *testing.B) {
	page := large()
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if s, err := parseMetrics(page); err != nil || !s.hasLastSeen {
			b.Fatal(s, err)
		}
	}
}

// parseMetrics reads a whole page.
func parseMetrics(page []byte) (sample, error) {
	var p parser
	_, _ = p.Write(page)
	return p.end()
}

func TestAPageMayArriveInPieces(t *testing.T) {
	page := []byte("# HELP x\nkubelet_pleg_last_seen_seconds 1.795262798e+09\n" +
		"long{label=\"" + strings.Repeat("x", 2*maxLine) + "\"} 1\nprocess_start_time_seconds 1.7e+09")
	want, err := parseMetrics(page)
	if err != nil || want.lastSeen != 1795262798 || want.processStart != 1.7e9 {
		t.Fatalf("in one piece: %+v, %v", want, err)
	}
	for _, size := range []int{1, 2, 7, 4096, len(page)} {
		var p parser
		for rest := page; len(rest) > 0; {
			n := min(size, len(rest))
			_, _ = p.Write(rest[:n])
			rest = rest[n:]
		}
		if got, err := p.end(); err != nil || got != want {
			t.Errorf("in pieces of %d bytes: %+v, %v; want %+v", size, got, err, want)
		}
	}
}
