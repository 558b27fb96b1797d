//go:build e2e

package machine

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// drivesCheck runs the check of the drives, and no other, faster than it is by default.
const drivesCheck = `  only: [drives]
  drives: {interval: 3s, timeout: 20s, healthInterval: 3s, failureThreshold: 2, successThreshold: 2, startupGrace: 0s}
`

const drivesCondition = "DrivesUnhealthy"

// nothing stores nothing, for a drive of this name.
func nothing(name string) []string {
	return []string{"-blockdev", "driver=null-co,node-name=" + name + "-blocks,size=67108864,read-zeroes=on"}
}

// drives are two of NVMe, and one of SATA.
func drives() (all []string) {
	for _, name := range []string{"one", "two"} {
		all = append(append(all, nothing(name)...), "-device", fmt.Sprintf("nvme,id=%s,serial=%[1]s,drive=%[1]s-blocks", name))
	}
	return append(append(all, nothing("three")...), "-device", "ahci,id=ahci", "-device", "ide-hd,bus=ahci.0,serial=three,drive=three-blocks")
}

// drivesAre waits until the check of the drives says this, with these words.
func (n *node) drivesAre(status corev1.ConditionStatus, reason string, words ...string) corev1.NodeCondition {
	n.Helper()
	return n.says(drivesCondition, status, reason, words...)
}

// makeArray makes one of two loop devices, as md.rst of Linux has it, without mdadm.
const makeArray = `set -e
for i in 0 1; do truncate -s 16M /run/disk$i; losetup /dev/loop$i /run/disk$i; done
echo md9 >/sys/module/md_mod/parameters/new_array
cd /sys/block/md9/md
echo none >metadata_version
echo raid1 >level
echo 2 >raid_disks
echo 8192 >component_size
for i in 0 1; do cat /sys/block/loop$i/dev >new_dev; echo $i >dev-loop$i/slot; done
echo active >array_state`

func TestDrivesAndArraysThatFailAreSeenHoldAndClear(t *testing.T) {
	s := begin(t)
	n := s.start("drives", options{
		checks: drivesCheck, devices: drives(), modules: []string{"nvme", "ahci", "sd_mod", "scsi_debug", "loop", "raid1"},
	})
	n.run(makeArray)
	well := func() {
		n.Helper()
		n.drivesAre(corev1.ConditionFalse, "DrivesAreHealthy", "nvme0n1", "nvme1n1", "sda", "sdb", "md9 (raid1)")
	}
	well()

	set := func(drive string, warning int) {
		n.Helper()
		n.Must(n.machine.Set(n.Ctx, drive, "smart_critical_warning", warning))
	}
	set("one", 1<<3)
	set("two", 1<<0)
	n.holds(n.drivesAre(corev1.ConditionTrue, "DriveReadOnly", "it lets nobody write any more; ", "spare "))
	n.Proved("two drives of NVMe whose health logs warn are named, also over a restart of the detector: %s", n.Condition(drivesCondition).Message)

	n.run("echo 1 >$(readlink -f /sys/class/nvme/nvme0/device)/remove; until [ ! -e /sys/class/nvme/nvme0 ]; do sleep 0.1; done")
	n.holds(n.drivesAre(corev1.ConditionTrue, "DriveMissing", "is gone"))
	n.Proved("a drive that was not well and was pulled is missed: %s", n.Condition(drivesCondition).Message)
	set("one", 0)
	set("two", 0)
	n.run("echo 1 >/sys/bus/pci/rescan")
	well()
	n.Proved("drives that are back and warn no more are well")

	n.run("echo faulty >/sys/block/md9/md/dev-loop1/state")
	n.holds(n.drivesAre(corev1.ConditionTrue, "ArrayDegraded", "md9 (raid1): 1 of 2 disks is missing, loop1 has failed"))
	n.Proved("an array that has lost a disk is seen: %s", n.Condition(drivesCondition).Message)
	n.run(`set -e
cd /sys/block/md9/md
until echo remove >dev-loop1/state; do sleep 0.1; done
cat /sys/block/loop1/dev >new_dev
echo 1 >dev-loop1/slot || true # it may be used as a spare already
echo recover >sync_action || true`)
	well()

	debug := n.run("for d in sda sdb; do grep -qx 'scsi_debug *' /sys/block/$d/device/model && echo $d; done")
	n.run("echo offline >/sys/block/" + debug + "/device/state")
	n.holds(n.drivesAre(corev1.ConditionTrue, "DriveFailed", debug+": the kernel has given it up (offline)"))
	n.run("echo running >/sys/block/" + debug + "/device/state")
	well()
	n.Proved("a disk of SCSI that the kernel has given up is seen, until it can be used again")

	// It can't read ten sectors from 0x1234 on.
	n.run(`echo 2 >/sys/bus/pseudo/drivers/scsi_debug/opts
systemd-run --unit=reads sh -c 'while :; do dd if=/dev/` + debug + ` of=/dev/null bs=512 skip=4656 count=16 conv=noerror; done'`)
	n.holds(n.drivesAre(corev1.ConditionTrue, "IOErrors", debug+": ", " requests have failed"))
	n.Proved("a disk that fails requests is seen: %s", n.Condition(drivesCondition).Message)
	n.run("systemctl stop reads.service; echo 0 >/sys/bus/pseudo/drivers/scsi_debug/opts")
	well()
}
