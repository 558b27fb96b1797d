package detector

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodemend/nodemend/internal/strictyaml"
)

// ControlPlaneEndpointUnhealthy is the condition that the check of control-plane endpoints owns.
const ControlPlaneEndpointUnhealthy = "ControlPlaneEndpointUnhealthy"

// ControlPlaneNodes selects the nodes that are asked by default.
const ControlPlaneNodes = "node-role.kubernetes.io/control-plane"

// minConfirmedAfter is for how long an Alertmanager may go on to repeat what nobody sends any more,
// and a notification may be on its way: Prometheus promises an alert for four minutes.
const minConfirmedAfter = 5 * time.Minute

// Remote is a whole file of the remote detector. deploy/samples/remote-detector.yaml documents it
// for the people who write it.
type Remote struct {
	Heartbeat            Heartbeat            `yaml:"heartbeat"`
	ControlPlaneEndpoint ControlPlaneEndpoint `yaml:"controlPlaneEndpoint"`
	Alerts               Alerts               `yaml:"alerts"`
}

// RemoteRun says when the remote detector looks, and how often in a row it must find the same
// before that is reported.
type RemoteRun struct {
	Interval         Duration `yaml:"interval"`
	Timeout          Duration `yaml:"timeout"`
	FailureThreshold int      `yaml:"failureThreshold"`
	SuccessThreshold int      `yaml:"successThreshold"`
}

// Trust says how a server is known, and who asks it.
type Trust struct {
	// CAFile has the certificates, in PEM, of who has signed the server's; empty: a default.
	CAFile string `yaml:"caFile"`
	// ServerName is the name in the server's certificate; empty: the host that is asked.
	ServerName string `yaml:"serverName"`
	// TokenFile has a token that is sent; empty: none is.
	TokenFile string `yaml:"tokenFile"`
}

// ControlPlaneEndpoint is the check that asks each control-plane node for the health of its API
// server.
type ControlPlaneEndpoint struct {
	Enabled bool `yaml:"enabled"`
	// NodeSelector is a label selector, as kubectl get nodes --selector takes it.
	NodeSelector string `yaml:"nodeSelector"`
	// AddressType is which of the node's addresses is asked.
	AddressType corev1.NodeAddressType `yaml:"addressType"`
	Port        int                    `yaml:"port"`
	// Paths are asked one after the other; all have to be well.
	Paths []string `yaml:"paths"`
	// OKCodes are the HTTP status codes of one that is well.
	OKCodes   []int `yaml:"okCodes"`
	Trust     `yaml:",inline"`
	RemoteRun `yaml:",inline"`
}

// Alerts makes conditions of alerts, of one of three sources.
type Alerts struct {
	// Alertmanager is one instance that is polled.
	Alertmanager AlertServer `yaml:"alertmanager"`
	// Prometheus is one that is polled itself.
	Prometheus AlertServer `yaml:"prometheus"`
	// Webhook is where Alertmanagers send notifications.
	Webhook Webhook `yaml:"webhook"`
	// Watchdog are the matchers of an alert that always fires: by it is known that what sends
	// alerts lives. Of a Prometheus that is polled itself it is known otherwise.
	Watchdog []string `yaml:"watchdog"`
	// QuietFor is for how long the watchdog has to be seen, and no alert of a node, before that
	// is health if nobody has seen the alert resolve.
	QuietFor  Duration `yaml:"quietFor"`
	RemoteRun `yaml:",inline"`
	// Conditions is the table: which alerts make which condition.
	Conditions []AlertCondition `yaml:"conditions"`
}

// AlertServer is where alerts are read.
type AlertServer struct {
	// URL of one instance; empty: none is asked.
	URL   string `yaml:"url"`
	Trust `yaml:",inline"`
}

