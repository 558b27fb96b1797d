//go:build integration

package deploy_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runnerconfig "github.com/nodemend/nodemend/config/runner"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/internal/hostunits"
	"github.com/nodemend/nodemend/test/helm"
)

// choices are the values that change what is rendered, each as one who needs it
// would set it.
var choices = map[string][]string{
	"digest":      {"image.digest=sha256:" + strings.Repeat("0", 64), "image.pullPolicy=Always", "image.pullSecrets[0].name=mine"},
	"own image":   {"image.repository=registry.example.com:5000/nodemend", "image.tag=v1"},
	"placed":      {"controller.replicas=0", "controller.nodeSelector.pool=system", "controller.tolerations[0].operator=Exists", "controller.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=a", "controller.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists", "controller.priorityClassName=", "controller.resources.limits.memory=1Gi"},
	"arguments":   {"controller.args[0]=--history-limit=5", "detector.args[0]=-v=4", "runner.args[0]=--dry-run"},
	"configured":  {"detector.config.checks.hardware.enabled=false", "runner.config.reboots.deny=true"},
	"files":       {`detector.files.ntp\.json=text`, "detector.args[0]=--config.custom-plugin-monitor=/config/ntp.json"},
	"conditions":  {"detector.conditions[0]=PLEGUnhealthy", "detector.conditions[1]=example.com/Broken"},
	"a BMC":       {"detector.reportBMC=true"},
	"no detector": {"detector.enabled=false"},
	"no runner":   {"runner.enabled=false"},
	"host units":  {"hostUnits.enabled=true", "detector.args[0]=-v=4", "apiServer.host=fd00::1"},
	"pods again":  {"hostUnits.remove=true"},
	"API server":  {"apiServer.host=10.0.0.1", "apiServer.port=443"},
	"ports":       {"networkPolicy.apiServerPorts[0]=443"},
	"no policy":   {"networkPolicy.enabled=false"},
	"no budget":   {"defaultBudget.enabled=false"},
	"a namespace": {"createNamespace=true"},
	"a parent":    {"global.anything=1"},
	"remote":      remotely,
	"outside":     fromOutside,
	"notified":    notified,
	"frees":       frees,
	"replaces":    replaces,
	"others":      {"controller.externalRemediators=true", "controller.drivenBy[0]=NodeHealthCheck", "controller.drivenBy[1]=MachineHealthCheck", "controller.medik8sLeases=true"},
	"monitoring":  {"podMonitor.enabled=true", "podMonitor.labels.release=a", "prometheusRule.enabled=true", "prometheusRule.labels.release=a", "dashboard.enabled=true", "dashboard.annotations.grafana_folder=Nodemend"},
}

func TestTheAPIServerAcceptsEveryChoice(t *testing.T) {
	helm.Program(t) // its build is not bounded by the scene
	s := newScene(t)
	s.hasMedik8s()
	tried := map[string][]string{"nothing": {}, "all, with pods": {}, "all, with host units": {}}
	for name, values := range choices {
		if name == "monitoring" && !hasMonitoring() {
			continue
		}
		tried[name] = values
		if name != "host units" {
			tried["all, with pods"] = append(tried["all, with pods"], values...)
		}
		if name != "configured" && name != "files" && name != "pods again" {
			tried["all, with host units"] = append(tried["all, with host units"], values...)
		}
	}
	for name, values := range tried {
		t.Run(name, func(t *testing.T) { s.accepts(t, values) })
	}
}

func hasMonitoring() bool {
	_, err := os.Stat("chart/monitoring/dashboard.json")
	return err == nil
}

