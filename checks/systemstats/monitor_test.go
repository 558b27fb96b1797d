package systemstats

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opencensus.io/stats/view"
	"k8s.io/klog/v2"
	_ "k8s.io/node-problem-detector/pkg/problemmetrics" // has metrics of its own
	"k8s.io/node-problem-detector/pkg/types"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks/monitortest"
)

// allMetrics is a configuration with some metrics of every collector. Their names
// begin with prefix, as OpenCensus has one namespace for the whole process.
func allMetrics(prefix string) map[string]any {
	config := map[string]any{"invokeInterval": "10s", "disk": nil}
	for collector, names := range map[string][]string{
		"cpu":       {"cpu/load_1m", "cpu/usage_time", "system/procs_running"},
		"disk":      {"disk/bytes_used"},
		"host":      {"host/uptime"},
		"memory":    {"memory/bytes_used"},
		"net":       {},
		"osFeature": {"system/os_feature"},
	} {
		if collector == "net" {
			for _, metric := range netMetrics() {
				names = append(names, string(metric))
			}
		}
		configs := map[string]any{}
		for _, name := range names {
			configs[name] = map[string]any{"displayName": prefix + name}
		}
		config[collector] = map[string]any{"metricsConfigs": configs}
	}
	return config
}

// uniquePrefix is one for the names of metrics, which can be used once in a process.
func uniquePrefix(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("%s/%d/", t.Name(), time.Now().UnixNano())
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func writeConfig(t *testing.T, config map[string]any) string {
	t.Helper()
	data, err := json.Marshal(config)
	must(t, err)
	path := filepath.Join(t.TempDir(), "stats.json")
	write(t, path, string(data))
	return path
}

// fakeProc makes a directory with what the collectors read below procPath.
func fakeProc(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "proc")
	write(t, filepath.Join(dir, "cmdline"), "quiet csm.enabled=1\n")
	write(t, filepath.Join(dir, "modules"), "nvidia 4096 0 - Live 0x0 (PO)\next4 4096 2 jbd2, Live 0x0\n")
	write(t, filepath.Join(dir, "net", "dev"), "h\nh\n eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n")
	write(t, filepath.Join(dir, "stat"), "cpu 1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 5 1\nctxt 1\nbtime 1\nprocesses 1\nprocs_running 7\nprocs_blocked 0\n")
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run starts a monitor and stops it when it has collected once, which it has begun
// with when one of the metrics called signs is there. The process of the test would end with
// NPD's klog.Fatal or panic.
func run(t *testing.T, path string, probes map[string]probe, signs ...string) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewRegistry()
	ctx := klog.NewContext(t.Context(), klog.Logger{})
	m, err := newMonitor(ctx, path, Options{Clock: clock.RealClock{}, Registerer: registry}, probes)
	must(t, err)
	var life monitortest.Life
	life.Start(t, m.Run)
	if len(m.ConditionTypes()) > 0 || m.Healthy() != nil {
		t.Error("a monitor that reports nothing should have no conditions and no opinion on its health")
	}
	deadline := time.After(10 * time.Second)
	for !slices.ContainsFunc(signs, func(sign string) bool { return len(collected(sign)) > 0 }) {
		select {
		case <-deadline:
			t.Fatal("nothing was collected")
		case <-time.After(time.Millisecond):
		}
	}
	life.Stop() // waits until all has been collected
	return registry
}

// collected returns the values of a metric.
func collected(name string) []*view.Row {
	rows, err := view.RetrieveData(name)
	if err != nil {
		return nil
	}
	return rows
}

// samples is one metric of each collector, by the collector's name.
func samples(prefix string) map[string]string {
	return map[string]string{
		"cpu": prefix + "system/procs_running", "disk": prefix + "disk/bytes_used", "host": prefix + "host/uptime",
		"memory": prefix + "memory/bytes_used", "net": prefix + "net/rx_bytes", "osFeature": prefix + "system/os_feature",
	}
}

func signs(prefix string) []string { return slices.Collect(maps.Values(samples(prefix))) }

