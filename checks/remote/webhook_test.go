package remote

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"

	config "github.com/nodemend/nodemend/config/detector"
)

// notified is a remote detector that an Alertmanager notifies.
type notified struct {
	t     *testing.T
	clock *testclock.FakePassiveClock
	under *alerts
	nodes []node
	// began is when the alert that always fires has.
	began time.Time
}

// listen returns one that has listened for as long.
func listen(t *testing.T, d time.Duration) *notified {
	t.Helper()
	c := config.DefaultRemote().Alerts
	c.Conditions = []config.AlertCondition{{Type: "DiskAlert", Matchers: []string{`alertname=~"Disk.*"`}, Reason: "DiskIsSlow"}}
	c.Webhook.Address, c.Webhook.TokenFile = ":0", writeFile(t, "secret\n")
	clock := testclock.NewFakePassiveClock(epoch)
	a, err := newAlerts(c, prometheus.NewRegistry(), clock)
	if err != nil {
		t.Fatal(err)
	}
	a.webhook.listens = epoch
	n := &notified{t, clock, a, []node{{name: "n"}}, epoch}
	n.after(d)
	return n
}

// after lets time pass. The alert that always fires is repeated.
func (n *notified) after(d time.Duration) {
	for ; d > 0; d -= time.Minute {
		n.silent(min(d, time.Minute))
		n.send("firing", "Watchdog", n.began)
	}
}

// returns has the Prometheus be another process, which the alert that always fires tells first.
func (n *notified) returns() {
	n.began = n.clock.Now()
	n.send("firing", "Watchdog", n.began)
}

// silent lets time pass in which nothing is sent.
func (n *notified) silent(d time.Duration) { n.clock.SetTime(n.clock.Now().Add(d)) }

func notificationOf(status, name string, starts, ends time.Time) string {
	return fmt.Sprintf(`{"version":"4","groupKey":"k","truncatedAlerts":0,"status":%[1]q,"receiver":"r","alerts":[{"status":%[1]q,
		"labels":{"alertname":%[2]q,"node":"n"},"annotations":{"summary":"s"},"startsAt":%[3]q,"endsAt":%[4]q,"generatorURL":"","fingerprint":%[2]q}]}`,
		status, name, starts.Format(time.RFC3339), ends.Format(time.RFC3339))
}

func (n *notified) post(token, body string) (int, error) {
	request := httptest.NewRequestWithContext(n.t.Context(), http.MethodPost, webhookPath, strings.NewReader(body))
	request.Header.Set("Authorization", token)
	return n.under.webhook.take(request)
}

func (n *notified) send(status, name string, starts time.Time) {
	n.t.Helper()
	ends := time.Time{}
	if status == "resolved" {
		ends = n.clock.Now()
	}
	if code, err := n.post("Bearer secret", notificationOf(status, name, starts, ends)); code != http.StatusOK || err != nil {
		n.t.Errorf("got %d, %v", code, err)
	}
}

// says looks, and compares; "": nothing is said.
func (n *notified) says(want string) {
	n.t.Helper()
	got, message := "", ""
	for _, o := range n.under.look(n.t.Context(), n.nodes)["n"] {
		got, message = string(o.Status)+" "+o.Reason, o.Message
	}
	if got != want {
		n.t.Errorf("at %s: got %q (%s), want %q", n.clock.Now().Sub(epoch), got, message, want)
	}
}

const endSaid = "Unknown " + ReasonEndNotConfirmed

func TestWhoListensSaysNothingAtFirst(t *testing.T) {
	n := listen(t, 0)
	n.nodes[0].conditions = map[string]corev1.NodeCondition{"DiskAlert": {Status: "True", Reason: "DiskIsSlow"}}
	n.says("")
	n.after(4 * time.Minute)
	n.says("")
	n.after(time.Minute) // all that fires would have been sent again
	n.says(unseenSaid)
	n.send("firing", "DiskSlow", epoch)
	n.says(firingSaid)
}