// accepts renders the chart and has the API server look at each object.
func (s *scene) accepts(t *testing.T, values []string) {
	t.Helper()
	objects := rendered(t, values...)
	checkRights(t, objects)
	for name, pod := range pods(t, objects) {
		if !slices.Contains([]string{"controller", "remote-runner", "remote-detector"}, name) {
			checkAgent(t, strings.TrimSuffix(name, "-host-unit"), pod)
		}
	}
	strict := client.WithFieldValidation(client.NewDryRunClient(s.admin), "Strict")
	for _, obj := range objects {
		if strings.HasPrefix(obj.GetAPIVersion(), "monitoring.coreos.com/") {
			continue // the Prometheus Operator is not here
		}
		if err := strict.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(&obj), client.FieldOwner("chart"), client.ForceOwnership); err != nil {
			t.Errorf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
}

// rendered returns the objects of the chart with these values.
func rendered(t *testing.T, values ...string) manifests {
	t.Helper()
	args := []string{}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return parse(t, helm.Template(t, namespace, args...))
}

// Grafana's sidecar finds the dashboard by a label, and the file is Grafana's to the letter.
func TestTheDashboardIsProvisioned(t *testing.T) {
	if !hasMonitoring() {
		t.Skip("this chart has no dashboard")
	}
	want, err := os.ReadFile("chart/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	find := func(values ...string) *unstructured.Unstructured {
		t.Helper()
		for _, obj := range rendered(t, values...) {
			if obj.GetKind() == "ConfigMap" && obj.GetName() == "nodemend-dashboard" {
				return &obj
			}
		}
		return nil
	}
	if find() != nil {
		t.Error("it is there unless somebody wants it")
	}
	for name, tt := range map[string]struct {
		values                      []string
		grafana, release, inFolders string
	}{
		"as it comes":   {nil, "1", "", ""},
		"a folder":      {[]string{"dashboard.annotations.grafana_folder=Nodes"}, "1", "", "Nodes"},
		"other labels":  {[]string{"dashboard.labels.release=kube"}, "1", "kube", ""},
		"another value": {[]string{"dashboard.labels.grafana_dashboard=yes-please"}, "yes-please", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			obj := find(append([]string{"dashboard.enabled=true"}, tt.values...)...)
			if obj == nil {
				t.Fatal("there is none")
			}
			labels := obj.GetLabels()
			if labels["grafana_dashboard"] != tt.grafana || labels["release"] != tt.release || obj.GetAnnotations()["grafana_folder"] != tt.inFolders {
				t.Errorf("labels %v, annotations %v", labels, obj.GetAnnotations())
			}
			got, _, err := unstructured.NestedString(obj.Object, "data", "nodemend.json")
			if err != nil || strings.TrimSpace(got) != strings.TrimSpace(string(want)) {
				t.Errorf("%v: the dashboard is %.80s…", err, got)
			}
		})
	}
}

// What is mounted into a pod stays the directory that it was, whatever the host has there by now.
func TestTheRunnerReadsTheNodesVetoOnTheHostItself(t *testing.T) {
	for name, values := range map[string][]string{"as it comes": nil, "configured": choices["configured"]} {
		pod, found := pods(t, rendered(t, values...))["runner"]
		if !found {
			t.Fatal("there is no runner")
		}
		if !pod.HostPID || pod.Containers[0].SecurityContext == nil || !ptr.Deref(pod.Containers[0].SecurityContext.Privileged, false) {
			t.Errorf("%s: the runner may not look at the root directory of the host's process 1", name)
		}
		for _, mount := range pod.Containers[0].VolumeMounts {
			if rest, found := strings.CutPrefix(runnerconfig.Path, mount.MountPath); found && strings.HasPrefix(rest, "/") {
				t.Errorf("%s: %s is mounted", name, mount.MountPath)
			}
		}
		if got := slices.Contains(pod.Containers[0].Args, "--config=/config/runner.yaml"); got != (values != nil) {
			t.Errorf("%s: it has the arguments %q", name, pod.Containers[0].Args)
		}
	}
}

// The root file system of some hosts, such as those of Talos and Bottlerocket, can't be written.
func TestPodsOfNodesMakeNoDirectoryOutsideOfVar(t *testing.T) {
	made := func(values ...string) (paths []string) {
		for _, pod := range pods(t, rendered(t, values...)) {
			for _, v := range pod.Volumes {
				if v.HostPath != nil && ptr.Deref(v.HostPath.Type, "") == corev1.HostPathDirectoryOrCreate && !strings.HasPrefix(v.HostPath.Path, "/var/") {
					paths = append(paths, v.HostPath.Path)
				}
			}
		}
		return paths
	}
	for name, values := range map[string][]string{"as it comes": nil, "configured": choices["configured"], "files": choices["files"], "pods again": choices["pods again"]} {
		if paths := made(values...); len(paths) > 0 {
			t.Errorf("%s: %q are made on every host", name, paths)
		}
	}
	for _, values := range []string{
		"detector.args[0]=--config.custom-plugin-monitor=/etc/nodemend/ntp.json", `detector.files.ntp\.json=/etc/nodemend/ntp.sh`,
	} {
		if paths := made(values); !slices.Equal(paths, []string{"/etc/nodemend"}) {
			t.Errorf("with %s it has %q of the hosts", values, paths)
		}
	}
}