// collectors are the collectors of which metrics with prefix were collected.
func collectors(prefix string) []string {
	var found []string
	for collector, metric := range samples(prefix) {
		if len(collected(metric)) > 0 {
			found = append(found, collector)
		}
	}
	slices.Sort(found)
	return found
}

// here are the collectors that work on this machine, by their probes.
func here(t *testing.T, proc string) []string {
	t.Helper()
	var working []string
	for name, probe := range allProbes() {
		if err := probe(proc); err != nil {
			t.Logf("%s can't work here: %v", name, err)
		} else {
			working = append(working, name)
		}
	}
	slices.Sort(working)
	return working
}

func without(all []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(names, s) })
}

func TestACollectorThatCanNotReadItsFilesIsLeftOutAndTheOthersCollect(t *testing.T) {
	all := here(t, fakeProc(t))
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, proc string)
		out   []string
	}{
		"nothing is missing":           {func(*testing.T, string) {}, nil},
		"no modules":                   {func(t *testing.T, proc string) { must(t, os.Remove(proc+"/modules")) }, []string{"osFeature"}},
		"a module without its numbers": {func(t *testing.T, proc string) { write(t, proc+"/modules", "ext4\n") }, []string{"osFeature"}},
		"no command line":              {func(t *testing.T, proc string) { must(t, os.Remove(proc+"/cmdline")) }, []string{"osFeature"}},
		"an empty command line":        {func(t *testing.T, proc string) { write(t, proc+"/cmdline", "") }, []string{"osFeature"}},
		"no network devices":           {func(t *testing.T, proc string) { must(t, os.Remove(proc+"/net/dev")) }, []string{"net"}},
		"nothing at all": {func(t *testing.T, proc string) {
			must(t, os.RemoveAll(proc))
			must(t, os.Mkdir(proc, 0o700))
		}, []string{"cpu", "net", "osFeature"}},
	} {
		t.Run(name, func(t *testing.T) {
			proc := fakeProc(t)
			tc.spoil(t, proc)
			prefix := uniquePrefix(t)
			config := allMetrics(prefix)
			config["procPath"] = proc
			registry := run(t, writeConfig(t, config), allProbes(), signs(prefix)...)

			want := without(all, tc.out...)
			if got := collectors(prefix); !slices.Equal(got, want) {
				t.Errorf("collected by %v, want %v", got, want)
			}
			var gauges strings.Builder
			for _, collector := range slices.Sorted(maps.Keys(allProbes())) {
				disabled := 1
				if slices.Contains(want, collector) {
					disabled = 0
				}
				fmt.Fprintf(&gauges, "nodemend_system_stats_collector_disabled{collector=%q} %d\n", collector, disabled)
			}
			header := "# HELP nodemend_system_stats_collector_disabled How many system-stats monitors do without this collector, since what it reads could not be read when they started.\n" +
				"# TYPE nodemend_system_stats_collector_disabled gauge\n"
			must(t, testutil.GatherAndCompare(registry, strings.NewReader(header+gauges.String()), "nodemend_system_stats_collector_disabled"))
		})
	}
}

func TestWithoutTheTimesOfTheCPUItsCollectorIsLeftOut(t *testing.T) {
	t.Setenv("HOST_PROC", t.TempDir()) // where some collectors look, in spite of procPath
	proc := fakeProc(t)
	prefix := uniquePrefix(t)
	config := allMetrics(prefix)
	config["procPath"] = proc
	run(t, writeConfig(t, config), allProbes(), signs(prefix)...)
	if got, want := collectors(prefix), here(t, proc); !slices.Equal(got, want) || slices.Contains(got, "cpu") {
		t.Errorf("collected by %v, want %v", got, want)
	}
}

// What is outside procPath can't be taken away here; NPD would end the process for
// some of it, too.
func TestEveryCollectorCanBeLeftOut(t *testing.T) {
	proc := fakeProc(t)
	all := here(t, proc)
	for name := range allProbes() {
		t.Run(name, func(t *testing.T) {
			probes := allProbes()
			probes[name] = func(string) error { return errors.New("unsupported ID in /etc/os-release") }
			prefix := uniquePrefix(t)
			config := allMetrics(prefix)
			config["procPath"] = proc
			run(t, writeConfig(t, config), probes, signs(prefix)...)
			if got, want := collectors(prefix), without(all, name); !slices.Equal(got, want) {
				t.Errorf("collected by %v, want %v", got, want)
			}
		})
	}
}

