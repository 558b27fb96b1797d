//go:build integration

package newcomer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/test/helm"
)

func TestANewcomerInstallsByHelm(t *testing.T) {
	s := newScene(t)
	crds, err := helm.Run(t, "show", "crds", helm.Chart)
	s.must(err)
	s.apply(crds)
	s.kubectl("wait", "--for=condition=Established", "--timeout=-1s", "crd", "remedypolicies.nodemend.dev", "remediationbudgets.nodemend.dev")
	manifests := helm.Template(t, namespace, "--set=createNamespace=true")
	s.apply(manifests)

	s.useIt()

	// With a controller that runs.
	s.shows("uninstall --yes", "all nodes are given back")
	s.isInService(s.node)
	s.stopRoles()
	s.delete(manifests, "--ignore-not-found") // the budget has gone with the uninstall
	s.delete(crds)
	s.forgetConditions()
	s.nothingIsLeft()
}

func TestANewcomerInstallsByInstallYAML(t *testing.T) {
	s := newScene(t)
	install, err := os.ReadFile(helm.Root(t) + "/deploy/install.yaml")
	s.must(err)
	budget, err := os.ReadFile(helm.Root(t) + "/deploy/samples/budget.yaml")
	s.must(err)
	s.apply(string(install))
	s.kubectl("wait", "--for=condition=Established", "--timeout=-1s", "crd", "remediationbudgets.nodemend.dev")
	s.apply(string(budget))

	s.useIt()

	// Without a controller: by hand, as docs/install.md has it.
	s.stopRoles()
	s.kubectl("patch", "nodemendremediation", "asked", "--type=merge", `--patch={"metadata":{"finalizers":["nodemend.dev/request"]}}`) // of one that served it
	s.kubectl("delete", "remedypolicies", "--all")
	for _, node := range s.cordonedByUs() {
		s.kubectl("uncordon", node)
		s.kubectl("annotate", "node", node, "nodemend.dev/cordoned-for-")
	}
	for object := range strings.FieldsSeq(s.kubectl("get", "nodemaintenances,remediations", "--output=name")) {
		s.kubectl("patch", object, "--type=merge", `--patch={"metadata":{"finalizers":null}}`)
	}
	s.kubectl("patch", "nodemendremediation", "asked", "--type=merge", `--patch={"metadata":{"finalizers":null}}`)
	s.isInService(s.node)
	s.delete(string(install))
	s.forgetConditions()
	s.nothingIsLeft()
}

// As docs/quickstart.md has it.
func TestTheQuickstartHealsWhatALineInALogTells(t *testing.T) {
	s := newScene(t)
	quickstart := helm.Root(t) + "/deploy/quickstart/"
	s.helm("install", "--create-namespace", "--wait", "--values="+quickstart+"values.yaml")
	for _, file := range []string{"log.yaml", "policy.yaml"} {
		s.kubectl("apply", "-f", quickstart+file)
	}
	s.kubectl("rollout", "status", "daemonset/quickstart")
	s.healsALine(quickstart)
	s.shows("describe "+s.node, "repairing ")
	if out, err := exec.CommandContext(s.ctx, filepath.Join(s.dir, "nodemend"), "policy", "check", quickstart+"policy.yaml").CombinedOutput(); err != nil {
		s.Errorf("policy check: %v: %s", err, out)
	}
}

// healsALine starts the programs with what the chart gives them, writes the line into the log, and
// waits until the node has healed.
func (s *scene) healsALine(quickstart string) {
	s.Helper()
	log := s.quickstartFiles(quickstart)
	s.start(s.build("nodemend", ""), "controller", "--leader-election-namespace="+namespace)
	s.startAgents("--config="+filepath.Join(s.dir, "detector.yaml"), "--config.system-log-monitor="+filepath.Join(s.dir, "quickstart.json"))
	s.waitFor("the log tells of no problem", s.condition("QuickstartProblem", "False"))

	line, err := exec.CommandContext(s.ctx, "sh", "-c", s.documented(`echo "$(date `)).Output()
	s.must(err)
	s.must(os.WriteFile(log, line, 0o600))
	s.waitFor("it has healed", func() (bool, string) {
		out := s.prints("history")
		return strings.Contains(out, "quickstart") && strings.Contains(out, "Recovered") && strings.Contains(out, "command"), out + s.prints("why "+s.node)
	})
}

// quickstartFiles writes those that the chart gives to a detector, for this machine, and
// returns the path of the log.
func (s *scene) quickstartFiles(quickstart string) (log string) {
	s.Helper()
	log = filepath.Join(s.dir, "quickstart.log")
	s.must(os.WriteFile(log, nil, 0o600))
	get := func(key string) string {
		return s.kubectl("--namespace="+namespace, "get", "configmap", "nodemend-detector", "--output=go-template={{index .data \""+key+"\"}}")
	}
	monitor := get("quickstart.json")
	manifest, err := os.ReadFile(quickstart + "log.yaml")
	s.must(err)
	const path = "/var/log/nodemend-quickstart.log"
	if !strings.Contains(monitor, path) || !strings.Contains(string(manifest), path) || !strings.Contains(s.documented("echo"), path) {
		s.Errorf("monitor, DaemonSet and page do not all name %s", path)
	}
	s.must(os.WriteFile(filepath.Join(s.dir, "quickstart.json"), []byte(strings.ReplaceAll(monitor, path, log)), 0o600))
	var config map[string]any
	s.must(yaml.Unmarshal([]byte(get("detector.yaml")), &config))
	config["checks"] = map[string]any{"only": []string{"runtime"}, "runtime": map[string]any{"endpoint": "unix://" + filepath.Join(s.dir, "cri.sock")}}
	config["stateFile"], config["socket"] = "", ""
	data, err := yaml.Marshal(config)
	s.must(err)
	s.must(os.WriteFile(filepath.Join(s.dir, "detector.yaml"), data, 0o600))
	return log
}

