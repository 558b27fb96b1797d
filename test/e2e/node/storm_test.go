//go:build e2e

package node_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// stormLines are so many that what the detector says of them fits nowhere: the pipe of
// its output takes 64 KiB and its own buffers 512 KiB.
const stormLines = 20000

// The pipe and the buffers are full within seconds; the rest of a longer stall would add
// nothing but time.
func TestADetectorThatLogsALotGoesOnWhileTheStalledRuntimeReadsNothing(t *testing.T) {
	s := begin(t)
	containers, pod, before := s.containers(), s.pod("detector"), s.stormsSeen()

	s.must(s.node.Signal(s.ctx, containerd, syscall.SIGSTOP))
	s.until(moment, "the detector sees the stall", s.is(runtimeCondition, corev1.ConditionTrue))
	s.run(fmt.Sprintf(`now=$(date "+%%b %%e %%H:%%M:%%S"); seq -f "$now node kernel: storm %%.0f" %d >>%s`, stormLines, stormLog))
	s.until(round, "the detector has read all lines", func() (bool, string) {
		seen := s.stormsSeen() - before
		return seen == stormLines, fmt.Sprintf("%d of %d", seen, stormLines)
	})
	read := time.Now()
	s.run("touch " + faultFile)
	s.until(moment, "it sees what comes after that", s.is(faultCondition, corev1.ConditionTrue))
	s.until(moment, "it confirms what was before", s.confirms(runtimeCondition, corev1.ConditionTrue, read))
	s.proved("nobody reads the log: %d lines more, and checks, conditions and heartbeats go on", stormLines)

	s.must(s.node.Signal(s.ctx, containerd, syscall.SIGCONT))
	s.until(moment, "the runtime is healthy again", s.is(runtimeCondition, corev1.ConditionFalse))
	const notice = "Log lines were dropped because nobody read them"
	s.until(moment, "the log says how much is missing", func() (bool, string) {
		log, err := s.node.PodLogs(pod.Namespace, pod.Name)
		s.must(err)
		return strings.Contains(log, notice), fmt.Sprintf("%d bytes of log without that", len(log))
	})
	s.proved("once somebody reads again: %q", notice)
	s.untouched(containers)
}

// stormsSeen returns how many lines the detector's metrics say that it has seen.
func (s *scenario) stormsSeen() int {
	s.Helper()
	transport := &http.Transport{DialContext: s.node.DialContext}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "http://127.0.0.1:20257/metrics", nil)
	s.must(err)
	response, err := (&http.Client{Transport: transport, Timeout: moment}).Do(request)
	s.must(err)
	defer func() { _ = response.Body.Close() }() // was only read
	body, err := io.ReadAll(response.Body)
	s.must(err)
	for line := range strings.Lines(string(body)) {
		if series, value, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(series, "problem_counter{") && strings.Contains(series, stormReason) {
			count, err := strconv.ParseFloat(value, 64)
			s.must(err)
			return int(count)
		}
	}
	return 0
}
