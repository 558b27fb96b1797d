//go:build e2e

package machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/ipmisim"
	"github.com/nodemend/nodemend/test/vm"
	"github.com/nodemend/nodemend/test/vm/vmtest"
)

// agent is where the program is in the machine.
const agent = "/usr/lib/e2e/nodemend-agent"

// options say what a node is made of, besides detector and runner.
type options struct {
	// detector is what is added to the detector's configuration, below checks.
	checks string
	bmc    *ipmisim.Simulator
	files  map[string]vm.File
	units  map[string]string
	// hostUnits: the agents are installed by nodemend host-units from pods.
	hostUnits bool
	// flags of the detector, besides those of every one.
	flags []string
	// powerButton: the operating system heeds it.
	powerButton bool
	// modules, devices and programs of the machine, besides those of every machine.
	modules, devices, programs []string
}

// node is a machine with its Node object.
type node struct {
	*story.Node
	plane   *plane
	name    string
	machine *vm.Machine
	kubelet *kubelet
	cut     cut
}

// start starts a machine and waits until its Node is Ready.
func (s *scenario) start(name string, o options) *node {
	s.Helper()
	n := &node{Node: &story.Node{Story: s.Story, API: s.plane, NodeName: name}, plane: s.plane, name: name}
	n.create()
	program, err := program("nodemend-agent")
	s.Must(err)
	files := map[string]vm.File{
		agent:                          {From: program, Mode: 0o755},
		"/etc/nodemend/detector.yaml":  {Content: detectorConfig + o.checks},
		"/etc/nodemend/deadlock.json":  {Content: deadlockMonitor},
		"/usr/lib/e2e/look-for-faults": {Content: deadlockPlugin, Mode: 0o755},
	}
	units := map[string]string{}
	for _, role := range []string{"detector", "runner"} {
		if o.hostUnits {
			n.pod(role, files, units)
		} else {
			n.unit(role, o.flags, files, units)
		}
	}
	maps.Copy(files, o.files)
	maps.Copy(units, o.units)
	dir := filepath.Join(s.plane.dir, name)
	s.Must(os.Mkdir(dir, 0o700))
	n.machine = vmtest.Start(s, vm.Options{Dir: dir, Files: files, Units: units, BMC: o.bmc, PowerButton: o.powerButton, Modules: o.modules, Devices: o.devices, Programs: o.programs})
	n.kubelet = startKubelet(context.WithoutCancel(s.Ctx), s.plane, n.machine, name)
	s.Cleanup(n.end)
	n.Until(moment, "the node is Ready", n.Is(corev1.NodeReady, corev1.ConditionTrue))
	return n
}

// create makes the Node.
func (n *node) create() {
	n.Helper()
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: n.name, Labels: map[string]string{corev1.LabelHostname: n.name, corev1.LabelOSStable: "linux"},
	}}
	n.Must(n.plane.Create(n.Ctx, object))
	n.Cleanup(n.remove)
	base := object.DeepCopy()
	object.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("10"),
	}
	object.Status.Allocatable = object.Status.Capacity
	n.Must(n.plane.Status().Patch(n.Ctx, object, client.MergeFrom(base)))
}

// unit has a role run as a unit, which is the shipped one. The detector gets more flags.
func (n *node) unit(role string, more []string, files map[string]vm.File, units map[string]string) {
	n.Helper()
	text, err := os.ReadFile(root + "/internal/hostunits/units/" + role + ".service")
	n.Must(err)
	kubeconfig := "/etc/nodemend/" + role + ".kubeconfig"
	command := append([]string{agent, role, "--kubeconfig=" + kubeconfig, "--node-name=" + n.name}, flags(role)...)
	if role == "detector" {
		command = append(command, more...)
	}
	units["nodemend-"+role+".service"] = strings.Replace(string(text), "@ExecStart@", strings.Join(command, " "), 1)

	config := n.account(role)
	config.Host = n.plane.server()
	path := filepath.Join(n.TempDir(), role)
	n.Must(cluster.WriteKubeconfig(path, config))
	files[kubeconfig] = vm.File{From: path, Mode: 0o600}
}