// placedAgents are values for detector and runner on some nodes.
var placedAgents = []string{
	"detector.nodeSelector.canary=yes", "detector.tolerations[0].key=gpu", "detector.tolerations[0].operator=Exists",
	"detector.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=a",
	"detector.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
	"detector.podAnnotations.team=infra", "runner.nodeSelector.canary=yes", "runner.podAnnotations.team=infra",
}

func TestDetectorAndRunnerGoWhereTheValuesSay(t *testing.T) {
	for _, form := range []string{"hostUnits.enabled=false", "hostUnits.enabled=true"} {
		objects := rendered(t, append(slices.Clone(placedAgents), form)...)
		for _, obj := range objects.ofKind("DaemonSet") {
			set := as[appsv1.DaemonSet](t, obj)
			pod := set.Spec.Template
			if !maps.Equal(pod.Spec.NodeSelector, map[string]string{corev1.LabelOSStable: "linux", "canary": "yes"}) || pod.Annotations["team"] != "infra" {
				t.Errorf("with %s %s is for %v, with the annotations %v", form, set.Name, pod.Spec.NodeSelector, pod.Annotations)
			}
			if detector := strings.Contains(set.Name, "detector"); detector != (pod.Spec.Affinity != nil) || detector != (pod.Spec.Tolerations[0].Key == "gpu") {
				t.Errorf("with %s %s has %v and tolerates %v", form, set.Name, pod.Spec.Affinity, pod.Spec.Tolerations)
			}
		}
		if count := len(objects.ofKind("DaemonSet")); count != 2 {
			t.Errorf("with %s there are %d DaemonSets, want 2", form, count)
		}
	}
	for _, obj := range rendered(t, "detector.updateStrategy.type=OnDelete", "detector.podAnnotations.team=infra", "detector.config.socket=").ofKind("DaemonSet") {
		set := as[appsv1.DaemonSet](t, obj)
		if detector := set.Name == "nodemend-detector"; detector != (set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType) ||
			detector != (len(set.Spec.Template.Annotations) == 2) {
			t.Errorf("%s is replaced by %v, with the annotations %v", set.Name, set.Spec.UpdateStrategy, set.Spec.Template.Annotations)
		}
	}
}

func TestAlertsAreAsTheValuesSay(t *testing.T) {
	type alert struct {
		Alert, Expr, For string
		Labels           map[string]string
	}
	read := func(values ...string) map[string]alert {
		var rule struct {
			Spec struct {
				Groups []struct{ Rules []alert }
			}
		}
		text, err := rendered(t, append(values, "prometheusRule.enabled=true")...).ofKind("PrometheusRule")[0].MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &rule); err != nil {
			t.Fatal(err)
		}
		alerts := map[string]alert{}
		for _, group := range rule.Spec.Groups {
			for _, a := range group.Rules {
				alerts[a.Alert] = a
			}
		}
		return alerts
	}
	want := read()
	got := read("prometheusRule.alerts.NodemendWaitsForPerson.threshold=7200", "prometheusRule.alerts.NodemendWaitsForPerson.for=30m",
		"prometheusRule.alerts.NodemendActionFails.threshold=5", "prometheusRule.alerts.NodemendStorm.enabled=false", "prometheusRule.alerts.NodemendNoLeader.severity=page")
	change := func(name string, by func(*alert)) {
		a := want[name]
		a.Labels = maps.Clone(a.Labels)
		by(&a)
		want[name] = a
	}
	change("NodemendWaitsForPerson", func(a *alert) { a.Expr, a.For = strings.TrimSuffix(a.Expr, "> 900")+"> 7200", "30m" })
	change("NodemendActionFails", func(a *alert) { a.Expr = strings.Replace(a.Expr, ">= 3\n", ">= 5\n", 1) })
	change("NodemendNoLeader", func(a *alert) { a.Labels["severity"] = "page" })
	delete(want, "NodemendStorm")
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 10 {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
}

