//go:build integration

package deploy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/test/redfish"
)

const machineUUID = "4c4c4544-0032-3810-8052-b4c04f4a5731"

// maintenanceOf is one of a node that wants its machine off, and has not been created.
func maintenanceOf(node, name string) *v1alpha1.NodeMaintenance {
	return &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.NodeMaintenanceSpec{NodeName: node, Reason: "swap DIMM A1", Drain: &v1alpha1.Drain{}, Power: v1alpha1.PowerRequestOff, Identify: true},
	}
}

// proofOf is a proof for a boot of the machine.
func proofOf(bootID string) *v1alpha1.PowerProof {
	read := v1alpha1.PowerReading{Time: v1alpha1.NewMicroTime(time.Now()), GUID: machineUUID, Order: "RFC4122"}
	return &v1alpha1.PowerProof{
		Kind: "PowerOff", BootID: bootID, Machine: machineUUID, Reader: "r", Switch: "a BMC", First: read, Second: read, Apart: v1alpha1.Duration{Duration: 2 * time.Minute},
	}
}

// Who has this token says what became of light and power, of nothing else, and of no machine that nobody
// wants off.
func TestTheRemoteRunnerSaysWhatBecameOfLightAndPower(t *testing.T) {
	s := newScene(t)
	own := s.client(s.remoteRunner())
	unbound, node, edit := s.client(s.bound("remote-runner", nil)), s.client(s.account("runner", s.a)), s.client(s.person("edit"))
	off, cordon := maintenanceOf(s.a.Name, "off-"+utilrand.String(6)), maintenanceOf(s.b.Name, "cordon-"+utilrand.String(6))
	cordon.Spec.Power = ""
	for _, m := range []*v1alpha1.NodeMaintenance{off, cordon} {
		s.temporary(m)
		m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MaintenanceDrained, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDrained, LastTransitionTime: metav1.Now()}}
		s.must(s.admin.Status().Update(s.ctx, m))
	}
	write := func(c client.Client, m *v1alpha1.NodeMaintenance, change func(*v1alpha1.NodeMaintenance)) func() error {
		return func() error {
			changed := m.DeepCopy()
			change(changed)
			return client.NewDryRunClient(c).Status().Update(s.ctx, changed)
		}
	}
	phase := func(phase v1alpha1.PowerPhase) func(*v1alpha1.NodeMaintenance) {
		return func(m *v1alpha1.NodeMaintenance) {
			m.Status.Machine = &v1alpha1.Machine{UUID: machineUUID}
			m.Status.Power = &v1alpha1.MaintenancePowerStatus{Phase: phase, Since: metav1.Now(), RunnerID: "r"}
		}
	}
	lit := func(m *v1alpha1.NodeMaintenance) {
		m.Status.Identify = &v1alpha1.IdentifyStatus{State: v1alpha1.LightOn, Since: metav1.Now()}
	}
	undrained := func(m *v1alpha1.NodeMaintenance) { m.Status.Conditions = nil }
	evidence := func(m *v1alpha1.NodeMaintenance) { m.Status.Evidence = []v1alpha1.Evidence{{Type: "HardwareFailure"}} }
	p := &props{scene: s}
	p.until(func() bool { // rights and policies are in force
		err := write(own, off, undrained)()
		return err != nil && strings.Contains(err.Error(), "'nodemend-remote-runner-maintenances'") && write(own, off, lit)() == nil
	})
	for what, try := range map[string]func() error{
		"the light":     write(own, cordon, lit),
		"it waits":      write(own, off, phase(v1alpha1.PowerWaiting)),
		"it shuts down": write(own, off, phase(v1alpha1.PowerShuttingDown)),
		"it is off":     write(own, off, phase(v1alpha1.PowerOff)),
		"it is proved to be off": write(own, off, func(m *v1alpha1.NodeMaintenance) {
			phase(v1alpha1.PowerOff)(m)
			m.Status.Power.Proof, m.Status.Power.Held = proofOf(bootOne), 2
		}),
		"what nobody wants off is on": write(own, cordon, phase(v1alpha1.PowerOn)),
		"and is switched back":        write(own, cordon, phase(v1alpha1.PowerRestoring)),
		"list maintenances":           func() error { return own.List(s.ctx, &v1alpha1.NodeMaintenanceList{}) },
		"watch maintenances": func() error {
			watch, err := own.Watch(s.ctx, &v1alpha1.NodeMaintenanceList{})
			if err == nil {
				watch.Stop()
			}
			return err
		},
		"a person who may edit has one": func() error { return client.NewDryRunClient(edit).Create(s.ctx, maintenanceOf(s.a.Name, "theirs")) },
	} {
		if err := try(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	const only, unwanted = "but machine, identify and power only", "which does not say power: Off"
	s.refused([]attempt{
		{"that it is not drained", "may not write status.conditions of NodeMaintenance " + off.Name + ", " + only, write(own, off, undrained)},
		{"evidence", "may not write status.evidence of NodeMaintenance " + off.Name + ", " + only, write(own, off, evidence)},
		{"what nobody wants is shut down", unwanted, write(own, cordon, phase(v1alpha1.PowerShuttingDown))},
		{"or cut", unwanted, write(own, cordon, phase(v1alpha1.PowerCutting))},
		{"or off", unwanted, write(own, cordon, phase(v1alpha1.PowerOff))},
		{"a token without a pod", "not bound to a pod", write(unbound, off, lit)},
		{"the node's runner", `cannot update resource "nodemaintenances/status"`, write(node, off, lit)},
		{"a person who may edit", `cannot update resource "nodemaintenances/status"`, write(edit, off, lit)},
		{"a maintenance of its own", `cannot create resource "nodemaintenances"`, func() error { return own.Create(s.ctx, maintenanceOf(s.a.Name, "own")) }},
		{"what a maintenance wants", `cannot patch resource "nodemaintenances"`, func() error {
			return own.Patch(s.ctx, cordon.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"power":"Off"}}`)))
		}},
		{"a finalizer", `cannot update resource "nodemaintenances"`, func() error { return own.Update(s.ctx, off.DeepCopy()) }},
	})
	// A person wants it off. That its pods are freed, too, the controller does not say for them.
	leader := s.client(s.account("controller", s.b))
	frees := func(c client.Client) error {
		return client.NewDryRunClient(c).Patch(s.ctx, off.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"outOfService":true}}`)))
	}
	if err := frees(leader); err == nil || !strings.Contains(err.Error(), "nor its pods and volumes freed") {
		t.Errorf("the controller has pods freed in a person's name: %v", err)
	}
	s.must(frees(edit))
	spec := off.DeepCopy() // by the status one writes no spec
	spec.Spec.Power, spec.Spec.Reason = "", "another"
	lit(spec)
	s.must(own.Status().Update(s.ctx, spec))
	s.must(s.admin.Get(s.ctx, key(off), off))
	if off.Spec.Power != v1alpha1.PowerRequestOff || off.Spec.Reason != "swap DIMM A1" {
		t.Errorf("the spec is %+v", off.Spec)
	}
}

