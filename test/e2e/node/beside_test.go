//go:build e2e

package node_test

import (
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/test/e2e/story"
)

const (
	// stall is how long the runtime is stalled.
	stall = 10 * time.Minute
	// memoryLimit is what the detector may take at the most. All lines of the storm are
	// several times that.
	memoryLimit = 64 << 20
)

// It has a place of its own and goes on beside all the others. For that it has to begin
// first: it is in the first file.
func TestADetectorThatLogsALotGoesOnWhileTheRuntimeIsStalledForTenMinutes(t *testing.T) {
	s := beginAt(t, ownPlace(t, "stalled"))
	containers, pod, before := s.containers(), s.pod("detector"), s.stormsSeen()
	// Kubernetes itself evicts what is of no DaemonSet from a node that is not Ready for
	// five minutes.
	maps.DeleteFunc(containers, func(name, _ string) bool { return strings.HasPrefix(name, "nodemend-controller-") })

	s.Must(s.node.Signal(s.Ctx, containerd, syscall.SIGSTOP))
	stalled := time.Now()
	s.Until(moment, "the detector sees the stall", s.Is(runtimeCondition, corev1.ConditionTrue))
	for _, conditionType := range ours() {
		s.Until(moment, "all conditions are confirmed as often as with a problem", func() (bool, string) {
			c := s.Condition(conditionType)
			return c.LastHeartbeatTime.After(stalled), story.Describe(c) + " at " + c.LastHeartbeatTime.String()
		})
	}
	w := s.storm(stalled.Add(stall))
	t.Parallel() // the others begin
	s.Must(w.wait())
	s.Until(moment, "the detector has read all lines", func() (bool, string) {
		seen := s.stormsSeen() - before
		return seen == w.lines, fmt.Sprintf("%d of %d", seen, w.lines)
	})
	lasted := time.Since(stalled)
	s.expect(w)

	s.Must(s.node.Signal(s.Ctx, containerd, syscall.SIGCONT))
	s.Proved("the runtime was stalled for %s", lasted.Round(time.Second))
	s.run("rm -f " + faultFile)
	took := s.Until(round, "the node is Ready again, and all conditions are False", s.healthy)
	s.Proved("all well %.0f s later", took.Seconds())
	const notice = "Log lines were dropped because nobody read them"
	s.Until(moment, "the log says how much is missing", func() (bool, string) {
		log, err := s.node.PodLogs(pod.Namespace, pod.Name)
		s.Must(err)
		_, told, found := strings.Cut(log, notice+`","lines":`)
		if count, _, _ := strings.Cut(told, "}"); found {
			s.Proved("once somebody reads again: %q, %s", notice, count)
			return true, ""
		}
		return false, fmt.Sprintf("%d bytes of log without that", len(log))
	})
	s.untouched(containers)
	if now := s.pod("detector"); now.UID != pod.UID {
		t.Errorf("the detector's pod is %s, it was %s", now.Name, pod.Name)
	}
	s.Must(s.rolledOut(s.Ctx))
}

// expect judges what was seen in a storm.
func (s *scenario) expect(w *weather) {
	s.Helper()
	s.Proved("%d lines, in bursts all along, and nobody read the detector's log: at most %d MiB of memory", w.lines, w.memory>>20)
	if w.memory > memoryLimit {
		s.Errorf("the detector took %d MiB of memory, want at most %d", w.memory>>20, memoryLimit>>20)
	}
	for _, conditionType := range ours() {
		// What is late here for want of a processor is late there, too.
		if age, most := w.ages[conditionType], evidence.MaxProblemAge+w.gap; age > most {
			s.Errorf("the last heartbeat of %s was %s ago once, want at most %s", conditionType, age, most)
		}
	}
	s.Proved("the last heartbeat of %s was at most %.0f s ago at any time, of %s %.0f s, of %s %.0f s", runtimeCondition, w.ages[runtimeCondition].Seconds(),
		plegCondition, w.ages[plegCondition].Seconds(), kubeletCondition, w.ages[kubeletCondition].Seconds())
	// Each was reported before the next, or else there was none.
	if w.turns < 2 {
		s.Errorf("another fault came or went %d times only, the last time reported: %t", w.turns, !w.unnoticed)
	}
	s.Proved("%d times another fault came or went, reported within %.0f s", w.turns, w.slowest.Seconds())
	if w.notReady == 0 {
		s.Error("the node was Ready all the time")
	}
	if w.healed {
		s.Errorf("%s was not True all the time", runtimeCondition)
	}
	s.Proved("%s=True all the time, the node NotReady after %.0f s", runtimeCondition, w.notReady.Seconds())
}
