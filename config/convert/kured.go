package convert

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/internal/cut"
)

const (
	noAlerts  = "alerts of Prometheus do not hold reboots here; minHealthy of a budget and a pause do"
	noLabels  = "nodes get no labels"
	noMessage = "nobody is notified; events, metrics and alerts tell the same"
)

// kured reboots nodes on which a file says so.
// Source: kubereboot/kured, cmd/kured/main.go, v1.23.
var kured = program{
	name: "kured", env: "KURED_",
	rules: map[string]flagRule{
		"blocking-pod-selector": {}, "concurrency": {}, "drain-grace-period": {}, "drain-pod-selector": {}, "drain-timeout": {},
		"end-time": {}, "force-reboot": {alone: true}, "lock-release-delay": {}, "reboot-command": {verbatim: true}, "reboot-days": {},
		"reboot-sentinel": {}, "reboot-sentinel-command": {verbatim: true}, "start-time": {}, "time-zone": {},

		// Of no use here: the check has its own interval, a budget is the lock.
		"ds-name": {unused: true}, "ds-namespace": {unused: true}, "lock-annotation": {unused: true}, "lock-ttl": {unused: true}, "log-format": {unused: true},
		"metrics-host": {unused: true}, "metrics-port": {unused: true}, "node-id": {unused: true}, "period": {unused: true}, "reboot-method": {unused: true}, "reboot-signal": {unused: true},

		// Of what is noted by another flag.
		"alert-filter-match-only": {alone: true, unused: true}, "alert-filter-regexp": {unused: true}, "alert-firing-only": {alone: true, unused: true},
		"slack-channel": {unused: true}, "slack-username": {unused: true},
		"message-template-drain": {unused: true}, "message-template-reboot": {unused: true}, "message-template-uncordon": {unused: true},

		"prometheus-url":               {lost: noAlerts},
		"annotate-nodes":               {alone: true, lost: "nodes get no annotations of kured; their Remediation and NodeMaintenance tell the same"},
		"drain-delay":                  {lost: "nothing waits before the drain"},
		"reboot-delay":                 {lost: "nothing waits between drain and reboot"},
		"skip-wait-for-delete-timeout": {lost: "pods that do not end are waited for, until drain.timeout"},
		"prefer-no-schedule-taint":     {lost: "nodes that are to be rebooted get no taint"},
		"pre-reboot-node-labels":       {lost: noLabels},
		"post-reboot-node-labels":      {lost: noLabels},
		"notify-url":                   {lost: noMessage},
		"slack-hook-url":               {lost: noMessage},
	},
	convert: (*conversion).kured,
}

// rebootRequired is the condition that the plugin of a converted kured sets.
const rebootRequired = "RebootRequired"

var rebootCommands = regexp.MustCompile(`^((/usr)?/s?bin/)?(systemctl reboot|reboot|shutdown -r( now)?)$`)

// timeZones are the names that a budget takes.
var timeZones = regexp.MustCompile(`^(UTC|[A-Za-z]+(/[A-Za-z0-9_+-]+)+)$`)

func (c *conversion) kured(l commandLine) {
	sentinel := sentinelOf(&l)
	c.lost(l.flag("reboot-sentinel"), "no check looks at %s: give the detector the custom plugin that is in the comment", sentinel)
	if command := l.flag("reboot-command"); command.there() && !rebootCommands.MatchString(command.node.Value) {
		c.lost(command, "systemd reboots the node; what else the command does can be a step before")
	}
	selector, note := c.podNodes(&l)

	policy := c.policy("kured", l.idle(), l.from())
	policy.nodes(selector, note)
	c.matches(policy, "of the plugin", []match{{conditionType: rebootRequired, status: "True", at: l.at}})
	policy.add("steps:", "")
	policy.add("- reboot:", "")
	policy.add("    method: Systemd", "")
	policy.add("    drain:", "")
	c.kuredDrain(policy, &l)
	policy.add("  timeout: 15m", "of the boot; kured waits for ever")
	policy.add("  verifyTimeout: 5m", "")
	healthyFor, healthyNote := time.Minute, "kured takes the next node at once"
	if delay := l.flag("lock-release-delay").duration(0); delay > healthyFor {
		healthyFor, healthyNote = delay, "lock-release-delay: it holds its permit for as long"
	}
	policy.add("recovery: {healthyFor: "+cut.Zeros(healthyFor)+"}", healthyNote)
	policy.zealous("kured", 0, "")

	budget := c.result("RemediationBudget", "kured", l.from())
	budget.nodes(selector, note)
	budget.add(fmt.Sprintf("maxConcurrent: %d", max(1, l.flag("concurrency").number(1, 500))), "concurrency")
	c.windows(budget, &l)
	c.told(policy, l.at.in.file)
	policy.about = append(policy.about, "The custom plugin, for the detector on the node itself (docs/checks.md):")
	policy.verbatim = plugin(&l, sentinel)
}