// bmcOf starts a BMC of a machine, and returns it with what remote.yaml says of it.
func bmcOf(t *testing.T, system *redfish.System) (*redfish.Service, string) {
	t.Helper()
	bmc := redfish.Start(t, system)
	path := filepath.Join(t.TempDir(), "remote.yaml")
	text := fmt.Sprintf("switches:\n- redfish: {url: %q, user: %q, passwordFile: %q, caFile: %q}\n", bmc.URL(), redfish.User, bmc.PasswordFile(), bmc.CAFile())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return bmc, path
}

// remotely runs a remote runner that goes by a file, until the test ends or the process is ended.
func (s *scene) remotely(account *rest.Config, file string) (end func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() {
		done <- runner.RunRemote(ctx, account, runner.RemoteOptions{
			Switch: func(node *corev1.Node) (power.Switch, error) {
				config, err := remote.Load(file)
				if err != nil {
					return nil, err
				}
				return config.Switch(remote.NodeOf(node))
			},
			Needed: func(node *corev1.Node) (*corev1.Node, error) {
				config, err := remote.Load(file)
				needed := config.Needed(remote.NodeOf(node))
				return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: needed.Name, Labels: needed.Labels, Annotations: needed.Annotations}}, err
			},
			Lead:             func(ctx context.Context, _ string, lead func(context.Context) error) error { return lead(ctx) },
			MaintenancePower: true, Registry: prometheus.NewRegistry(),
		})
	}()
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			s.Error(err)
		}
	}
	s.Cleanup(end)
	return end
}

// says has the kubelet of a node say which boot of which machine it is.
func (s *scene) says(node *corev1.Node, bootID string) {
	s.Helper()
	s.must(s.admin.Get(s.ctx, key(node), node))
	node.Status.NodeInfo.BootID, node.Status.NodeInfo.SystemUUID = bootID, machineUUID
	s.must(s.admin.Status().Update(s.ctx, node))
}

