package main

import (
	"context"
	_ "embed"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/process"
	"github.com/nodemend/nodemend/test/redfish"
)

const (
	// machineName is the name of the node whose machine is played.
	machineName = "played-1"
	// bootTime is how long that machine takes from power to its kubelet.
	bootTime = 5 * time.Second
)

//go:embed remote.yaml
var remoteConfig string

//go:embed machine.yaml
var machineObject string

// machine is a server that the demo plays, with a BMC. What runs on it is a process of kwok, which
// plays its kubelet and pods.
type machine struct {
	demo *demo
	bmc  *httptest.Server
	// switched tells whether the power has come, or gone.
	switched chan bool

	mu      sync.Mutex
	on      bool
	kubelet *process.Process // nil: it has not booted
}

// startMachine makes the node of a machine that is played, boots that, and has its BMC answer.
func (d *demo) startMachine(ctx context.Context) error {
	d.say("creating %s: a node whose machine is played, kubelet and BMC (Redfish)", machineName)
	m := &machine{demo: d, on: true, switched: make(chan bool, 8)}
	system := &redfish.System{UUID: string(uuid.NewUUID()), Machine: m}
	m.bmc = httptest.NewTLSServer(redfish.New(system))
	d.machine = m
	d.undo = append(d.undo, m.stop)
	for name, data := range map[string][]byte{
		"bmc-password": []byte(redfish.Password + "\n"),
		"bmc-ca.crt":   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.bmc.Certificate().Raw}),
	} {
		if err := os.WriteFile(d.path(name), data, 0o600); err != nil {
			return err
		}
	}
	if err := d.apply(ctx, "machine.yaml", machineObject); err != nil {
		return err
	}
	if err := d.tellOfMachine(ctx, "systemUUID", system.UUID); err != nil {
		return err
	}
	return m.boot(ctx)
}

// tellOfMachine has the node say something of its machine, which kwok keeps.
func (d *demo) tellOfMachine(ctx context.Context, field, value string) error {
	patch := fmt.Sprintf(`{"status":{"nodeInfo":{%q:%q}}}`, field, value)
	_, err := d.kubectl(ctx, "patch", "node", machineName, "--subresource=status", "--type=merge", "-p", patch)
	return err
}

// bmcURL is where the BMC of the machine answers.
func (d *demo) bmcURL() string {
	if d.machine == nil {
		return ""
	}
	return d.machine.bmc.URL
}

// boot starts what runs on the machine, with another boot ID, if it has power.
func (m *machine) boot(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.on || m.kubelet != nil {
		return nil
	}
	if err := m.demo.tellOfMachine(ctx, "bootID", string(uuid.NewUUID())); err != nil {
		return err
	}
	program, err := cluster.Program("kwok")
	if err != nil {
		return err
	}
	m.kubelet, err = m.demo.launch(machineName, program, "--kubeconfig="+m.demo.cluster.Kubeconfig, "--manage-all-nodes=false", "--manage-single-node="+machineName,
		"--node-ip=127.0.0.1", "--node-lease-duration-seconds=8")
	return err
}

// hang has all that runs on the machine stand still.
func (m *machine) hang() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kubelet.Signal(syscall.SIGSTOP)
}

// HasPower implements redfish.VirtualMachine.
func (m *machine) HasPower() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.on
}

// PowerOff implements redfish.VirtualMachine. It kills what runs.
func (m *machine) PowerOff(context.Context) error {
	m.turn(false)
	return nil
}

// PowerOn implements redfish.VirtualMachine. Whoever is told of it boots the machine.
func (m *machine) PowerOn(context.Context) error {
	m.turn(true)
	return nil
}

func (m *machine) turn(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on = on
	if !on && m.kubelet != nil {
		m.kubelet.Kill()
		m.kubelet = nil
	}
	select {
	case m.switched <- on:
	default: // nobody looks any more
	}
}

// stop ends the BMC, and what runs on the machine.
func (m *machine) stop() error {
	m.bmc.Close()
	m.turn(false)
	return nil
}