// documented returns the shell's line of docs/quickstart.md that writes into the log, from the
// text on, without where it writes to if the text is the beginning of what is written.
func (s *scene) documented(from string) string {
	s.Helper()
	page, err := os.ReadFile(helm.Root(s) + "/docs/quickstart.md")
	s.must(err)
	for line := range strings.Lines(string(page)) {
		if at := strings.Index(line, from); at >= 0 && strings.Contains(line, "something broke") {
			if command, _, cut := strings.Cut(line[at:], " >>"); cut && from != "echo" {
				return command
			}
			return line[at:]
		}
	}
	s.Fatalf("docs/quickstart.md has no line with %s", from)
	return ""
}

func TestHelmInstallsUpgradesAndUninstalls(t *testing.T) {
	s := newScene(t)
	s.helm("install", "--create-namespace", "--wait")
	s.kubectl("patch", "remediationbudget", "all-nodes", "--type=merge", `--patch={"spec":{"paused":true}}`)
	s.apply(s.sample())

	// As docs/install.md has it: CRDs, then runners, then the controller.
	crds, err := helm.Run(t, "show", "crds", helm.Chart)
	s.must(err)
	s.kubectl("apply", "--server-side", "--force-conflicts", "-f", s.file(crds))
	s.helm("upgrade", "--set=controller.replicas=0", "--set=image.tag=next")
	s.kubectl("--namespace="+namespace, "rollout", "status", "daemonset/nodemend-runner", "--timeout=15m")
	s.helm("upgrade", "--set=image.tag=next")
	s.kubectl("--namespace="+namespace, "rollout", "status", "deployment/nodemend-controller", "--timeout=15m")
	if paused := s.kubectl("get", "remediationbudget", "all-nodes", "--output=jsonpath={.spec.paused}"); paused != "true" {
		s.Errorf("after an upgrade paused is %q", paused)
	}

	// The host units' form and back.
	s.helm("upgrade", "--set=hostUnits.enabled=true")
	s.helm("upgrade", "--set=hostUnits.remove=true", "--wait")

	_, err = helm.Run(t, "uninstall", "nodemend", "--namespace="+namespace, "--kubeconfig="+s.cluster.Kubeconfig, "--wait")
	s.must(err)
	if out := s.kubectl("get", "remedypolicies", "--output=name"); !strings.Contains(out, "container-runtime") {
		s.Errorf("of the policies there is left: %q", out)
	}
	s.kubectl("delete", "namespace", namespace)
	s.delete(crds)
	s.nothingIsLeft()
}

// useIt tries a policy out, then has one act until a node is out of service.
func (s *scene) useIt() {
	s.Helper()
	s.kubectl("--namespace="+namespace, "rollout", "status", "deployment/nodemend-controller")
	for _, role := range []string{"detector", "runner"} {
		s.kubectl("--namespace="+namespace, "rollout", "status", "daemonset/nodemend-"+role)
	}
	s.startRoles()
	s.waitFor("the detector reports", s.condition("ContainerRuntimeUnhealthy", "False"))
	s.apply(s.sample()) // in mode DryRun, as a first look

	s.runtime.Hang()
	s.waitFor("the detector sees the hang", s.condition("ContainerRuntimeUnhealthy", "True"))
	s.waitFor("it is shown what would be done", func() (bool, string) {
		out := s.kubectl("get", "remediations", "--output=wide")
		return strings.Contains(out, "DryRun"), out
	})
	s.shows("status", "repair is blocked", "container-runtime", "all-nodes", "detector", "runner", "controller")
	s.shows("why "+s.node, "held by DryRun: would restart containerd.service", "the fault is confirmed")
	if out := s.kubectl("get", "nodeactions", "--output=name"); out != "" {
		s.Errorf("a policy in mode DryRun has led to %s", out)
	}
	s.isInService(s.node)

	s.apply(outOfService)
	s.waitFor("the node is out of service", func() (bool, string) {
		out := s.kubectl("get", "nodemaintenances", "--output=wide")
		return s.cordoned(s.node), out + s.kubectl("get", "remediations", "--output=wide") + s.kubectl("get", "nodeactions", "--output=wide")
	})
	if out := s.kubectl("get", "nodeactions", "--output=wide"); !strings.Contains(out, "Succeeded") {
		s.Errorf("the runner has not reported the command: %s", out)
	}
	s.shows("status", "in maintenance")
	s.waitFor("the history has it", func() (bool, string) { // a moment after the cordon
		out := s.prints("history " + s.node)
		return strings.Contains(out, "out-of-service") && strings.Contains(out, "command, maintenance"), out
	})
	driven, err := os.ReadFile(helm.Root(s) + "/deploy/samples/driven.yaml")
	s.must(err)
	s.apply(string(driven) + asked)
	s.isFound()
}

// outOfService acts: a command that changes nothing, and then the node is taken out.
const outOfService = `
apiVersion: nodemend.dev/v1alpha1
kind: RemedyPolicy
metadata: {name: out-of-service}
spec:
  mode: Enforce
  match: [{type: ContainerRuntimeUnhealthy, status: "True", for: 0s}]
  steps:
  - command: {argv: [/bin/true]}
    verifyTimeout: 1s
  - maintenance: {reason: a test, drain: {timeout: 1m}}
  delayAfterJoin: 0s
`

// asked is what another healer creates of the template in samples/driven.yaml.
const asked = `
---
apiVersion: nodemend.dev/v1alpha1
kind: NodemendRemediation
metadata: {namespace: default, name: asked}
spec: {policy: driven}
`