// Webhook is a receiver of Alertmanager's notifications.
type Webhook struct {
	// Address is where it listens, by https; empty: nowhere.
	Address string `yaml:"address"`
	// CertFile and KeyFile are the certificate and key of the listener, in PEM.
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
	// TokenFile has the token that whoever sends has to know.
	TokenFile string `yaml:"tokenFile"`
	// RepeatedWithin is for how long an alert fires that is not repeated.
	RepeatedWithin Duration `yaml:"repeatedWithin"`
	// ConfirmedAfter is for how long the watchdog has to be repeated after an alert was said to
	// have resolved, before that is believed.
	ConfirmedAfter Duration `yaml:"confirmedAfter"`
}

// AlertCondition is a row of the table.
type AlertCondition struct {
	// Type of the condition. Several rows may have the same one.
	Type string `yaml:"type"`
	// Matchers select alerts, all of them: name="value", !=, =~ or !~, as amtool takes them.
	Matchers []string `yaml:"matchers"`
	// NodeLabel is the label of the alert that has the node's name; empty: node.
	NodeLabel string `yaml:"nodeLabel"`
	// Reason of the condition; empty: AlertFiring.
	Reason string `yaml:"reason"`
	// Message is a template with {label:NAME} and {annotation:NAME}; empty: the alert's name, and
	// its annotation summary or description.
	Message string `yaml:"message"`
}

// DefaultRemote returns the configuration that an empty file stands for.
func DefaultRemote() Remote {
	run := RemoteRun{Interval: Duration{30 * time.Second}, Timeout: Duration{5 * time.Second}, FailureThreshold: 3, SuccessThreshold: 2}
	alerts := run
	alerts.Timeout = Duration{10 * time.Second}
	return Remote{
		Heartbeat: Default().Heartbeat,
		ControlPlaneEndpoint: ControlPlaneEndpoint{
			NodeSelector: ControlPlaneNodes, AddressType: corev1.NodeInternalIP, Port: 6443,
			Paths: []string{"/livez"}, OKCodes: []int{200}, RemoteRun: run,
		},
		Alerts: Alerts{
			Watchdog: []string{`alertname="Watchdog"`}, QuietFor: Duration{15 * time.Minute}, RemoteRun: alerts,
			Webhook: Webhook{RepeatedWithin: Duration{5 * time.Minute}, ConfirmedAfter: Duration{minConfirmedAfter}},
		},
	}
}

// LoadRemote reads the file at path. The error names every mistake in it, one a line, each with the
// file's name and line.
func LoadRemote(path string) (Remote, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Remote{}, fmt.Errorf("reading the remote detector's configuration: %w", err)
	}
	return ParseRemote(path, data)
}

// ParseRemote is LoadRemote for a file's content; name is its name in errors.
func ParseRemote(name string, data []byte) (Remote, error) {
	config := DefaultRemote()
	root, mistakes := strictyaml.Decode(name, data, &config)
	switch {
	case root != nil:
		for _, p := range config.problems() {
			mistakes = append(mistakes, fmt.Errorf("%s: line %d: %w", name, strictyaml.Line(root, p.path...), p))
		}
	case len(mistakes) == 0:
		mistakes = append(mistakes, fmt.Errorf("%s: is empty: %s", name, nothingToDo))
	}
	if len(mistakes) > 0 {
		return Remote{}, errors.Join(mistakes...)
	}
	return config, nil
}

const nothingToDo = "there is nothing to do; accepted is controlPlaneEndpoint.enabled: true, a source of alerts with alerts.conditions, or both"

// sources are the fields of those that are configured.
func (a *Alerts) sources() (fields []string) {
	for _, one := range []struct{ field, value string }{
		{"alertmanager.url", a.Alertmanager.URL}, {"prometheus.url", a.Prometheus.URL}, {"webhook.address", a.Webhook.Address},
	} {
		if one.value != "" {
			fields = append(fields, one.field)
		}
	}
	return fields
}

// Enabled reports whether there is a source of alerts.
func (a *Alerts) Enabled() bool { return len(a.sources()) > 0 }

