//go:build e2e

package machine

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/ipmisim"
	"github.com/nodemend/nodemend/test/vm"
)

// How long the detector watches a healthy machine, and where all that it has said is kept.
var (
	quietFor = flag.Duration("quiet", time.Minute, "for how long the detector watches a healthy machine")
	quietOut = flag.String("quiet.out", "", "the directory that keeps what it has said; empty: none")
)

// quietChecks has the checks run as they do by default, of what a machine has and a node in
// namespaces has not: drives, an array, a BMC, network cards and, played, EDAC. Nobody corrects its
// clock, and kubelet, runtime and Services are looked at where they are real.
const quietChecks = `  only: [hardware, filesystem, exhaustion, tasks, clock, network, drives, memory]
  tasks: {enabled: true}
  clock: {maxError: 0s}
`

func quietConditions() []corev1.NodeConditionType {
	return []corev1.NodeConditionType{
		"HardwareFailure", "FilesystemUnhealthy", "ResourcesExhausted", "TasksBlocked", "ClockUnhealthy", "NetworkUnhealthy",
		drivesCondition, "MemoryUnhealthy", "StorageDeviceFailed", "FilesystemShutDown", "KernelLockup", "MemoryFailed", "PCIeFailed", "GPUFailed",
	}
}

// work keeps a disk, a network card and processes busy.
const work = `systemd-run --quiet --unit=work sh -c 'while :; do
	dd if=/dev/zero of=/var/lib/work bs=64k count=64 conv=fsync
	dd if=/dev/nvme0n1 of=/dev/null bs=64k count=64
	dd if=/dev/md9 of=/dev/null bs=64k count=64
	sleep 5
done 2>/dev/null'`

// With -quiet=1h it is long enough to say something; the short run shows that all this works.
func TestAHealthyMachineHasNoFalseAlarm(t *testing.T) {
	s := begin(t)
	n := s.start("quiet", options{
		checks:  quietChecks,
		flags:   []string{"--config.system-log-monitor=builtin:kernel,builtin:gpu"},
		bmc:     ipmisim.Start(t),
		devices: append(drives(), cards("second")...),
		modules: []string{"nvme", "ahci", "sd_mod", "loop", "raid1"},
		units:   map[string]string{"edac.service": edacUnit},
		files:   map[string]vm.File{"/usr/lib/e2e/edac": {Content: edac, Mode: 0o755}},
	})
	n.run(makeArray + "\nip link set eth1 up\nsystemctl restart nodemend-detector.service")
	n.run(work)
	dir := *quietOut
	if dir == "" {
		dir = t.TempDir()
	}
	log, err := os.Create(filepath.Join(dir, "machine.tsv"))
	n.Must(err)
	defer func() { _ = log.Close() }() // at worst it is not kept
	api, err := kubernetes.NewForConfig(s.plane.cluster.Config)
	n.Must(err)
	n.Until(round, "all conditions are False", func() (bool, string) {
		object := n.Object()
		var ill []string
		for _, conditionType := range quietConditions() {
			if c := story.Condition(object, conditionType); c.Status != corev1.ConditionFalse {
				ill = append(ill, story.Describe(c))
			}
		}
		return len(ill) == 0, strings.Join(ill, ", ")
	})
	listener := story.Listen(n.Ctx, api, n.name, log)
	began := time.Now()
	for _, restart := range []string{"systemctl restart nodemend-detector.service", "systemctl kill --signal=KILL nodemend-detector.service"} {
		n.rests(*quietFor / 3)
		listener.Note("restart", restart)
		n.run(restart)
	}
	n.rests(*quietFor / 3)
	n.Must(listener.Stop())
	alarms, changes := listener.FalseAlarms(quietConditions())
	for _, alarm := range alarms {
		n.Error(alarm)
	}
	n.Proved("%d conditions of a healthy machine for %s, with a restart and a kill of the detector: %d changes of a status", len(quietConditions()), time.Since(began).Round(time.Second), changes)
}

// rests lets time pass.
func (n *node) rests(d time.Duration) {
	n.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.Ctx.Done():
	}
}
