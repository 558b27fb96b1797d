package detector

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestARemoteConfigurationHasDefaults(t *testing.T) {
	c, err := ParseRemote("f.yaml", []byte("controlPlaneEndpoint: {enabled: true, okCodes: [200, 401]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	e := c.ControlPlaneEndpoint
	if e.Port != 6443 || len(e.Paths) != 1 || e.Paths[0] != "/livez" || len(e.OKCodes) != 2 || e.Interval.Duration != 30*time.Second || e.FailureThreshold != 3 {
		t.Errorf("got %+v", e)
	}
}

// What is an example there is not the default.
func TestTheRemoteSampleShowsTheDefaults(t *testing.T) {
	c, err := LoadRemote("../../deploy/samples/remote-detector.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultRemote()
	want.ControlPlaneEndpoint.Enabled, want.Alerts.Alertmanager, want.Alerts.Conditions = true, c.Alerts.Alertmanager, c.Alerts.Conditions
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-default +sample):\n%s", diff)
	}
}

func TestMistakesInARemoteConfigurationAreAllNamed(t *testing.T) {
	const alerts = "alerts:\n  alertmanager: {url: 'https://a:9093'}\n  conditions:\n"
	for name, tt := range map[string]struct {
		file string
		want []string
	}{
		"nothing": {"", []string{"f.yaml: is empty: there is nothing to do; accepted is controlPlaneEndpoint.enabled: true"}},
		"nothing to do": {"heartbeat: {interval: 1m}\n", []string{
			"f.yaml: line 1: controlPlaneEndpoint.enabled: there is nothing to do; accepted is controlPlaneEndpoint.enabled: true, a source of alerts with alerts.conditions, or both",
		}},
		"a field that there is not": {"controlPlaneEndpoint:\n  enabled: true\n  okcodes: [200]\n", []string{`f.yaml: line 3: unknown field "okcodes"`}},
		"an endpoint": {
			"controlPlaneEndpoint:\n  enabled: true\n  nodeSelector: ''\n  addressType: InternalIp\n  port: 0\n  paths: [livez]\n  okCodes: [0]\n  caFile: ca.crt\n  interval: 5m\n  failureThreshold: 0\n",
			[]string{
				`f.yaml: line 3: controlPlaneEndpoint.nodeSelector: "" selects no nodes: accepted is a label selector, such as node-role.kubernetes.io/control-plane`,
				`f.yaml: line 4: controlPlaneEndpoint.addressType: "InternalIp" is no type of address: accepted are InternalIP, ExternalIP,`,
				"f.yaml: line 5: controlPlaneEndpoint.port: 0 is no TCP port: accepted are 1 to 65535",
				`f.yaml: line 6: controlPlaneEndpoint.paths.0: "livez" is no path: accepted are such as /livez`,
				"f.yaml: line 7: controlPlaneEndpoint.okCodes.0: 0 is no HTTP status code",
				`f.yaml: line 8: controlPlaneEndpoint.caFile: "ca.crt" is not an absolute path`,
				"f.yaml: line 9: controlPlaneEndpoint.interval: 5m0s is not between 1s and 1m0s: the controller would take reports for outdated",
				"f.yaml: line 10: controlPlaneEndpoint.failureThreshold: 0 is not between 1 and 100",
			},
		},
		"lists without an entry": {"controlPlaneEndpoint: {enabled: true, paths: [], okCodes: []}\n", []string{
			"controlPlaneEndpoint.paths: has no entry", "controlPlaneEndpoint.okCodes: has no entry",
		}},
		"no condition":     {"alerts: {alertmanager: {url: 'https://a:9093'}}\n", []string{"alerts.conditions: has no entry"}},
		"no source":        {"alerts: {conditions: [{type: A, matchers: ['a=b']}]}\n", []string{"alerts.conditions: there are conditions, and no source: accepted is one of alerts.alertmanager.url, alerts.prometheus.url and alerts.webhook.address"}},
		"no address":       {"alerts: {alertmanager: {url: 'a:9093'}, conditions: [{type: A, matchers: ['a=b']}]}\n", []string{`alerts.alertmanager.url: "a:9093" is no address such as https://`}},
		"a token in clear": {"alerts: {alertmanager: {url: 'http://a:9093', tokenFile: /t}, conditions: [{type: A, matchers: ['a=b']}]}\n", []string{"alerts.alertmanager.tokenFile: a token is sent over https only"}},
		"two sources":      {"alerts: {alertmanager: {url: 'https://a:9093'}, prometheus: {url: 'https://a:9090'}, conditions: [{type: A, matchers: ['a=b']}]}\n", []string{"alerts: has alertmanager.url and prometheus.url: accepted is one source"}},
		"a Prometheus":     {"alerts: {prometheus: {url: 'http://a:9090?x', caFile: ca.crt}, conditions: [{type: A, matchers: ['a=b']}]}\n", []string{`alerts.prometheus.url: "http://a:9090?x" is no address`, `alerts.prometheus.caFile: "ca.crt" is not an absolute path`}},
		"a webhook": {"alerts: {webhook: {address: '9108', certFile: tls.crt, keyFile: /tls.key, repeatedWithin: 10s, confirmedAfter: 1m}, conditions: [{type: A, matchers: ['a=b']}]}\n", []string{
			"alerts.webhook.repeatedWithin: 10s is not between 1m0s and 1h0m0s", "alerts.webhook.confirmedAfter: 1m0s is not between 5m0s and 1h0m0s", `alerts.webhook.address: "9108" is no address: accepted are HOST:PORT and :PORT`,
			`alerts.webhook.certFile: "tls.crt" is not an absolute path`, `alerts.webhook.tokenFile: "" is not an absolute path: who sends alerts has to know a token`,
		}},
		"a short quiet time": {alerts + "  - {type: A, matchers: ['a=b']}\n  quietFor: 1m\n", []string{"alerts.quietFor: 1m0s is not between 5m0s and 24h0m0s"}},
		"no watchdog":        {alerts + "  - {type: A, matchers: ['a=b']}\n  watchdog: []\n", []string{"alerts.watchdog: selects every alert"}},
		"rows": {
			alerts + "  - {type: Ready, matchers: ['a=b']}\n  - {type: A}\n  - {type: A, matchers: ['a!=b', 'c=~\".*\"']}\n  - {type: A, matchers: [a]}\n  - {type: A, matchers: ['a=~\"(\"']}\n  - {type: A, matchers: ['a=\"b']}\n" +
				"  - {type: 'A B', matchers: ['a=b'], nodeLabel: a-b, reason: no word, message: '{alert}'}\n",
			[]string{
				"f.yaml: line 4: alerts.conditions.0.type: Ready belongs to Kubernetes or to a check of Nodemend",
				"f.yaml: line 5: alerts.conditions.1.matchers: selects every alert: accepted is a list with at least one matcher that a missing label does not match",
				"f.yaml: line 6: alerts.conditions.2.matchers: selects every alert",
				`f.yaml: line 7: alerts.conditions.3.matchers.0: "a" is no matcher: accepted are name="value"`,
				"f.yaml: line 8: alerts.conditions.4.matchers.0: \"a=~\\\"(\\\"\" has no regular expression",
				"f.yaml: line 9: alerts.conditions.5.matchers.0: \"a=\\\"b\" has a value with a quote that does not end",
				`f.yaml: line 10: alerts.conditions.6.type: "A B" is no type of a condition`,
				`f.yaml: line 10: alerts.conditions.6.nodeLabel: "a-b" is no name of an alert's label`,
				`f.yaml: line 10: alerts.conditions.6.reason: "no word" is no reason: accepted is one word such as DiskIsSlow`,
				`f.yaml: line 10: alerts.conditions.6.message: "{alert}" is no placeholder: accepted are {label:NAME} and {annotation:NAME}`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRemote("f.yaml", []byte(tt.file))
			if err == nil {
				t.Fatal("it is accepted")
			}
			got := strings.Split(err.Error(), "\n")
			if len(got) != len(tt.want) {
				t.Errorf("got %d mistakes, want %d:\n%v", len(got), len(tt.want), err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got\n%v\nwant %s", err, want)
				}
			}
		})
	}
}

func TestMatchersAreThoseOfAlertmanager(t *testing.T) {
	for _, tt := range []struct {
		matcher, value string
		want           bool
	}{
		{`a=b`, "b", true},
		{`a="b c"`, "b c", true},
		{` a = "b" `, "b", true},
		{`a="\"b\""`, `"b"`, true},
		{`a=b`, "bb", false},
		{`a!=b`, "", true},
		{`a!="b"`, "b", false},
		{`a=~"b|c"`, "c", true},
		{`a=~b`, "bb", false},
		{`a!~"b.*"`, "bb", false},
		{`a!~"b.*"`, "", true},
		{`a=""`, "", true},
	} {
		m, err := ParseMatcher(tt.matcher)
		if err != nil || m.Name != "a" || m.Matches(tt.value) != tt.want {
			t.Errorf("%s of %q: got %t of %s (%v)", tt.matcher, tt.value, m.Matches(tt.value), m.Name, err)
		}
	}
}

func TestAMessageIsFilled(t *testing.T) {
	got := Message("{label:disk} of {label:none}: {annotation:summary} {x}", map[string]string{"disk": "sda"}, map[string]string{"summary": "slow {label:disk}"})
	if want := "sda of : slow {label:disk} {x}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