func TestAnAlertThatIsSentFiresUntilItIsNotRepeated(t *testing.T) {
	n := listen(t, 5*time.Minute)
	n.says(wellSaid)
	n.send("firing", "DiskSlow", epoch)
	n.send("firing", "Unrelated", epoch)
	n.says(firingSaid)
	n.after(4 * time.Minute)
	n.says(firingSaid)
	n.send("firing", "DiskSlow", epoch)
	n.after(4 * time.Minute)
	n.says(firingSaid)
	n.after(time.Minute)
	n.says(goneSaid)
	n.after(24 * time.Hour) // it may be silenced
	n.says(goneSaid)
	if len(n.under.webhook.known) != 1 {
		t.Errorf("known are %v", n.under.webhook.known)
	}
}

func TestAnAlertThatResolvesIsOverOnceOthersAreRepeated(t *testing.T) {
	n := listen(t, 5*time.Minute)
	n.send("firing", "DiskSlow", epoch)
	n.says(firingSaid)
	n.send("resolved", "DiskSlow", epoch)
	n.send("firing", "DiskSlow", epoch) // late, of another Alertmanager
	n.says(endSaid)
	n.after(4 * time.Minute)
	n.says(endSaid)
	n.after(time.Minute)
	n.says(wellSaid)
	n.send("firing", "DiskSlow", epoch.Add(time.Hour)) // again
	n.says(firingSaid)
	n.send("resolved", "DiskSlow", epoch) // late
	n.says(firingSaid)
}

// Alertmanager says of all alerts of a Prometheus that has died that they have resolved.
func TestAPrometheusThatHasDiedIsNoRecovery(t *testing.T) {
	n := listen(t, 5*time.Minute)
	n.send("firing", "DiskSlow", epoch)
	n.says(firingSaid)
	n.after(4 * time.Minute) // the watchdog is repeated for so long
	n.send("resolved", "DiskSlow", epoch)
	n.silent(time.Minute)
	n.send("firing", "Watchdog", epoch)
	n.says(endSaid)
	n.silent(time.Minute)
	n.send("resolved", "Watchdog", epoch)
	n.says(endSaid)
	n.silent(100 * time.Minute)
	n.says(endSaid)
}

// It may hold the alert back for its "for", as it does with each new one.
func TestAPrometheusThatComesBackIsNoRecovery(t *testing.T) {
	for name, breaks := range map[string]func(*notified){
		"long after": func(n *notified) {
			n.send("resolved", "DiskSlow", epoch)
			n.send("resolved", "Watchdog", epoch)
			n.silent(8 * time.Minute)
			n.returns()
		},
		"soon after": func(n *notified) {
			n.send("resolved", "Watchdog", epoch)
			n.send("resolved", "DiskSlow", epoch)
			n.silent(90 * time.Second)
			n.returns()
		},
		"before its end is said": func(n *notified) {
			n.returns()
			n.silent(30 * time.Second)
			n.send("resolved", "DiskSlow", epoch)
		},
		"with a clock that is behind": func(n *notified) {
			n.send("resolved", "DiskSlow", epoch)
			n.silent(30 * time.Second)
			n.began = epoch.Add(time.Minute)
			n.send("firing", "Watchdog", n.began)
		},
		"and only the silence tells": func(n *notified) {
			n.send("resolved", "DiskSlow", epoch)
			n.silent(5 * time.Minute)
			n.send("firing", "Watchdog", epoch)
		},
		"and its end is said again": func(n *notified) {
			n.send("resolved", "Watchdog", epoch)
			n.send("resolved", "DiskSlow", epoch)
			n.silent(6 * time.Minute)
			n.send("firing", "Watchdog", epoch)
			n.silent(30 * time.Second)
			n.send("resolved", "DiskSlow", epoch)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := listen(t, 10*time.Minute)
			n.send("firing", "DiskSlow", epoch)
			n.says(firingSaid)
			breaks(n)
			for range 10 {
				n.says(endSaid)
				n.after(time.Minute)
			}
			n.after(2 * time.Hour)
			n.says(goneSaid)
			again := n.clock.Now()
			n.send("firing", "DiskSlow", again)
			n.says(firingSaid)
			n.send("resolved", "DiskSlow", again)
			n.says(endSaid)
			n.after(5 * time.Minute)
			n.says(wellSaid)
		})
	}
}

