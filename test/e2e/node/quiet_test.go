//go:build e2e

package node_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/node"
)

// How long the detector watches a healthy node, and where all that it has said is kept.
var (
	quietFor = flag.Duration("quiet", 3*time.Minute, "for how long the detector watches a healthy node")
	quietOut = flag.String("quiet.out", "", "the directory that keeps what it has said; empty: none")
)

const (
	quietNode = "quiet"
	// samples are how often the detector is measured, besides at the start.
	samples = 6
	// churn is between two pods that are deleted.
	churn = 20 * time.Second
)

// quietConditions are those that the detector of a healthy node sets. No machine without drives of
// its own or without EDAC has the others: in a virtual machine there are DrivesUnhealthy and
// MemoryUnhealthy.
var quietConditions = []corev1.NodeConditionType{
	runtimeCondition, plegCondition, kubeletCondition, "HardwareFailure", "FilesystemUnhealthy", "ResourcesExhausted", "TasksBlocked",
	"ClockUnhealthy", "NetworkUnhealthy", "ServiceNetworkUnhealthy",
	"StorageDeviceFailed", "FilesystemShutDown", "KernelLockup", "MemoryFailed", "PCIeFailed", "GPUFailed", faultCondition,
}

// A healthy node has pods that come and go, and a detector that is restarted and killed. With
// -quiet=1h it is long enough to say something; the short run shows that all this works.
func TestAHealthyNodeHasNoFalseAlarm(t *testing.T) {
	said := kernelLog(t)
	q := beginQuiet(t)
	t.Parallel()
	q.Until(round, "all conditions are False", func() (bool, string) {
		object := q.Object()
		var ill []string
		q.judged = nil
		for _, conditionType := range quietConditions {
			c := story.Condition(object, conditionType)
			if c.Status == corev1.ConditionTrue && strings.Contains(said, c.Message) {
				continue // the kernel of this machine has said so before, as of a test's own disk, and it is true
			}
			q.judged = append(q.judged, conditionType)
			if c.Status != corev1.ConditionFalse {
				ill = append(ill, story.Describe(c))
			}
		}
		return len(ill) == 0, strings.Join(ill, ", ")
	})
	began := time.Now()
	q.measure()
	end, next := began.Add(*quietFor), 1
	restarts := []struct {
		at   time.Time
		what string
	}{
		{began.Add(*quietFor / 3), "systemctl restart nodemend-detector.service"},
		{began.Add(*quietFor * 2 / 3), "systemctl kill --signal=KILL nodemend-detector.service"},
	}
	tick := time.NewTicker(churn)
	defer tick.Stop()
	for now := began; now.Before(end); now = <-tick.C {
		if now.After(began.Add(*quietFor * time.Duration(next) / samples)) {
			q.measure()
			next++
		}
		if len(restarts) > 0 && now.After(restarts[0].at) {
			q.measure() // what it has used until then
			q.inside(restarts[0].what)
			q.listener.Note("restart", restarts[0].what)
			restarts = restarts[1:]
		}
		q.replacePod()
	}
	q.measure()
	q.Must(q.listener.Stop())
	q.judge(time.Since(began))
}

// quiet is a healthy node, and what its detector has said.
type quiet struct {
	*story.Node
	kube     kubernetes.Interface
	node     *node.Node
	dir      string
	listener *story.Listener
	deleted  int
	// judged are the conditions that were False when the watch began.
	judged []corev1.NodeConditionType

	processes map[string]time.Duration // what each of the detector's has used of the processors
	memory    int                      // kB that it took at the most
}

// kernelLog is what the kernel of this machine has said.
func kernelLog(t *testing.T) string {
	t.Helper()
	const readAll, size = 3, 10 // SYSLOG_ACTION_…, of syslog(2)
	length, err := unix.Klogctl(size, nil)
	if err != nil {
		t.Fatal("how long is the log of the kernel? ", err)
	}
	log := make([]byte, length)
	if length, err = unix.Klogctl(readAll, log); err != nil {
		t.Fatal("reading the log of the kernel: ", err)
	}
	return string(log[:length])
}

// measure takes down what the detector uses.
func (q *quiet) measure() {
	q.Helper()
	out := q.inside(`pid=$(systemctl show --property=MainPID --value nodemend-detector.service)
[ "$pid" != 0 ] || exit 0 # between two
echo $pid
sed 's/.*) //' /proc/$pid/stat | cut -d" " -f12,13
grep -E "^Vm(RSS|HWM):" /proc/$pid/status`)
	words := strings.Fields(out)
	if len(words) < 9 {
		return
	}
	var user, system, most int
	_, err := fmt.Sscan(words[1]+" "+words[2]+" "+words[4], &user, &system, &most)
	q.Must(err)
	q.memory = max(q.memory, most)
	q.processes[words[0]] = time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
	q.listener.Note("process "+words[0], "CPU "+q.processes[words[0]].String(), strings.Join(words[3:], " "))
	q.Logf("process %s: %s of CPU, %s", words[0], q.processes[words[0]], strings.Join(words[3:], " "))
}

// judge fails the test for each false alarm, and says what was seen.
func (q *quiet) judge(lasted time.Duration) {
	q.Helper()
	alarms, changes := q.listener.FalseAlarms(q.judged)
	for _, alarm := range alarms {
		q.Error(alarm)
	}
	var cpu time.Duration
	for _, used := range q.processes {
		cpu += used
	}
	requests := q.requests()
	var all int
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(requests)) {
		all += requests[kind]
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, requests[kind]))
	}
	summary := fmt.Sprintf("%d conditions of a healthy node for %s, with a restart and a kill of the detector and %d pods replaced: %d changes of a status; %.2f %% of a processor (%s), at most %.1f MB; %d requests: %s",
		len(q.judged), lasted.Round(time.Second), q.deleted, changes, 100*cpu.Seconds()/lasted.Seconds(), cpu, float64(q.memory)/1024, all, strings.Join(kinds, ", "))
	q.listener.Note("summary", summary)
	q.Log(summary)
	q.Proved("%s", summary)
}

// requests counts those of the detector, by the audit log.
func (q *quiet) requests() map[string]int {
	q.Helper()
	data, err := os.ReadFile(filepath.Join(q.dir, "audit.log"))
	q.Must(err)
	count := map[string]int{}
	for line := range strings.Lines(string(data)) {
		var request struct {
			Verb      string `json:"verb"`
			ObjectRef struct {
				Resource    string `json:"resource"`
				Subresource string `json:"subresource"`
			} `json:"objectRef"`
		}
		if json.Unmarshal([]byte(line), &request) == nil {
			count[strings.Trim(request.Verb+" "+request.ObjectRef.Resource+"/"+request.ObjectRef.Subresource, " /")]++
		}
	}
	return count
}

// replacePod deletes one of the pods that come and go.
func (q *quiet) replacePod() {
	q.Helper()
	var pods corev1.PodList
	q.Must(q.API.List(q.Ctx, &pods, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": "comes-and-goes"}))
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			q.Must(client.IgnoreNotFound(q.API.Delete(q.Ctx, &pod)))
			q.deleted++
			return
		}
	}
}