// Types are those of the conditions that alerts make.
func (a *Alerts) Types() (types []string) {
	for _, row := range a.Conditions {
		if !slices.Contains(types, row.Type) {
			types = append(types, row.Type)
		}
	}
	return types
}

func (c Remote) problems() (found problems) {
	found.within(c.Heartbeat.Interval, minHeartbeat, maxHeartbeat, outdated, "heartbeat", "interval")
	found.within(c.Heartbeat.ProblemInterval, minHeartbeat, maxProblemHeartbeat, outdated, "heartbeat", "problemInterval")
	if !c.ControlPlaneEndpoint.Enabled && !c.Alerts.Enabled() && len(c.Alerts.Conditions) == 0 {
		found.add(nothingToDo, "controlPlaneEndpoint", "enabled")
	}
	c.ControlPlaneEndpoint.problems(&found)
	c.Alerts.problems(&found)
	return found
}

func (r RemoteRun) problems(found *problems, part string) {
	found.within(r.Interval, minCheckInterval, maxProblemHeartbeat, outdated, part, "interval")
	found.within(r.Timeout, minTimeout, maxTimeout, "", part, "timeout")
	found.count(r.FailureThreshold, 1, part, "failureThreshold")
	found.count(r.SuccessThreshold, 1, part, "successThreshold")
}

func (t Trust) problems(found *problems, at ...string) {
	for field, file := range map[string]string{"caFile": t.CAFile, "tokenFile": t.TokenFile} {
		if file != "" && !filepath.IsAbs(file) {
			found.add(fmt.Sprintf("%q is not an absolute path", file), append(slices.Clone(at), field)...)
		}
	}
}

func (e *ControlPlaneEndpoint) problems(found *problems) {
	const part = "controlPlaneEndpoint"
	if selector, err := labels.Parse(e.NodeSelector); err != nil || selector.Empty() {
		found.add(fmt.Sprintf("%q selects no nodes: accepted is a label selector, such as %s", e.NodeSelector, ControlPlaneNodes), part, "nodeSelector")
	}
	addresses := []string{string(corev1.NodeInternalIP), string(corev1.NodeExternalIP), string(corev1.NodeInternalDNS), string(corev1.NodeExternalDNS), string(corev1.NodeHostName)}
	if !slices.Contains(addresses, string(e.AddressType)) {
		found.add(fmt.Sprintf("%q is no type of address: accepted are %s", e.AddressType, strings.Join(addresses, ", ")), part, "addressType")
	}
	if e.Port < 1 || e.Port > 65535 {
		found.add(fmt.Sprintf("%d is no TCP port: accepted are 1 to 65535", e.Port), part, "port")
	}
	if len(e.Paths) == 0 {
		found.add("has no entry: accepted are paths such as /livez", part, "paths")
	}
	for i, path := range e.Paths {
		if u, err := url.Parse(path); err != nil || !strings.HasPrefix(path, "/") || u.Host != "" || u.Fragment != "" {
			found.add(fmt.Sprintf("%q is no path: accepted are such as /livez and /livez?exclude=etcd", path), part, "paths", strconv.Itoa(i))
		}
	}
	if len(e.OKCodes) == 0 {
		found.add("has no entry: accepted are HTTP status codes, such as 200", part, "okCodes")
	}
	for i, code := range e.OKCodes {
		if code < 100 || code > 599 {
			found.add(fmt.Sprintf("%d is no HTTP status code: accepted are 100 to 599", code), part, "okCodes", strconv.Itoa(i))
		}
	}
	e.Trust.problems(found, part)
	e.RemoteRun.problems(found, part)
}

