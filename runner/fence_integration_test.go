//go:build integration

package runner

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/ipmilan"
	"github.com/nodemend/nodemend/test/ipmisim"
)

// counted hands datagrams on to a BMC and back, and counts those that go there.
func counted(t *testing.T, host string, port int) (*atomic.Int32, int) {
	t.Helper()
	front, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(host)})
	must(t, err)
	back, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.ParseIP(host), Port: port})
	must(t, err)
	t.Cleanup(func() { _, _ = front.Close(), back.Close() })
	var count atomic.Int32
	var client atomic.Pointer[net.UDPAddr]
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := front.ReadFromUDP(buf)
			if err != nil {
				return
			}
			count.Add(1)
			client.Store(from)
			_, _ = back.Write(buf[:n]) // it is UDP
		}
	}()
	go func() {
		buf := make([]byte, 2048)
		for {
			n, err := back.Read(buf)
			if err != nil {
				return
			}
			_, _ = front.WriteToUDP(buf[:n], client.Load()) // it is UDP
		}
	}()
	return &count, front.LocalAddr().(*net.UDPAddr).Port
}

func TestARealBMCIsTriedAndNothingIsSwitched(t *testing.T) {
	sim := ipmisim.Start(t)
	host, port := sim.LAN()
	requests, through := counted(t, host, port)
	wrong := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(wrong, []byte("wrong"), 0o600))
	password := sim.PasswordFile()

	f := newFenced(t)
	f.node.Status.NodeInfo.SystemUUID = ipmisim.GUID
	f.worker.Switch = func(*corev1.Node) (power.Switch, error) {
		return ipmilan.New(ipmilan.Options{Host: host, Port: through, User: ipmisim.Operator, Password: power.Secret{File: password}}), nil
	}
	asked := ""
	// The clock is the test's, what the BMC takes is real.
	check := func() corev1.NodeCondition {
		t.Helper()
		f.clock.SetTime(f.clock.Now().Add(10 * time.Minute))
		asked += "x"
		f.ask(asked)
		return f.condition()
	}
	says := func(what string, status corev1.ConditionStatus, reason string) {
		t.Helper()
		if c := check(); c.Status != status || c.Reason != reason || strings.Contains(c.Message, "wrong\n") {
			t.Errorf("%s: %+v", what, c)
		}
	}
	says("it would do", corev1.ConditionTrue, v1alpha1.FenceAnswers)
	t.Logf("a check is %d requests", requests.Load())
	if n := requests.Load(); n < 5 || n > 12 {
		t.Errorf("a check is %d requests: docs/fencing.md has another figure", n)
	}
	password = wrong
	says("another password", corev1.ConditionFalse, v1alpha1.FenceLoginRefused)
	password = sim.PasswordFile()
	says("the password is right again", corev1.ConditionTrue, v1alpha1.FenceAnswers)
	sim.PowerOff()
	says("off, and the node is Ready", corev1.ConditionFalse, v1alpha1.FenceReadsOff)
	sim.PowerOn()
	f.node.Status.NodeInfo.SystemUUID = machineUUID
	says("another machine's", corev1.ConditionFalse, v1alpha1.FenceOtherMachine)
	f.node.Status.NodeInfo.SystemUUID = ipmisim.GUID
	says("the node's own again", corev1.ConditionTrue, v1alpha1.FenceAnswers)
	if n := sim.Shutdowns(); n > 0 {
		t.Errorf("the machine was shut down %d times", n)
	}
}