func TestAnAlertThatBeganWithAPrometheusResolves(t *testing.T) {
	for name, tt := range map[string]struct{ before, lasts time.Duration }{
		"after the watchdog": {0, time.Minute},
		"a little before":    {20 * time.Second, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			n := listen(t, 10*time.Minute)
			n.returns()
			starts := n.began.Add(-tt.before)
			n.send("firing", "DiskSlow", starts)
			n.says(firingSaid)
			n.after(tt.lasts)
			n.send("resolved", "DiskSlow", starts)
			n.says(endSaid)
			n.after(5 * time.Minute)
			n.says(wellSaid)
		})
	}
}

func TestAnEndFromBeforeAStartIsNotConfirmedByWhatBeganAfterIt(t *testing.T) {
	n := listen(t, 0)
	n.nodes[0].conditions = map[string]corev1.NodeCondition{"DiskAlert": {Status: "True", Reason: "DiskIsSlow"}}
	n.after(time.Minute)
	n.silent(30 * time.Second)
	if code, err := n.post("Bearer secret", notificationOf("resolved", "DiskSlow", epoch.Add(-time.Hour), epoch.Add(-2*time.Minute))); err != nil {
		t.Errorf("got %d, %v", code, err)
	}
	for range 10 {
		n.says(endSaid)
		n.after(time.Minute)
	}
}

// As after a change of leader: both were sent meanwhile, and are sent again.
func TestAnEndThatIsHeardBeforeTheFirstWatchdogIsConfirmed(t *testing.T) {
	n := listen(t, 0)
	n.nodes[0].conditions = map[string]corev1.NodeCondition{"DiskAlert": {Status: "True", Reason: "DiskIsSlow"}}
	n.silent(10 * time.Second)
	if code, err := n.post("Bearer secret", notificationOf("resolved", "DiskSlow", epoch.Add(-time.Hour), epoch.Add(-20*time.Second))); err != nil {
		t.Errorf("got %d, %v", code, err)
	}
	for range 6 {
		if code, err := n.post("Bearer secret", notificationOf("firing", "Watchdog", epoch.Add(-24*time.Hour), time.Time{})); err != nil {
			t.Errorf("got %d, %v", code, err)
		}
		if n.clock.Now().Before(epoch.Add(5 * time.Minute)) {
			n.says(endSaid)
		}
		n.silent(time.Minute)
	}
	n.says(wellSaid)
}

// As after a Prometheus did not reach its Alertmanager.
func TestAnAlertThatIsStillSentAfterItsEndWasSaidFires(t *testing.T) {
	for name, breaks := range map[string]func(*notified){
		"the watchdog was not missed": func(*notified) {},
		"the watchdog was": func(n *notified) {
			n.send("resolved", "Watchdog", epoch)
			n.silent(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := listen(t, 10*time.Minute)
			n.send("firing", "DiskSlow", epoch)
			n.says(firingSaid)
			n.send("resolved", "DiskSlow", epoch)
			said := n.clock.Now()
			breaks(n)
			for n.clock.Now().Sub(said) < 5*time.Minute {
				n.send("firing", "DiskSlow", epoch) // which may be late
				n.says(endSaid)
				n.after(time.Minute)
			}
			n.says(endSaid)
			n.send("firing", "DiskSlow", epoch)
			n.says(firingSaid)
		})
	}
}

func TestAnEndThatIsNeverConfirmedIsNotKeptForEver(t *testing.T) {
	n := listen(t, 5*time.Minute)
	n.send("firing", "DiskSlow", epoch)
	n.says(firingSaid)
	n.send("resolved", "DiskSlow", epoch)
	n.says(endSaid)
	n.silent(2 * time.Hour)
	n.says(lostSaid)
	n.after(time.Minute)
	n.says(goneSaid)
	if len(n.under.webhook.known) != 1 {
		t.Errorf("known are %v", n.under.webhook.known)
	}
}