func TestMistakesInAConfigurationAreErrors(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	for name, tc := range map[string]struct {
		config string
		want   []string
	}{
		"no JSON":                 {`{"cpu":`, []string{"unexpected end of JSON input"}},
		"a bad regexp":            {`{"net": {"excludeInterfaceRegexp": "("}}`, []string{"missing closing )"}},
		"no duration":             {`{"invokeInterval": "often"}`, []string{"often", "a duration such as 60s"}},
		"no lsblk duration":       {`{"disk": {"lsblkTimeout": "soon"}}`, []string{"soon"}},
		"an interval of zero":     {`{"invokeInterval": "0s"}`, []string{"must be above 0s"}},
		"a long lsblk":            {`{"invokeInterval": "1s"}`, []string{"LsblkTimeout"}},
		"no procfs":               {`{"procPath": "/nonexistent"}`, []string{"/nonexistent"}},
		"a name that is too long": {`{"host": {"metricsConfigs": {"host/uptime": {"displayName": "` + long + `"}}}}`, []string{`host.metricsConfigs["host/uptime"].displayName`, "255 printable"}},
		"a name in Greek":         {`{"host": {"metricsConfigs": {"host/uptime": {"displayName": "χ"}}}}`, []string{"255 printable"}},
		"a name of NPD's own":     {`{"cpu": {"metricsConfigs": {"cpu/load_1m": {"displayName": "problem_counter"}}}}`, []string{`"problem_counter" is that of another metric of the process`}},
		"a name used twice": {`{"cpu": {"metricsConfigs": {"cpu/load_1m": {"displayName": "a"}}}, "disk": {"metricsConfigs": {"disk/io_time": {"displayName": "a"}}}}`,
			[]string{`disk.metricsConfigs["disk/io_time"].displayName: "a" is that of cpu/load_1m, too`}},
		"half a network collector": {`{"procPath": "/nonexistent", "net": {"metricsConfigs": {"net/rx_bytes": {"displayName": "half"}, "net/tx_bytes": {}}}}`,
			[]string{"/nonexistent", `net.metricsConfigs["net/tx_bytes"].displayName: is missing`, `net.metricsConfigs["net/rx_packets"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "stats.json")
			write(t, path, tc.config)
			_, err := New(t.Context(), path, Options{Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry()})
			for _, want := range append(tc.want, path) {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
		})
	}
	if _, err := New(t.Context(), "/nonexistent.json", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
}

func TestTheKnownModulesAreThoseBesideTheConfiguration(t *testing.T) {
	proc := fakeProc(t)
	write(t, filepath.Join(proc, "modules"), "known 1 0 - Live 0x0 (O)\nforeign 1 0 - Live 0x0 (O)\n")
	prefix := uniquePrefix(t)
	config := allMetrics(prefix)
	config["procPath"] = proc
	path := writeConfig(t, config)
	directory := filepath.Dir(path)
	write(t, filepath.Join(directory, "guestosconfig", "known-modules.json"), `[{"moduleName": "known"}]`)
	t.Chdir(filepath.Dir(directory))
	run(t, filepath.Join(filepath.Base(directory), filepath.Base(path)), allProbes(), signs(prefix)...)
	for _, row := range collected(prefix + "system/os_feature") {
		for _, tag := range row.Tags {
			if tag.Key.Name() == "value" && tag.Value == "foreign" {
				return
			}
		}
	}
	t.Errorf("got %v, want foreign as the only unknown module", collected(prefix+"system/os_feature"))
}

func TestTwoMonitorsShareAGauge(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		path := writeConfig(t, allMetrics(uniquePrefix(t)))
		probes := allProbes()
		probes["cpu"] = func(string) error { return errors.New("gone") }
		if _, err := newMonitor(t.Context(), path, Options{Clock: clock.RealClock{}, Registerer: registry}, probes); err != nil {
			t.Fatal(err)
		}
	}
	gauge, err := disabledGauge(registry)
	must(t, err)
	if got := testutil.ToFloat64(gauge.WithLabelValues("cpu")); got != 2 {
		t.Errorf("got %v, want 2", got)
	}
}

// hanging is a monitor with a collector that waits for a dead file system.
type hanging struct{ starts, stops atomic.Int32 }

func (h *hanging) Start() (<-chan *types.Status, error) {
	h.starts.Add(1)
	return nil, nil
}

func (h *hanging) Stop() {
	h.stops.Add(1)
	<-time.After(time.Hour)
}

func TestItEndsSoonAfterItsContextWhateverNPDDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		npd := &hanging{}
		m := &Monitor{npd: npd, clock: clock.RealClock{}}
		var life monitortest.Life
		life.Start(t, m.Run)
		synctest.Wait()
		began := time.Now()
		life.Stop()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %s", took)
		}
		if starts, stops := npd.starts.Load(), npd.stops.Load(); starts != 1 || stops != 1 {
			t.Errorf("started %d and stopped %d times, want once", starts, stops)
		}
		<-time.After(time.Hour)
	})
}

func TestTheConfigurationFilesOfNPDRun(t *testing.T) {
	for name, sign := range map[string]string{
		"system-stats-monitor.json": "memory/bytes_used", "net-cgroup-system-stats-monitor.json": "net/rx_bytes",
	} {
		data, err := os.ReadFile(filepath.Join(npdDirectory(t), "config", name))
		must(t, err)
		prefix := uniquePrefix(t)
		path := filepath.Join(t.TempDir(), name)
		write(t, path, strings.ReplaceAll(string(data), `"displayName": "`, `"displayName": "`+prefix))
		run(t, path, allProbes(), prefix+sign)
	}
}

func TestTheSameConfigurationTwiceIsAnError(t *testing.T) {
	path := writeConfig(t, allMetrics(uniquePrefix(t)))
	options := Options{Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry()}
	_, err := New(t.Context(), path, options)
	must(t, err)
	if _, err := New(t.Context(), path, options); err == nil || !strings.Contains(err.Error(), "which may come from another configuration file") {
		t.Errorf("got %v", err)
	}
}

// Each of these is kept from being reached by what is named beside it. A new one
// in a later version needs the same.
func TestEveryFatalCallOfNPDIsProvidedFor(t *testing.T) {
	providedFor := map[string]string{
		"Error initializing metric for ":      "validateNames",
		"Failed to initialize metric ":        "validateNames",
		"Metric config ":                      "validateNet",
		"Failed to read configuration ":       "construct",
		"Failed to unmarshal configuration ":  "loadConfig",
		"Failed to apply configuration ":      "loadConfig",
		"Failed to validate ":                 "loadConfig",
		"Failed to retrieve kernel version: ": "probeHost",
		"Failed to retrieve OS version: ":     "probeHost",
		"Error retrieving cmdline args: ":     "probeOSFeature",
		"Error retrieving kernel modules: ":   "probeOSFeature",
	}
	files, err := filepath.Glob(filepath.Join(npdDirectory(t), "pkg", "systemstatsmonitor", "*.go"))
	must(t, err)
	calls := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		must(t, err)
		for _, call := range regexp.MustCompile(`(Fatal|Exit|panic)\w*\(["\x60]?([^%"]*)`).FindAllStringSubmatch(string(source), -1) {
			calls++
			if !slices.ContainsFunc(slices.Collect(maps.Keys(providedFor)), func(known string) bool { return strings.HasPrefix(call[2], known) }) {
				t.Errorf("%s: %q", filepath.Base(file), call[0])
			}
		}
	}
	if calls < 30 {
		t.Errorf("only %d calls found", calls)
	}
}

func npdDirectory(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/node-problem-detector").Output()
	if err != nil {
		t.Skipf("the module of node-problem-detector is not at hand: %v", err)
	}
	return strings.TrimSpace(string(out))
}