func (a *Alerts) problems(found *problems) {
	const part = "alerts"
	a.RemoteRun.problems(found, part)
	// Alertmanager forgets an alert that is not repeated within five minutes, by default.
	found.within(a.QuietFor, 5*time.Minute, maxWindow, "", part, "quietFor")
	found.matchers(a.Watchdog, part, "watchdog")
	a.Alertmanager.problems(found, part, "alertmanager")
	a.Prometheus.problems(found, part, "prometheus")
	a.Webhook.problems(found, part, "webhook")
	switch sources := a.sources(); {
	case len(sources) > 1:
		found.add(fmt.Sprintf("has %s: accepted is one source", strings.Join(sources, " and ")), part)
	case len(sources) == 0 && len(a.Conditions) > 0:
		found.add("there are conditions, and no source: accepted is one of alerts.alertmanager.url, alerts.prometheus.url and alerts.webhook.address", part, "conditions")
	case len(sources) == 1 && len(a.Conditions) == 0:
		found.add("has no entry: accepted is a list of type, matchers, nodeLabel, reason and message", part, "conditions")
	}
	for i := range a.Conditions {
		a.Conditions[i].problems(found, part, "conditions", strconv.Itoa(i))
	}
}

func (s *AlertServer) problems(found *problems, at ...string) {
	in := func(field string) []string { return append(slices.Clone(at), field) }
	s.Trust.problems(found, at...)
	if s.URL == "" {
		return
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		found.add(fmt.Sprintf("%q is no address such as https://monitoring.example.com:9093", s.URL), in("url")...)
	case u.Scheme == "http" && s.TokenFile != "" && !loopback(u.Hostname()):
		found.add("a token is sent over https only", in("tokenFile")...)
	}
}

func (w *Webhook) problems(found *problems, at ...string) {
	in := func(field string) []string { return append(slices.Clone(at), field) }
	found.within(w.RepeatedWithin, time.Minute, time.Hour, "", in("repeatedWithin")...)
	found.within(w.ConfirmedAfter, minConfirmedAfter, time.Hour, "", in("confirmedAfter")...)
	if w.Address == "" {
		return
	}
	if _, port, err := net.SplitHostPort(w.Address); err != nil || port == "" {
		found.add(fmt.Sprintf("%q is no address: accepted are HOST:PORT and :PORT", w.Address), in("address")...)
	}
	for _, one := range []struct{ field, file string }{{"certFile", w.CertFile}, {"keyFile", w.KeyFile}, {"tokenFile", w.TokenFile}} {
		if !filepath.IsAbs(one.file) {
			found.add(fmt.Sprintf("%q is not an absolute path: who sends alerts has to know a token, which is sent over https only", one.file), in(one.field)...)
		}
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c *AlertCondition) problems(found *problems, at ...string) {
	in := func(field ...string) []string { return append(slices.Clone(at), field...) }
	switch err := CheckConditionType(c.Type); {
	case err != nil:
		found.add(err.Error(), in("type")...)
	case slices.Contains(reserved(), c.Type):
		found.add(fmt.Sprintf("%s belongs to Kubernetes or to a check of Nodemend: accepted is any other name", c.Type), in("type")...)
	}
	found.matchers(c.Matchers, in("matchers")...)
	if c.NodeLabel != "" && !labelName.MatchString(c.NodeLabel) {
		found.add(fmt.Sprintf("%q is no name of an alert's label", c.NodeLabel), in("nodeLabel")...)
	}
	if c.Reason != "" && !reasonWord.MatchString(c.Reason) {
		found.add(fmt.Sprintf("%q is no reason: accepted is one word such as DiskIsSlow", c.Reason), in("reason")...)
	}
	if err := CheckMessage(c.Message); err != nil {
		found.add(err.Error(), in("message")...)
	}
}

// reserved are the types of condition that alerts may not set.
func reserved() []string {
	return []string{
		string(corev1.NodeReady), string(corev1.NodeMemoryPressure), string(corev1.NodeDiskPressure), string(corev1.NodePIDPressure),
		string(corev1.NodeNetworkUnavailable), ControlPlaneEndpointUnhealthy,
	}
}
