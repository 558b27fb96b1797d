package detector_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

func TestWhatAFileLeavesOutHasItsDefault(t *testing.T) {
	slower, oftener := detector.Default(), detector.Default()
	slower.Checks.Runtime.Timeout.Duration = 7 * time.Second
	oftener.Checks.Runtime.Interval.Duration = 2 * time.Second
	for name, tc := range map[string]struct {
		file string
		want detector.Config
	}{
		"empty":                         {"", detector.Default()},
		"only a comment":                {"# nothing\n", detector.Default()},
		"an empty object":               {"{}", detector.Default()},
		"empty sections":                {"heartbeat:\nchecks:\n  runtime:\n", detector.Default()},
		"one field":                     {"checks: {runtime: {timeout: 7s}}", slower},
		"a timeout beyond the interval": {"checks: {runtime: {interval: 2s}}", oftener},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := detector.Parse("f.yaml", []byte(tc.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyWhatIsNamedAndEnabledRuns(t *testing.T) {
	for file, want := range map[string][2]bool{ // of the runtime and the kubelet
		"":                          {true, true},
		"only: []":                  {true, true},
		"only: [kubelet]":           {false, true},
		"kubelet: {enabled: false}": {true, false},
		"only: [runtime, kubelet]\nkubelet: {enabled: false}": {true, false},
	} {
		c, err := detector.Parse("f.yaml", []byte("checks:\n  "+strings.ReplaceAll(file, "\n", "\n  ")+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{c.Checks.Runs("runtime"), c.Checks.Runs("kubelet")}; got != want {
			t.Errorf("%q: runtime and kubelet run: %v, want %v", file, got, want)
		}
	}
	c := detector.Default()
	if c.Checks.Runs("disk") {
		t.Error("a check runs that there is not")
	}
}

// exampleRules are in docs/checks.md.
const exampleRules = `checks:
  hardware:
    rules:
    - name: bay-8-is-empty
      match: {sensorName: FAN8*}
      severity: ignore
    - name: power-supply-may-wait
      match: {sensorType: Power Supply, event: Failure detected}
      severity: failure
      whileRedundant: warning
    - name: memory-correctable-often
      match: {sensorType: Memory, event: Correctable ECC}
      severity: failure
      rate: {count: 50, per: 24h}
      latch: manual
    - name: inlet-too-warm
      match: {sensorName: Inlet*, threshold: upper non-critical}
      severity: failure
      why: the row's cooling is gone
    - name: lid-is-open
      match: {chassis: Chassis Intrusion}
      severity: failure
`

func TestRulesForHardwareAreReadAsPeopleWriteThem(t *testing.T) {
	got, err := detector.Parse("f.yaml", []byte(exampleRules))
	if err != nil {
		t.Fatal(err)
	}
	want := detector.Default()
	want.Checks.Hardware.Rules = verdict.Rules{
		{Name: "bay-8-is-empty", Match: verdict.Match{SensorName: "FAN8*"}, Severity: verdict.SeverityIgnore},
		{
			Name: "power-supply-may-wait", Match: verdict.Match{SensorType: "Power Supply", Event: "Failure detected"},
			Severity: verdict.SeverityFailure, WhileRedundant: verdict.SeverityWarning,
		},
		{
			Name: "memory-correctable-often", Match: verdict.Match{SensorType: "Memory", Event: "Correctable ECC"},
			Severity: verdict.SeverityFailure, Rate: &verdict.Rate{Count: 50, Per: 24 * time.Hour}, Latch: verdict.LatchManual,
		},
		{
			Name: "inlet-too-warm", Match: verdict.Match{SensorName: "Inlet*", Threshold: "upper non-critical"},
			Severity: verdict.SeverityFailure, Why: "the row's cooling is gone",
		},
		{Name: "lid-is-open", Match: verdict.Match{Chassis: "Chassis Intrusion"}, Severity: verdict.SeverityFailure},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheExampleOfTheDocumentationIsTheOneThatIsTested(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "checks.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```yaml\n"+exampleRules+"```\n") {
		t.Errorf("docs/checks.md does not have\n%s", exampleRules)
	}
}

const sensorTypes = "Temperature, Voltage, Current, Fan, Physical Security, Platform Security, Processor, Power Supply, Power Unit, Cooling Device, Other, Memory, " +
	"Drive Slot / Bay, POST Memory Resize, System Firmwares, Event Logging Disabled, Watchdog1, System Event, Critical Interrupt, Button, Module / Board, " +
	"Microcontroller, Add-in Card, Chassis, Chip Set, Other FRU, Cable / Interconnect, Terminator, System Boot Initiated, Boot Error, OS Boot, OS Critical Stop, " +
	"Slot / Connector, System ACPI Power State, Watchdog2, Platform Alert, Entity Presence, Monitor ASIC, LAN, Management Subsys Health, Battery, Session Audit, " +
	"Version Change, FRU State"

func TestEveryMistakeIsReportedWithItsLine(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want []string
	}{
		"all kinds at once": {
			`heartbeat:
  interval: 5 minutes
  problemInterval: 2m
  jitter: 10%
checks:
  runtime:
    enabled: perhaps
    endpoint: /run/containerd/containerd.sock
    interval: 10s
    timeout: 31s
    failureThreshold: 0
  pleg:
    maxLastSeen: 4m
  kubelet:
    restartWindow: 1s
    successThreshold: 101
  kublet: {}
stateFile: state.json
kubelet:
  endpoint: http://127.0.0.1:10255
  certificateFiles:
  - kubelet.crt
customPlugins:
  problemInterval: 5m
conditions:
  KernelDeadlock:
    clearAfter: -1s
`,
			[]string{
				`f.yaml: line 2: "5 minutes" is not a duration: accepted are numbers with units, such as 90s or 1h30m`,
				`f.yaml: line 4: unknown field "jitter"`,
				"f.yaml: line 7: cannot unmarshal !!str `perhaps` into bool",
				`f.yaml: line 17: unknown field "kublet"`,
				`f.yaml: line 3: heartbeat.problemInterval: 2m0s is not between 1s and 1m0s: the controller would take reports for outdated`,
				`f.yaml: line 18: stateFile: "state.json" is not an absolute path`,
				`f.yaml: line 20: kubelet.endpoint: "http://127.0.0.1:10255" is not an address such as https://127.0.0.1:10250`,
				`f.yaml: line 21: kubelet.certificateFiles: "kubelet.crt" is not an absolute path`,
				`f.yaml: line 10: checks.runtime.timeout: 31s is not between 100ms and 30s`,
				`f.yaml: line 11: checks.runtime.failureThreshold: 0 is not between 1 and 100`,
				`f.yaml: line 8: checks.runtime.endpoint: "/run/containerd/containerd.sock" is not a unix socket with an absolute path, such as unix:///run/containerd/containerd.sock`,
				`f.yaml: line 13: checks.pleg.maxLastSeen: 4m0s is not between 10s and 3m0s, when the kubelet itself reports it`,
				`f.yaml: line 16: checks.kubelet.successThreshold: 101 is not between 1 and 100`,
				`f.yaml: line 15: checks.kubelet.restartWindow: 1s is not between 1m0s and 24h0m0s`,
				`f.yaml: line 24: customPlugins.problemInterval: 5m0s is not between 1s and 1m0s: the controller would take reports for outdated`,
				`f.yaml: line 27: conditions.KernelDeadlock.clearAfter: -1s is not between 0s and 720h0m0s`,
			},
		},
		"of Redfish": {
			`checks:
  hardware:
    source: redfish
    redfish: {user: root}
`,
			[]string{`f.yaml: line 4: checks.hardware.redfish.url: is missing: the source is redfish`},
		},
		"of Redfish's service": {
			`checks:
  hardware:
    redfish:
      url: http://{name}-bmc/redfish/v1
      caFile: ca.crt
`,
			[]string{
				`f.yaml: line 5: checks.hardware.redfish.caFile: "ca.crt" is not an absolute path`,
				`f.yaml: line 3: checks.hardware.redfish.passwordFile: is missing: a URL is given`,
				`f.yaml: line 4: checks.hardware.redfish.url: the URL of a Redfish service is https://HOST or https://HOST:PORT, without a path or a user`,
			},
		},
		"of the hardware": {
			`checks:
  hardware:
    interval: 6m
    source: usb
    stateFile: ""
    lan: {host: https://bmc, port: 0, user: administrator-of-it, keyFile: kg, cipherSuite: 1, privilege: admin}
    ipmitool:
      host: bmc.example
      port: 0
      cipherSuite: 300
    rules:
    - match: {sensorType: Fan, threshold: very low}
      severity: fatal
    - name: fan-critical
      match:
        sensorName: FAN*
        event: Burnt
      severity: warning
      latch: forever
    - name: mine
      match:
        sensorType: Memory
        sensorTyp: Fan
        event: Burnt
      severity: failure
      rate:
        count: 1
        per: 24 hours
    - name: mine
      match:
        sensorType: Fans
      severity: warning
      whileRedundant: ignore
    - name: both
      match: {event: Drive Fault, absent: true}
      severity: ignore
    - name: all
      severity: ignore
`,
			[]string{
				`f.yaml: line 23: unknown field "sensorTyp"`,
				`f.yaml: line 28: "24 hours" is not a duration: accepted are numbers with units, such as 90s or 1h30m`,
				`f.yaml: line 3: checks.hardware.interval: 6m0s is not between 1s and 5m0s: the controller would take reports for outdated`,
				`f.yaml: line 4: checks.hardware.source: "usb" is none of auto, device, lan, ipmitool and redfish`,
				`f.yaml: line 5: checks.hardware.stateFile: is empty: acknowledgements and the place in the System Event Log have to be kept`,
				`f.yaml: line 6: checks.hardware.lan.host: "https://bmc" is neither a name nor an address: accepted are such as 10.0.0.1 and {name}-bmc.example.com`,
				`f.yaml: line 6: checks.hardware.lan.passwordFile: is missing: a host is given`,
				`f.yaml: line 6: checks.hardware.lan.port: 0 is no UDP port`,
				`f.yaml: line 6: checks.hardware.lan.user: is longer than IPMI allows, 16 bytes`,
				`f.yaml: line 6: checks.hardware.lan.keyFile: "kg" is not an absolute path`,
				`f.yaml: line 6: checks.hardware.lan.cipherSuite: 1 is not accepted: 3 and 17 are, as others do not encrypt, or sign, well enough`,
				`f.yaml: line 6: checks.hardware.lan.privilege: "admin" is none of user, operator and administrator`,
				`f.yaml: line 9: checks.hardware.ipmitool.port: 0 is no UDP port`,
				`f.yaml: line 10: checks.hardware.ipmitool.cipherSuite: 300 is not between 1 and 255`,
				`f.yaml: line 7: checks.hardware.ipmitool.passwordFile: is missing: a host is given`,
				`f.yaml: line 12: checks.hardware.rules.0.name: is missing: a rule needs one, as failures show it`,
				`f.yaml: line 13: checks.hardware.rules.0.severity: "fatal" is not one of ignore, warning, failure`,
				`f.yaml: line 12: checks.hardware.rules.0.match.threshold: "very low" is not a threshold: accepted are non-critical, critical and non-recoverable, with or without lower or upper before it`,
				`f.yaml: line 14: checks.hardware.rules.1.name: "fan-critical" is the name of another rule, or of a default one`,
				`f.yaml: line 19: checks.hardware.rules.1.latch: "forever" is not one of present, momentary, manual`,
				`f.yaml: line 17: checks.hardware.rules.1.match.event: "Burnt" is not a state in the words of ipmitool, such as Uncorrectable ECC`,
				`f.yaml: line 27: checks.hardware.rules.2.rate.count: 1 is not between 2 and 100`,
				`f.yaml: line 28: checks.hardware.rules.2.rate.per: 0s is not between 1m and 2160h`,
				`f.yaml: line 24: checks.hardware.rules.2.match.event: "Burnt" is not a state of Memory: accepted are Correctable ECC, Uncorrectable ECC, Parity, Memory Scrub Failed, Memory Device Disabled, Correctable ECC logging limit reached, Presence Detected, Configuration Error, Spare, Throttled, Critical Overtemperature, and those that all types may have, such as State Asserted`,
				`f.yaml: line 29: checks.hardware.rules.3.name: "mine" is the name of another rule, or of a default one`,
				`f.yaml: line 33: checks.hardware.rules.3.whileRedundant: is for the sensorType Power Supply only`,
				`f.yaml: line 31: checks.hardware.rules.3.match.sensorType: "Fans" is not a type of sensors: accepted are ` + sensorTypes,
				`f.yaml: line 35: checks.hardware.rules.4.match: has more than one of event, threshold, chassis and absent`,
				`f.yaml: line 37: checks.hardware.rules.5.match: is empty: name at least one of sensorType, sensorName, event, threshold, chassis, absent`,
			},
		},
		"an interval and a timeout of nothing": {
			"checks:\n  runtime:\n    interval: 0s\n    timeout: 0s\n  hardware: {interval: 1h, timeout: 5m1s}\n",
			[]string{
				`f.yaml: line 3: checks.runtime.interval: 0s is not between 1s and 30s: the controller would take reports for outdated`,
				`f.yaml: line 4: checks.runtime.timeout: 0s is not between 100ms and 30s`,
				`f.yaml: line 5: checks.hardware.interval: 1h0m0s is not between 1s and 5m0s: the controller would take reports for outdated`,
				`f.yaml: line 5: checks.hardware.timeout: 5m1s is not between 100ms and 5m0s`,
			},
		},
		"a field twice": {
			"heartbeat: {}\nheartbeat: {}\n",
			[]string{`f.yaml: line 2: mapping key "heartbeat" already defined at line 1`},
		},
		"two documents": {
			"heartbeat: {}\n---\nheartbeat: {}\n",
			[]string{`f.yaml: line 2: only one YAML document is accepted in this file`},
		},
		"no object": {
			"- heartbeat\n",
			[]string{"f.yaml: line 1: cannot unmarshal !!seq into detector.Config"},
		},
		"no YAML": {
			"heartbeat: [\n",
			[]string{"f.yaml: line 1: did not find expected node content"},
		},
		"a colon too many in the first line": {"a: b: c", []string{"f.yaml: line 1: mapping values are not allowed in this context"}},
		"and in the second":                  {"a:\n  b: c: d", []string{"f.yaml: line 2: mapping values are not allowed in this context"}},
		"an alias of nothing":                {"\n\nchecks: *all\n", []string{"f.yaml: line 3: unknown anchor 'all' referenced"}},
		"a control character":                {"socket: a\nstateFile: \"\x01\"\n", []string{"f.yaml: line 2: control characters are not allowed"}},
		"no UTF-8":                           {"\nstateFile: \xff\n", []string{"f.yaml: line 2: invalid leading UTF-8 octet"}},
		"a brace that stays open":            {"checks:\n  runtime: {\n    timeout: 1s\n", []string{"f.yaml: line 2: did not find expected ',' or '}'"}},
		"a quote that stays open":            {"socket: \"b\n", []string{"f.yaml: line 1: found unexpected end of stream"}},
		"a list that ends":                   {"- a\nb: c\n", []string{"f.yaml: line 2: did not find expected '-' indicator"}},
		"a merge of nothing":                 {"socket: /a\n<<: 1\n", []string{"f.yaml: line 2: map merge requires map or sequence of maps as the value"}},
		"of the file systems": {
			`checks:
  filesystem:
    interval: 6m
    timeout: 1m
    ignore:
    - mnt
    write:
    - /var/lib/nodemend/
    maxWait: 30s
    minAvailable: 90
`,
			[]string{
				`f.yaml: line 3: checks.filesystem.interval: 6m0s is not between 1s and 5m0s: the controller would take reports for outdated`,
				`f.yaml: line 5: checks.filesystem.ignore: "mnt" is not an absolute path without .. and without a / at its end`,
				`f.yaml: line 7: checks.filesystem.write: "/var/lib/nodemend/" is not an absolute path without .. and without a / at its end`,
				`f.yaml: line 9: checks.filesystem.maxWait: 30s is not between 1m0s and 1h0m0s: it is at least the timeout`,
				`f.yaml: line 10: checks.filesystem.minAvailable: 90 is not between 0 and 50`,
			},
		},
		"of the limits": {
			"checks:\n  exhaustion:\n    maxUsed: 20\n    programs: [kubelet, containerd-shim-runc-v2]\n",
			[]string{
				`f.yaml: line 3: checks.exhaustion.maxUsed: 20 is not between 50 and 100`,
				`f.yaml: line 4: checks.exhaustion.programs: "containerd-shim-runc-v2" has 23 bytes: the kernel's name of a process has 1 to 15, see /proc/PID/comm`,
			},
		},
		"of the tasks": {
			"checks:\n  tasks:\n    enabled: true\n    maxBlocked: 50s\n    stateFile: \"\"\n",
			[]string{
				`f.yaml: line 4: checks.tasks.maxBlocked: 50s is not between 1m0s and 24h0m0s: it takes two runs to see that a task waits`,
				`f.yaml: line 5: checks.tasks.stateFile: is empty: a restarted detector would have to watch a blocked task for maxBlocked again`,
			},
		},
		"of the clock": {
			"checks:\n  clock:\n    maxOffset: 1s\n    maxError: 20s\n",
			[]string{
				`f.yaml: line 3: checks.clock.maxOffset: 1s is not between 2s and 1h0m0s: the API server tells its time in whole seconds`,
				`f.yaml: line 4: checks.clock.maxError: 20s is neither 0s nor between 100ms and 16s: the kernel tells no larger error`,
			},
		},
		"of the drives": {
			"checks:\n  drives:\n    exclude: [\"[nvme\"]\n    healthInterval: 10s\n    maxWait: 1s\n    maxMediaErrors: -1\n    maxErrors: 101\n    maxUsed: -2\n    stateFile: drives.json\n",
			[]string{
				`f.yaml: line 3: checks.drives.exclude: "[nvme" is no pattern of names: accepted are such as nvme1* and md127`,
				`f.yaml: line 4: checks.drives.healthInterval: 10s is not between 30s and 24h0m0s: it is at least the interval`,
				`f.yaml: line 5: checks.drives.maxWait: 1s is not between 25s and 1h0m0s: it is at least the timeout`,
				`f.yaml: line 6: checks.drives.maxMediaErrors: -1 is not at least 0, in errors a day`,
				`f.yaml: line 7: checks.drives.maxErrors: 101 is not between 0 and 100`,
				`f.yaml: line 8: checks.drives.maxUsed: -2 is not at least 0, in percent`,
				`f.yaml: line 9: checks.drives.stateFile: "drives.json" is not an absolute path`,
			},
		},
		"of the memory": {
			"checks:\n  memory:\n    exclude: [\"\"]\n    maxCorrected: -1\n    maxOffline: -1\n    stateFile: \"\"\n",
			[]string{
				`f.yaml: line 3: checks.memory.exclude: "" is no pattern of names: accepted are such as DIMM_A1 and mc0*`,
				`f.yaml: line 4: checks.memory.maxCorrected: -1 is not at least 0, in errors a day`,
				`f.yaml: line 5: checks.memory.maxOffline: -1 is not at least 0, in pages`,
				`f.yaml: line 6: checks.memory.stateFile: is empty: what was counted before has to be kept`,
			},
		},
		"of the GPUs": {
			"checks:\n  gpu:\n    exclude: [\"[0000\"]\n    healthInterval: 10s\n    maxWait: 1s\n    maxSlowdown: -1s\n    nvidiaSMI: {path: nvidia-smi, root: .}\n    stateFile: \"\"\n",
			[]string{
				`f.yaml: line 3: checks.gpu.exclude: "[0000" is no pattern of names: accepted are such as 0000:3b:00.0 and *165042*`,
				`f.yaml: line 4: checks.gpu.healthInterval: 10s is not between 1m0s and 24h0m0s: it is at least the interval`,
				`f.yaml: line 5: checks.gpu.maxWait: 1s is not between 45s and 1h0m0s: it is at least the timeout`,
				`f.yaml: line 6: checks.gpu.maxSlowdown: -1s is not between 0s and 24h0m0s`,
				`f.yaml: line 7: checks.gpu.nvidiaSMI.path: "nvidia-smi" is not an absolute path`,
				`f.yaml: line 7: checks.gpu.nvidiaSMI.root: "." is not an absolute path`,
				`f.yaml: line 8: checks.gpu.stateFile: is empty: nobody else knows which GPUs the node had`,
			},
		},
		"of the service network": {
			"checks:\n  services:\n    enabled: true\n    kubeProxyEndpoint: \"\"\n    kubeProxyRequired: true\n    cniConfigs: [etc/cni]\n    cniPlugins: [/opt/]\n    nameservers: [ns1]\n    dnsName: a_b..c\n",
			[]string{
				`f.yaml: line 5: checks.services.kubeProxyRequired: without a kubeProxyEndpoint nobody can tell whether kube-proxy is there`,
				`f.yaml: line 6: checks.services.cniConfigs: "etc/cni" is not an absolute path without .. and without a / at its end`,
				`f.yaml: line 7: checks.services.cniPlugins: "/opt/" is not an absolute path without .. and without a / at its end`,
				`f.yaml: line 8: checks.services.nameservers: "ns1" is no IP address, such as 10.96.0.10`,
				`f.yaml: line 9: checks.services.dnsName: "a_b..c" is no name of a host, such as registry.example.com`,
			},
		},
		"of the network": {
			"checks:\n  network:\n    include: [\"[eth\"]\n    exclude: [\"\"]\n    minSpeed: -1\n    maxFlaps: 1\n    flapWindow: 10m\n    maxErrors: 101\n    maxDropped: -1\n",
			[]string{
				`f.yaml: line 3: checks.network.include: "[eth" is no pattern of names: accepted are such as eth0 and ens*`,
				`f.yaml: line 4: checks.network.exclude: "" is no pattern of names: accepted are such as eth0 and ens*`,
				`f.yaml: line 5: checks.network.minSpeed: -1 is not at least 0, in Mb/s`,
				`f.yaml: line 6: checks.network.maxFlaps: 1 is not between 2 and 100`,
				`f.yaml: line 7: checks.network.flapWindow: 10m0s is not between 30s and 9m0s, nine tenths of successThreshold times interval: a restart of the detector would hide that a link flaps`,
				`f.yaml: line 8: checks.network.maxErrors: 101 is not between 0 and 100`,
				`f.yaml: line 9: checks.network.maxDropped: -1 is not between 0 and 100`,
			},
		},
		"only checks that there are": {
			"checks:\n  only: [kubelet, kublet]\n  runtime: {interval: 0s}\n",
			[]string{`f.yaml: line 2: checks.only: "kublet" is no check: accepted are runtime, pleg, kubelet, hardware, filesystem, exhaustion, tasks, clock, network, drives, memory, gpu, services`},
		},
		"conditions that there can't be": {
			"conditions:\n  Good: {}\n  has space/: {}\n  -x: {}\n  example.com/Good: {}\n",
			[]string{
				`f.yaml: line 4: conditions.-x: "-x" is no type of a condition: accepted are letters, digits, -, _ and ., beginning and ending with one of the first two, such as KernelDeadlock, and before that a domain and /`,
				`f.yaml: line 3: conditions.has space/: "has space/" is no type of a condition: accepted are letters, digits, -, _ and ., beginning and ending with one of the first two, such as KernelDeadlock, and before that a domain and /`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := detector.Parse("f.yaml", []byte(tc.file))
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tc.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAMissingFileIsNamed(t *testing.T) {
	if _, err := detector.Load("/nonexistent/detector.yaml"); err == nil || !strings.Contains(err.Error(), "/nonexistent/detector.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestTheSampleShowsEveryFieldWithItsDefault(t *testing.T) {
	sample := filepath.Join("..", "..", "deploy", "samples", "detector.yaml")
	got, err := detector.Load(sample)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(detector.Default(), got); diff != "" {
		t.Errorf("the sample differs from the defaults (-default +sample):\n%s", diff)
	}

	// What is left out has its default too, so compare the fields themselves.
	var fields [2]map[string]any
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := yaml.Marshal(detector.Default())
	if err != nil {
		t.Fatal(err)
	}
	for i, data := range [][]byte{defaults, text} {
		if err := yaml.Unmarshal(data, &fields[i]); err != nil {
			t.Fatal(err)
		}
		paths(fields[i])
	}
	if diff := cmp.Diff(fields[0], fields[1]); diff != "" {
		t.Errorf("the sample's fields differ (-all +sample):\n%s", diff)
	}
}

// paths replaces every value that is no object by "", which leaves the fields.
func paths(object map[string]any) {
	for key, value := range object {
		if inner, ok := value.(map[string]any); ok {
			paths(inner)
		} else {
			object[key] = ""
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("heartbeat: {interval: 1m}\nchecks:\n  runtime: {enabled: true, timeout: 7s}\n"))
	f.Add([]byte("conditions: {KernelDeadlock: {clearAfter: 1h}}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("<<: {checks: 1}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := detector.Parse("f.yaml", data)
		if err == nil && c.Validate() != nil {
			t.Errorf("accepted although it is not valid: %v", c.Validate())
		}
		if err != nil && err.Error() == "" {
			t.Error("refused without a word")
		}
	})
}