// flags are those of a role.
func flags(role string) []string {
	if role == "detector" {
		return []string{"--config=/etc/nodemend/detector.yaml", "--config.custom-plugin-monitor=/etc/nodemend/deadlock.json"}
	}
	return nil
}

// account returns the config of the role's pod on this node.
func (n *node) account(role string) *rest.Config {
	n.Helper()
	var pods corev1.PodList
	n.Until(moment, "the scheduler gives the node a pod of the "+role, func() (bool, string) {
		err := n.plane.List(n.Ctx, &pods, client.InNamespace(namespace),
			client.MatchingLabels{"app.kubernetes.io/component": role}, client.MatchingFields{"spec.nodeName": n.name})
		return err == nil && len(pods.Items) == 1, fmt.Sprint(len(pods.Items), " pods, ", err)
	})
	config, err := n.plane.account(n.Ctx, role, &pods.Items[0])
	n.Must(err)
	return config
}

// end ends the kubelet, and keeps the node's logs if the test has failed.
func (n *node) end() {
	n.kubelet.stop()
	if n.Failed() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(n.Ctx), moment)
		defer cancel()
		n.keepLogs(ctx)
	}
}

// remove removes the Node and its policies, which ends what there is of it.
func (n *node) remove() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.Ctx), moment)
	defer cancel()
	err := errors.Join(
		n.plane.DeleteAllOf(ctx, &v1alpha1.RemedyPolicy{}, client.MatchingLabels{corev1.LabelHostname: n.name}),
		n.plane.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}),
	)
	if err != nil {
		n.Errorf("removing node %s: %v", n.name, err)
	}
}

// keepLogs writes what is not in files yet.
func (n *node) keepLogs(ctx context.Context) {
	objects, err := os.Create(filepath.Join(n.plane.dir, n.name, "objects.yaml"))
	if err == nil {
		err = n.plane.dump(ctx, objects)
		_ = objects.Close() // what is missing is seen
	}
	if err != nil {
		n.Errorf("keeping the objects: %v", err)
	}
	journal, err := n.machine.Run(ctx, "journalctl --no-pager -o short-precise")
	if err == nil {
		err = os.WriteFile(filepath.Join(n.plane.dir, n.name, "journal.log"), []byte(journal), 0o600)
	}
	if err != nil {
		n.Logf("the journal is not kept, the console has it as well: %v", err)
	}
}

// run runs a script that must succeed in the machine.
func (n *node) run(script string) string {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Ctx, moment)
	defer cancel()
	out, err := n.machine.Run(ctx, script)
	n.Must(err)
	return strings.TrimSpace(out)
}

// tries runs a script that may fail, until it does not.
func (n *node) tries(script string) func() (bool, string) {
	return func() (bool, string) {
		ctx, cancel := context.WithTimeout(n.Ctx, moment)
		defer cancel()
		out, err := n.machine.Run(ctx, script)
		return err == nil, fmt.Sprint(out, err)
	}
}

// inService waits until the Node is neither cordoned nor marked.
func (n *node) inService() {
	n.Helper()
	n.Until(moment, "the node is back in service", func() (bool, string) {
		object := n.Object()
		mark, marked := object.Annotations[v1alpha1.CordonedAnnotation]
		return !object.Spec.Unschedulable && !marked, fmt.Sprintf("unschedulable %t, mark %q", object.Spec.Unschedulable, mark)
	})
}

// cordoned ends the test with an error unless the Node is cordoned by Nodemend.
func (n *node) cordoned() {
	n.Helper()
	object := n.Object()
	if object.Annotations[v1alpha1.CordonedAnnotation] == "" || !object.Spec.Unschedulable {
		n.Fatalf("the node is not out of service: unschedulable %t, annotations %q", object.Spec.Unschedulable, object.Annotations)
	}
}

// boots waits for a boot of the machine.
func (n *node) boots(count int) {
	n.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(n.Ctx, boot)
	defer cancel()
	n.Must(n.machine.WaitUp(ctx, count))
	n.Logf("%5.1f s until boot %d (at most %.0f s)", time.Since(began).Seconds(), count, boot.Seconds())
	ids := n.machine.Boots()
	if len(ids) != count || count > 1 && ids[count-1] == ids[count-2] {
		n.Fatalf("the boot IDs are %q, want %d", ids, count)
	}
}