// sentinelOf returns the file that asks for a reboot, as it is called on the node.
func sentinelOf(l *commandLine) string {
	file := l.flag("reboot-sentinel").scalar("a path")
	if file == "" {
		file = "/var/run/reboot-required"
	}
	for _, container := range l.pod.get("containers").items() {
		for _, mount := range container.get("volumeMounts").items() {
			inside, below := strings.CutPrefix(file, strings.TrimSuffix(mount.peek("mountPath"), "/")+"/")
			if !below {
				continue
			}
			for _, volume := range l.pod.get("volumes").items() {
				if volume.peek("name") == mount.peek("name") && volume.has("hostPath") {
					return strings.TrimSuffix(volume.get("hostPath").peek("path"), "/") + "/" + inside
				}
			}
		}
	}
	return file
}

// plugin returns the lines of a file of node-problem-detector's form that sets the condition.
func plugin(l *commandLine, sentinel string) []string {
	wanted := "test -e '" + strings.ReplaceAll(sentinel, "'", `'\''`) + "'"
	if command := l.flag("reboot-sentinel-command").scalar("a command"); command != "" {
		wanted = command
	}
	script, err := json.Marshal("if " + wanted + "; then echo a reboot is required; exit 1; fi")
	if err != nil {
		script = []byte(`""`) // of a string it does not fail
	}
	return []string{
		`{"plugin": "custom", "source": "reboot-required", "pluginConfig": {"invoke_interval": "1m", "timeout": "10s"},`,
		fmt.Sprintf(` "conditions": [{"type": %q, "reason": "NoRebootRequired", "message": "no reboot is required"}],`, rebootRequired),
		fmt.Sprintf(` "rules": [{"type": "permanent", "condition": %[1]q, "reason": %[1]q, "path": "/bin/sh",`, rebootRequired),
		`  "args": ["-c", ` + string(script) + `]}]}`,
	}
}

// kuredDrain adds how nodes are drained.
func (c *conversion) kuredDrain(o *object, l *commandLine) {
	const indent = "      "
	forced := l.flag("force-reboot").boolean(false)
	timeout := l.flag("drain-timeout").duration(0)
	switch {
	case timeout < time.Second && forced:
		c.lost(l.flag("force-reboot"), "without drain-timeout a drain does not time out; after 1h others get the permit here, and the node waits. With onTimeout: Proceed it reboots")
		fallthrough
	case timeout < time.Second:
		o.add(indent+"timeout: 1h", "then it goes on, but others get the permit; kured waits for ever")
	case forced:
		o.add(indent+"timeout: "+cut.Zeros(timeout), "")
		o.add(indent+"onTimeout: Proceed", "force-reboot")
	default:
		o.add(indent+"timeout: "+cut.Zeros(timeout), "")
		o.add(indent+"onTimeout: Abort", "as kured without force-reboot")
	}
	o.add(indent+"force: true", "")
	o.add(indent+"deleteEmptyDirData: true", "")
	if grace := l.flag("drain-grace-period"); grace.there() && !strings.HasPrefix(grace.node.Value, "-") {
		o.add(fmt.Sprintf("%sgracePeriodSeconds: %d", indent, grace.number(0, 86400)), "")
	}
	if pods := podSelector(l.flag("drain-pod-selector")); pods != nil {
		o.add(indent+"podSelector: "+flow(pods), "")
	}
	for i, of := range l.flags["blocking-pod-selector"] {
		if i > 0 {
			c.lost(of, "only one selector of pods that hold the drain is possible: give all these pods one label")
		} else if pods := podSelector(of); pods != nil {
			o.add(indent+"vetoedBy: "+flow(pods), "blocking-pod-selector; the node is cordoned meanwhile")
		}
	}
}

// podSelector returns a selector of pods; nil for all.
func podSelector(of value) *metav1.LabelSelector {
	text := of.scalar("a selector of labels")
	if text == "" {
		return nil
	}
	s, err := metav1.ParseToLabelSelector(text)
	if err != nil {
		of.mistake("expected a selector of labels: %v", err)
	}
	return s
}