// The whole life of a maintenance, with the accounts of controller and remote runner and their rights, of
// a machine whose BMC is one of Redfish.
func TestAMachineIsOffForItsMaintenanceWithTheRightsTheRolesHave(t *testing.T) {
	s := newScene(t)
	s.must(s.admin.Delete(s.ctx, s.policy))
	s.says(s.a, bootOne)
	light := false
	bmc, file := bmcOf(t, &redfish.System{UUID: machineUUID, Power: "On", Indicator: &light, Resets: []string{"On", "ForceOff", "GracefulShutdown"}})
	s.lead(s.account("controller", s.b))
	account := s.remoteRunner()
	end := s.remotely(account, file)
	person := s.client(s.person("edit"))

	m := maintenanceOf(s.a.Name, "swap-"+utilrand.String(6))
	s.must(person.Create(s.ctx, m))
	read := func(done func() bool) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			err := s.admin.Get(ctx, key(m), m)
			return err == nil && done(), err
		}
	}
	in := func(phase v1alpha1.PowerPhase) func() bool {
		return func() bool { return m.Status.Power != nil && m.Status.Power.Phase == phase }
	}
	s.eventually("the machine is off, and its lamp shines", read(func() bool {
		return in(v1alpha1.PowerOff)() && m.Status.Identify != nil && m.Status.Identify.State == v1alpha1.LightOn
	}))
	if calls := bmc.Calls(); !slices.Equal(calls, []string{"GracefulShutdown /redfish/v1/Systems/1"}) || bmc.Power(1) != "Off" || !m.Drained() || m.Status.Power.BootID != bootOne {
		t.Errorf("the BMC was told %q, %+v", calls, m.Status)
	}
	s.must(s.admin.Get(s.ctx, key(s.a), s.a))
	if !s.a.Spec.Unschedulable {
		t.Error("the node is not cordoned")
	}

	// Another process goes on, and another person takes the node: it stays off after the first one's end.
	end()
	s.remotely(account, file)
	other := maintenanceOf(s.a.Name, "firmware-"+utilrand.String(6))
	other.Spec.Power, other.Spec.Identify = "", false
	s.must(person.Create(s.ctx, other))
	s.eventually("both hold the node", func(ctx context.Context) (bool, error) {
		err := s.admin.Get(ctx, key(other), other)
		return err == nil && other.Drained(), err
	})
	s.must(person.Delete(s.ctx, m))
	s.eventually("it waits for the other one, and the lamp is out", read(func() bool {
		return in(v1alpha1.PowerOff)() && strings.Contains(m.Status.Power.Message, "maintenance "+other.Name+" holds the node") && !m.MayShine()
	}))
	if calls := bmc.Calls(); len(calls) > 0 || bmc.Power(1) != "Off" {
		t.Errorf("the BMC was told %q", calls)
	}
	s.must(person.Delete(s.ctx, other))
	s.eventually("the machine is switched on", func(context.Context) (bool, error) { return bmc.Power(1) == "On", nil })
	s.must(s.admin.Get(s.ctx, key(m), m))
	s.must(s.admin.Get(s.ctx, key(s.a), s.a))
	if !m.MayBeOff() || !s.a.Spec.Unschedulable || !slices.Contains(m.Finalizers, v1alpha1.MaintenanceFinalizer) {
		t.Errorf("before its boot is seen the node is given back: %+v, %+v", m.Status.Power, s.a.Spec)
	}
	s.says(s.a, bootTwo)
	s.eventually("the maintenance is gone", func(ctx context.Context) (bool, error) {
		err := s.admin.Get(ctx, key(m), m)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	s.must(s.admin.Get(s.ctx, key(s.a), s.a))
	if calls := bmc.Calls(); !slices.Equal(calls, []string{"On /redfish/v1/Systems/1"}) || s.a.Spec.Unschedulable || light {
		t.Errorf("the BMC was told %q, the node is cordoned: %t, the lamp shines: %t", calls, s.a.Spec.Unschedulable, light)
	}
	if open, _ := bmc.Sessions(); open != 0 {
		t.Errorf("%d sessions are open", open)
	}
	events := &corev1.EventList{}
	s.eventually("people are told of each step", func(ctx context.Context) (bool, error) {
		err := s.admin.List(ctx, events, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"involvedObject.name": s.a.Name, "reason": "MaintenancePower"})
		told := map[string]bool{}
		for i := range events.Items {
			told[strings.TrimPrefix(events.Items[i].Message, "maintenance "+m.Name+": ")] = true
		}
		return told["ShuttingDown"] && told["Off"] && told["Restoring"] && len(told) > 3, err
	})
}