func TestAMistakeInTheValuesIsNamed(t *testing.T) {
	for values, want := range map[string]string{
		"imgae.tag=v1":                       "additional properties 'imgae' not allowed",
		"controller.replica=1":               "'/controller': additional properties 'replica' not allowed",
		"controller.replicas=two":            "'/controller/replicas': got string, want integer",
		"controller.replicas=-1":             "'/controller/replicas': minimum",
		"controller.resources.request.cpu=1": "'/controller/resources': additional properties 'request' not allowed",
		"detector.conditions[0]=It's":        "'/detector/conditions/0': 'It\\'s' does not match pattern",
		"detector.args[0]=config":            "'/detector/args/0': 'config' does not match pattern '^-'",
		"hostUnits=true":                     "'/hostUnits': got boolean, want object",
		"hostUnits.enabled=yes":              "'/hostUnits/enabled': got string, want boolean",
		"image.digest=v1":                    "'/image/digest': 'v1' does not match pattern",
		"image.pullPolicy=Sometimes":         "'/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'",
		"image.pullSecrets[0]=mine":          "'/image/pullSecrets/0': got string, want object",
		"apiServer.host=https://10.0.0.1":    "'/apiServer/host': 'https://10.0.0.1' does not match pattern",
		"apiServer.port=0":                   "'/apiServer/port': minimum",
		"defaultBudget.paused=true":          "'/defaultBudget': additional properties 'paused' not allowed",
		"runner.config.reboot.deny=true":     "'/runner/config': additional properties 'reboot' not allowed",
		"runner.config.reboots.deny=si":      "'/runner/config/reboots/deny': got string, want boolean",
		"detector.config.cheks.pleg.x=1":     "'/detector/config': additional properties 'cheks' not allowed",
		"detector.config.checks.pleg.x=1":    "'/detector/config/checks/pleg': additional properties 'x' not allowed",
		"detector.updateStrategy.type=Never": "'/detector/updateStrategy/type': value must be one of 'RollingUpdate', 'OnDelete'",

		"detector.config.checks.pleg.interval=1d":                    "'/detector/config/checks/pleg/interval': '1d' does not match pattern",
		"prometheusRule.alerts.NodemendStrom.for=1m":                 "'/prometheusRule/alerts': additional properties 'NodemendStrom' not allowed",
		"prometheusRule.alerts.NodemendTwoWriters.threshold=1":       "'/prometheusRule/alerts/NodemendTwoWriters': additional properties 'threshold' not allowed",
		"hostUnits.enabled=true,runner.updateStrategy.type=OnDelete": "runner.updateStrategy is for pods",

		"hostUnits.enabled=true,hostUnits.remove=true":           "set one of the two",
		"hostUnits.enabled=true,detector.config.socket=":         "detector.config is for pods: with hostUnits.enabled write the file on the hosts",
		`hostUnits.enabled=true,detector.files.ntp\.json=x`:      "detector.files are for pods: with hostUnits.enabled write the files on the hosts",
		"detector.files.ntp=x":                                   "'/detector/files': additional properties 'ntp' not allowed",
		`detector.files.ntp\.json.a=x`:                           "'/detector/files/ntp.json': got object, want string",
		"hostUnits.enabled=true,runner.config.reboots.deny=true": "runner.config is for pods: with hostUnits.enabled write the file on the hosts",
	} {
		t.Run(values, func(t *testing.T) {
			_, err := helm.Run(t, "template", "nodemend", helm.Chart, "--namespace="+namespace, "--set", values)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

func TestHelmFindsNothingToComplainAbout(t *testing.T) {
	if out, err := helm.Run(t, "lint", "--strict", helm.Chart, "--namespace="+namespace); err != nil || strings.Contains(out, "WARNING") {
		t.Error(out, err)
	}
	_, err := helm.Run(t, "template", "nodemend", helm.Chart, "--kube-version=1.31.9")
	if err == nil || !strings.Contains(err.Error(), "chart requires kubeVersion: >=1.32.0-0") {
		t.Errorf("an older Kubernetes: %v", err)
	}
}

func TestInstallYAMLIsWhatTheChartRenders(t *testing.T) {
	command := exec.CommandContext(t.Context(), "tools/release/render", helm.Chart)
	command.Dir = helm.Root(t)
	want, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("deploy/install.yaml is not what the chart renders: run make generate")
	}
}

func TestTheChartBelongsIntoAnyNamespace(t *testing.T) {
	for _, obj := range parse(t, helm.Template(t, "elsewhere", "--set=detector.config.socket=,runner.config.reboots.deny=true")) {
		text, err := obj.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), namespace) {
			t.Errorf("%s %s is about %s", obj.GetKind(), obj.GetName(), namespace)
		}
	}
}

func TestMetricsOfNodesAreForTheNodeAloneUnlessTheyAreScraped(t *testing.T) {
	for values, want := range map[string]string{"podMonitor.enabled=false": "127.0.0.1", "podMonitor.enabled=true": "0.0.0.0"} {
		for _, form := range []string{"hostUnits.enabled=false", "hostUnits.enabled=true"} {
			served := 0
			for name, pod := range pods(t, rendered(t, values, form)) {
				for _, arg := range pod.Containers[0].Args {
					flag, address, _ := strings.Cut(arg, "=")
					if name == "controller" || flag != "--metrics-address" && flag != "--prometheus-address" {
						continue
					}
					served++
					if host, _, _ := strings.Cut(address, ":"); host != want {
						t.Errorf("with %s,%s %s has %s, want %s", values, form, name, arg, want)
					}
				}
			}
			if served != 2 {
				t.Errorf("with %s,%s %d pods serve metrics, want 2", values, form, served)
			}
		}
	}
}

func TestTheDefaultBudgetIsTheSample(t *testing.T) {
	data, err := deploy.Samples.ReadFile("samples/budget.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sample := as[v1alpha1.RemediationBudget](t, parse(t, string(data))[0])
	chart := as[v1alpha1.RemediationBudget](t, rendered(t).ofKind("RemediationBudget")[0])
	if chart.Name != sample.Name || !equality.Semantic.DeepEqual(chart.Spec, sample.Spec) {
		t.Errorf("the chart has %s %+v, the sample is %s %+v", chart.Name, chart.Spec, sample.Name, sample.Spec)
	}
}

func TestTheProgramKnowsTheArgumentsOfTheWorkloads(t *testing.T) {
	dir := t.TempDir()
	for program, tags := range map[string]string{"nodemend": "", "nodemend-agent": "agent"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-tags="+tags, "-o", filepath.Join(dir, program), "../cmd/nodemend")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v: %s", program, err, output)
		}
	}
	roles := 0
	for _, values := range [][]string{{"hostUnits.remove=true", choices["configured"][0], choices["configured"][1]}, {"hostUnits.enabled=true"}, remotely, fromOutside} {
		for name, pod := range pods(t, rendered(t, values...)) {
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				roles++
				// Flags are read before --help is heeded. Those of a host unit are the role's.
				args := c.Args
				if i := slices.Index(args, "--"); i >= 0 {
					role, _, _ := strings.Cut(name, "-")
					refuses(t, filepath.Join(dir, c.Command[0]), append([]string{role}, args[i+1:]...))
					args = args[:i]
				}
				refuses(t, filepath.Join(dir, c.Command[0]), args)
				if args[0] == "host-units" && c.VolumeMounts[0].MountPath != hostunits.DefaultHostRoot {
					t.Errorf("%s mounts the host at %s", name, c.VolumeMounts[0].MountPath)
				}
				if c.Name == "installer" && c.VolumeMounts[1].MountPath != hostunits.DefaultCredentials {
					t.Errorf("%s mounts its credentials at %s", name, c.VolumeMounts[1].MountPath)
				}
			}
		}
	}
	if want := 16; roles != want {
		t.Errorf("looked at %d containers, want %d", roles, want)
	}
}

// refuses fails the test if the program refuses the arguments.
func refuses(t *testing.T, program string, args []string) {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), program, append(slices.Clone(args), "--help")...).CombinedOutput(); err != nil {
		t.Errorf("the program refuses %q: %v: %s", args, err, output)
	}
}