// podNodes returns the nodes on which kured runs.
func (c *conversion) podNodes(l *commandLine) (*metav1.LabelSelector, string) {
	if !l.pod.there() {
		return nil, ": a line of flags does not say where kured runs"
	}
	s := &metav1.LabelSelector{}
	names, values := l.pod.get("nodeSelector").fields()
	for i, name := range names {
		metav1.AddLabelToSelector(s, name, values[i].scalar("the value of a label"))
	}
	note := ""
	if affinity := l.pod.get("affinity").get("nodeAffinity").get("requiredDuringSchedulingIgnoredDuringExecution"); affinity.there() {
		c.lost(affinity, "the policy selects no node until you write it as its nodeSelector, instead of %s", nobody("kured").Key)
		s.MatchExpressions = append(s.MatchExpressions, nobody("kured"))
		note = "and the nodeAffinity of kured"
	}
	tolerations := l.pod.get("tolerations")
	all := tolerations.items()
	tolerates := func(key string, effect corev1.TaintEffect) bool {
		return slices.ContainsFunc(all, func(t value) bool {
			of := t.peek("key")
			return (of == "" && t.peek("operator") == "Exists" || of != "" && of == key) && (!t.has("effect") || t.peek("effect") == string(effect))
		})
	}
	everywhere := tolerates("", corev1.TaintEffectNoSchedule) && tolerates("", corev1.TaintEffectNoExecute)
	if !tolerates(nodeRole, corev1.TaintEffectNoSchedule) {
		s.MatchExpressions = append(s.MatchExpressions, noControlPlane()...)
		note = strings.Trim("no toleration for the control plane; "+note, "; ")
	}
	if !everywhere {
		c.ask(tolerations, "kured does not run on nodes with other taints than it tolerates; the policy selects them, and the detector tolerates all. If there are any, exclude them in nodeSelector")
	}
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil, ", as kured runs there"
	}
	return s, note
}

// windows adds when reboots may start.
func (c *conversion) windows(o *object, l *commandLine) {
	days := weekdays(l.flags["reboot-days"])
	start, end := clockTime(l.flag("start-time"), 0, false), clockTime(l.flag("end-time"), 24*60, true)
	switch {
	case len(days) == 0:
		l.flag("reboot-days").mistake("expected a day such as mon: kured would never reboot")
	case start == end:
		l.flag("end-time").mistake("expected another time than that of --start-time: kured would hardly ever reboot")
	case end == 0:
		end = 24 * 60
	}
	if len(days) == 7 && start == 0 && end == 24*60 {
		return
	}
	zone := l.flag("time-zone")
	location := zone.scalar("a time zone")
	if _, err := time.LoadLocation(location); err != nil {
		zone.mistake("expected a time zone, such as Europe/Berlin: %v", err)
	}
	switch {
	case location == "":
		location = "UTC"
	case location == "Local":
		c.ask(zone, "Local is the time zone of kured's pod, mostly UTC, which is in the budget")
		location = "UTC"
	case !timeZones.MatchString(location):
		c.ask(zone, "a budget takes names such as Europe/Berlin, not %s; UTC is in the budget", location)
		location = "UTC"
	}
	o.add("allowedWindows:", "")
	add := func(from, to int) {
		of := ""
		if len(days) < 7 {
			of = "days: [" + strings.Join(days, ", ") + "], "
		}
		o.add(fmt.Sprintf(`- {%sstart: "%02d:%02d", end: "%02d:%02d", timeZone: %s}`, of, from/60, from%60, to/60%24, to%60, quoted(location)), "")
	}
	switch {
	case start < end:
		add(start, end)
	case len(days) == 7:
		add(start, end)
	default: // kured's days are those of both parts of the night
		add(0, end)
		add(start, 24*60)
	}
}

// weekdays returns the days of the flags, from Monday on; all if there is none.
func weekdays(flags []value) (days []string) {
	names := []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
	if len(flags) == 0 {
		return names
	}
	asked := map[string]bool{}
	for _, flag := range flags {
		for day := range strings.SplitSeq(flag.node.Value, ",") {
			day = strings.ToLower(strings.TrimSpace(day))
			if number, err := strconv.Atoi(day); err == nil && number >= 0 && number < 7 {
				day = strings.ToLower(time.Weekday(number).String())
			}
			i := slices.IndexFunc(names, func(name string) bool {
				full := map[string]string{"Tue": "tuesday", "Wed": "wednesday", "Thu": "thursday", "Sat": "saturday"}[name]
				if full == "" {
					full = strings.ToLower(name) + "day"
				}
				return day == full || day == full[:3] || day == full[:2]
			})
			switch {
			case i >= 0:
				asked[names[i]] = true
			case day != "":
				flag.mistake("expected days such as mon,tue,sat, found %q", day)
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !asked[name] })
}

// clockTime returns a time of day in minutes. Seconds make it a minute later, those of an
// end only from 59 on.
func clockTime(flag value, other int, end bool) int {
	const expected = "a time of day, such as 22:00 or 9pm"
	if !flag.there() {
		return other
	}
	text := flag.scalar(expected)
	for _, format := range []string{"15:04", "15:04:05", "03:04pm", "15", "03pm", "3pm"} {
		t, err := time.Parse(format, text)
		if err != nil {
			continue
		}
		minutes := t.Hour()*60 + t.Minute()
		if !end && t.Second() > 0 || end && t.Second() == 59 {
			minutes++
		}
		return minutes
	}
	flag.mistake("expected %s, found %s", expected, flag.shown())
	return other
}
