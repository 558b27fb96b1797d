//go:build e2e

package node_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/node"
)

// stormMonitor tells of each line of a log.
const (
	stormLog     = "/var/log/storm/storm.log"
	stormReason  = "Storm"
	stormMonitor = `{
  "plugin": "filelog",
  "pluginConfig": {"timestamp": "^.{15}", "message": "kernel: (.*)", "timestampFormat": "Jan _2 15:04:05"},
  "logPath": "` + stormLog + `", "lookback": "5m", "bufferSize": 10, "source": "storm",
  "conditions": [],
  "rules": [{"type": "temporary", "reason": "` + stormReason + `", "pattern": "storm.*"}]
}`
)

const (
	// burst is so many lines that what the detector says of them fits nowhere: the pipe
	// of its output takes 64 KiB and its own buffers 512 KiB.
	burst = 10000
	// pause is between bursts.
	pause = 5 * time.Second
	// spell is how long there is a fault, and then none.
	spell = time.Minute
)

// weather is what was seen of a node while lines kept coming.
type weather struct {
	lines    int
	memory   int                                        // bytes that the detector took at the most
	ages     map[corev1.NodeConditionType]time.Duration // of the last heartbeats, at the most
	turns    int                                        // how often another fault came or went
	slowest  time.Duration                              // until that was reported
	gap      time.Duration                              // between two looks, at the most: how late all is here
	notReady time.Duration                              // from the start until the node was; zero if never
	healed   bool                                       // the runtime was said to be anything but sick

	detector         string // a file of its process
	began, turned    time.Time
	looked           time.Time
	fault, unnoticed bool
	done             chan struct{}
	err              error
}

// storm writes lines until the end, and looks at the node meanwhile.
func (s *scenario) storm(end time.Time) *weather {
	ctx, cancel := context.WithDeadline(s.Ctx, end)
	w := &weather{ages: map[corev1.NodeConditionType]time.Duration{}, began: time.Now(), turned: time.Now(), looked: time.Now(), done: make(chan struct{})}
	// Other processes come and go while grep reads, which is an error to it.
	w.detector = s.run(`grep -lszx "d[e]tector" /proc/[0-9]*/cmdline || true`)
	s.Cleanup(func() {
		cancel()
		<-w.done
	})
	go func() {
		defer close(w.done)
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if w.err = w.look(context.WithoutCancel(ctx), s.Client, s.node); w.err != nil {
				return
			}
		}
	}()
	return w
}

// wait returns when the storm is over, with an error if nobody could look at the node.
func (w *weather) wait() error {
	<-w.done
	return w.err
}

// look writes a burst and looks at the node once.
func (w *weather) look(ctx context.Context, api client.Client, n *node.Node) error {
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	script := fmt.Sprintf(`now=$(date "+%%b %%e %%H:%%M:%%S")
seq -f "$now node kernel: storm %%.0f" %d >>%s
sed -n s/VmRSS://p %s
%s`, burst, stormLog, filepath.Join(filepath.Dir(w.detector), "status"), w.turn(time.Now()))
	out, err := n.Exec(ctx, "sh", "-ec", script)
	if err != nil {
		return err
	}
	w.lines += burst
	var kilobytes int
	if _, err := fmt.Sscanf(out, "%d kB", &kilobytes); err != nil {
		return fmt.Errorf("the memory of the detector on node %s is %q: %w", n.Name, out, err)
	}
	w.memory = max(w.memory, kilobytes<<10)
	object := &corev1.Node{}
	if err := api.Get(ctx, client.ObjectKey{Name: n.Name}, object); err != nil {
		return err
	}
	w.see(object, time.Now())
	return nil
}

// turn returns the line of a script that lets another fault come or go when it is time.
func (w *weather) turn(now time.Time) string {
	if w.unnoticed || now.Sub(w.turned) < spell {
		return ""
	}
	w.turns++
	w.turned, w.fault, w.unnoticed = now, !w.fault, true
	if w.fault {
		return "touch " + faultFile
	}
	return "rm " + faultFile
}

func (w *weather) see(n *corev1.Node, now time.Time) {
	w.gap, w.looked = max(w.gap, now.Sub(w.looked)), now
	for _, conditionType := range ours() {
		age := now.Sub(story.Condition(n, conditionType).LastHeartbeatTime.Time)
		w.ages[conditionType] = max(w.ages[conditionType], age)
	}
	if w.unnoticed {
		w.slowest = max(w.slowest, now.Sub(w.turned))
		w.unnoticed = (story.Condition(n, faultCondition).Status == corev1.ConditionTrue) != w.fault
	}
	if w.notReady == 0 && story.Condition(n, corev1.NodeReady).Status != corev1.ConditionTrue {
		w.notReady = now.Sub(w.began)
	}
	// Who was not run for want of a processor can't tell, and says so.
	runtime := story.Condition(n, runtimeCondition)
	w.healed = w.healed || runtime.Status != corev1.ConditionTrue && runtime.Reason != checks.ReasonStarved
}

// stormsSeen returns how many lines the detector's metrics say that it has seen.
func (s *scenario) stormsSeen() int {
	s.Helper()
	transport := &http.Transport{DialContext: s.node.DialContext}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(s.Ctx, http.MethodGet, "http://127.0.0.1:20257/metrics", nil)
	s.Must(err)
	response, err := (&http.Client{Transport: transport, Timeout: moment}).Do(request)
	s.Must(err)
	defer func() { _ = response.Body.Close() }() // was only read
	body, err := io.ReadAll(response.Body)
	s.Must(err)
	for line := range strings.Lines(string(body)) {
		if series, value, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(series, "problem_counter{") && strings.Contains(series, stormReason) {
			count, err := strconv.ParseFloat(value, 64)
			s.Must(err)
			return int(count)
		}
	}
	return 0
}