func TestAWebhookThatStopsIsNoRecovery(t *testing.T) {
	n := listen(t, 5*time.Minute)
	n.says(wellSaid)
	n.send("firing", "DiskSlow", epoch)
	n.says(firingSaid)
	n.silent(5 * time.Minute)
	n.says(lostSaid)
	n.after(time.Minute)
	n.says(goneSaid)
}

func TestAWatchdogThatHasResolvedDoesNotLiveUntilItIsSentAgain(t *testing.T) {
	n := listen(t, 10*time.Minute)
	n.says(wellSaid)
	n.send("resolved", "Watchdog", epoch)
	n.says(lostSaid)
	n.after(time.Minute)
	n.says(wellSaid)
	n.send("firing", "DiskSlow", epoch)
	n.says(firingSaid)
	n.silent(30 * time.Second)
	n.send("resolved", "DiskSlow", epoch)
	n.says(endSaid)
	n.after(5 * time.Minute)
	n.says(wellSaid)
}

func TestWhoHasNoTokenIsNotBelieved(t *testing.T) {
	n := listen(t, 5*time.Minute)
	for _, token := range []string{"", "secret", "Basic secret", "Bearer ", "Bearer secre", "Bearer secret2"} {
		if code, err := n.post(token, notificationOf("firing", "DiskSlow", epoch, time.Time{})); code != http.StatusUnauthorized || err == nil {
			t.Errorf("with %q: got %d, %v", token, code, err)
		}
	}
	n.says(wellSaid)
	n.under.webhook.TokenFile = "/does/not/exist"
	if code, err := n.post("Bearer ", "{}"); code != http.StatusServiceUnavailable || err == nil {
		t.Errorf("without a file: got %d, %v", code, err)
	}
}

// What can't be taken in may have been an alert.
func TestANotificationThatIsNotUnderstoodIsNoHealth(t *testing.T) {
	whole := notificationOf("firing", "DiskFull", epoch, time.Time{})
	with := func(before, after string) string { return strings.ReplaceAll(whole, before, after) }
	for name, tt := range map[string]struct{ body, want string }{
		"nothing":         {"", "EOF"},
		"a part":          {whole[:50], "EOF"},
		"another version": {with(`"4"`, `"5"`), `it has version "5"`},
		"another status":  {with(`"firing"`, `"active"`), `the status "active"`},
		"no fingerprint":  {with(`"fingerprint"`, `"print"`), `the fingerprint ""`},
		"no start":        {with(`"startsAt"`, `"starts"`), "startsAt 0001-01-01"},
		"no end":          {with(`"firing"`, `"resolved"`), "endsAt 0001-01-01"},
		"a part of all":   {with(`"truncatedAlerts":0`, `"truncatedAlerts":3`), "3 alerts were left out"},
	} {
		t.Run(name, func(t *testing.T) {
			n := listen(t, 5*time.Minute)
			if code, err := n.post("Bearer secret", tt.body); code != http.StatusBadRequest || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %d, %v, want %s", code, err, tt.want)
			}
			want, later := "Unknown "+ReasonSourceNotRead, wellSaid
			if name == "a part of all" {
				want, later = firingSaid, goneSaid
			}
			n.says(want)
			n.after(5 * time.Minute)
			n.says(later)
		})
	}
}

// A storm takes bounded memory.
func TestMoreAlertsThanAreKeptAreNoHealth(t *testing.T) {
	n := listen(t, 5*time.Minute)
	type one = map[string]any
	var all []one
	for i := range maxKnown + 10 {
		all = append(all, one{"status": "firing", "labels": one{"alertname": "DiskSlow", "node": fmt.Sprint(i)}, "startsAt": epoch, "fingerprint": fmt.Sprint(i)})
	}
	body, err := json.Marshal(one{"version": "4", "alerts": all})
	if err != nil {
		t.Fatal(err)
	}
	if code, err := n.post("Bearer secret", string(body)); code != http.StatusBadRequest || err == nil || !strings.Contains(err.Error(), "more than 50000 alerts") {
		t.Errorf("got %d, %v", code, err)
	}
	if len(n.under.webhook.known) != maxKnown {
		t.Errorf("known are %d", len(n.under.webhook.known))
	}
	n.says("Unknown " + ReasonSourceNotRead)
}
