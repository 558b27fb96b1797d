//go:build e2e

package machine

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/test/vm"
)

// faultChecks runs the checks of what a kernel does, faster than they are by default. Nobody
// corrects the clock of a machine.
const faultChecks = `  only: [filesystem, exhaustion, tasks, clock, network, memory, services]
  filesystem: {interval: 3s, timeout: 20s, startupGrace: 0s, write: [/mnt/flaky]}
  exhaustion: {interval: 3s, timeout: 20s, failureThreshold: 2, successThreshold: 2, startupGrace: 0s, programs: [hoarder]}
  tasks: {enabled: true, interval: 3s, timeout: 20s, maxBlocked: 6s, failureThreshold: 2, startupGrace: 0s}
  clock: {interval: 3s, failureThreshold: 2, startupGrace: 0s, maxError: 0s}
  network: {interval: 3s, timeout: 20s, failureThreshold: 2, successThreshold: 2, startupGrace: 0s, flapWindow: 5s}
  memory: {interval: 3s, timeout: 20s, maxOffline: 1}
  services: {enabled: true, interval: 3s, failureThreshold: 2, startupGrace: 0s, kubeProxyRequired: true, dns: false}
`

// edac plays a driver of a memory controller with a module: a machine has none.
const edac = `#!/bin/sh -e
mount -t tmpfs tmpfs /sys/devices/system/edac/mc
mkdir -p /sys/devices/system/edac/mc/mc0/dimm0
cd /sys/devices/system/edac/mc/mc0
for counter in ce_noinfo_count ue_noinfo_count seconds_since_reset dimm0/dimm_ce_count dimm0/dimm_ue_count; do echo 0 >$counter; done
echo DIMM_A1 >dimm0/dimm_label
`

const edacUnit = `[Unit]
Before=nodemend-detector.service
[Service]
Type=oneshot
RemainAfterExit=true
ExecStart=/usr/lib/e2e/edac
`

// hoarder uses all files that it may have open, and all tasks that its unit may have.
const (
	hoarder = `#!/bin/sh
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do sleep 10000 & done
exec 3</dev/null 4</dev/null 5</dev/null 6</dev/null 7</dev/null 8</dev/null 9</dev/null
wait
`
	hoarderUnit = "[Service]\nExecStart=/usr/lib/e2e/hoarder\nTasksMax=20\nLimitNOFILE=11\n"
)

// crowd is as many processes as nearly fill what the kernel is told to have at most.
const (
	crowd = `#!/bin/sh
for i in $(seq $((375 - $(cut -d/ -f2 /proc/loadavg | cut -d" " -f1)))); do sleep 10000 & done
wait
`
	crowdUnit = "[Service]\nExecStart=/usr/lib/e2e/crowd\n"
)

// greedy takes more and more memory.
const greedy = "#!/bin/sh\nall=$(tr '\\0' x </dev/zero)\n"

// proxyUnit plays kube-proxy's health.
const proxyUnit = "[Service]\nExecStart=/bin/busybox httpd -f -p 127.0.0.1:10256 -h /usr/lib/e2e/kube-proxy\n"

// cards are network cards besides that of every machine, which is eth0.
func cards(names ...string) (all []string) {
	for _, name := range names {
		all = append(all, "-netdev", "user,ipv6=off,restrict=on,id="+name+"-net", "-device", "virtio-net-pci,romfile=,netdev="+name+"-net,id="+name)
	}
	return all
}

// mapped has what scripts do with disks that the device mapper lets fail.
const mapped = `set -e
table() { # NAME TARGET…
	name=$1; shift
	dmsetup suspend --noflush --nolockfs $name
	dmsetup load $name --table "0 65536 $*"
	dmsetup resume $name
}
mounted() {
	mount -t ext4 -o errors=remount-ro /dev/mapper/error /mnt/error
	mount -t ext4 -o errors=continue /dev/mapper/flaky /mnt/flaky
}
`

// prepare makes what fails later, and restarts the detector, which looks for some of it at its
// start only.
const prepare = mapped + `
echo on >/proc/sys/kernel/printk_devkmsg
mkdir -p /mnt/error /mnt/flaky
loop=0
for name in error flaky hung; do
	truncate -s 32M /run/disk-$name
	losetup /dev/loop$loop /run/disk-$name
	dmsetup create $name --table "0 65536 linear /dev/loop$loop 0"
	loop=$((loop + 1))
done
dmsetup mknodes
mkfs.ext4 -q /dev/mapper/error
mkfs.ext4 -q -O ^has_journal /dev/mapper/flaky
mounted

ip link set eth1 up
[ -e /sys/class/net/bond0 ] || echo +bond0 >/sys/class/net/bonding_masters
cd /sys/class/net/bond0/bonding
echo active-backup >mode
echo 100 >miimon
ip link set bond0 up
echo +eth2 >slaves
echo +eth3 >slaves

systemctl restart nodemend-detector.service
`

// fault is one that a check sees.
type fault struct {
	condition corev1.NodeConditionType
	reason    string
	words     []string
	// begins is nil if another fault brings this one, ends if only a boot ends it.
	begins, ends func(*node)
}

// script is what runs in the machine.
func script(text string) func(*node) {
	return func(n *node) {
		n.Helper()
		n.run(text)
	}
}

// links pulls or puts back cables.
func links(up bool, cards ...string) func(*node) {
	return func(n *node) {
		n.Helper()
		for _, card := range cards {
			n.Must(n.machine.SetLinkOf(n.Ctx, card, up))
		}
	}
}

// logged has the kernel's log say something.
func logged(line string) func(*node) { return script("echo '<3>" + line + "' >/dev/kmsg") }

// faults are made in this order.
func faults() []fault {
	return []fault{
		{
			"TasksBlocked", "TasksBlocked", []string{"dd (process "},
			script(`dmsetup suspend --noflush --nolockfs hung
for i in 1 2 3 4 5; do systemd-run --quiet --unit=waits$i dd if=/dev/mapper/hung of=/dev/null bs=512 count=1; done`),
			script("dmsetup resume hung"),
		},
		{
			"FilesystemUnhealthy", "FilesystemReadOnly", []string{
				"/mnt/error (ext4 on dm-0): the kernel lets nobody write any more; ext4 has counted ", "/mnt/flaky: a block could not be written: ",
			},
			script(mapped + `
table error error
table flaky flakey /dev/loop1 0 0 3600 1 error_writes
touch /mnt/error/file || true
sync # which breaks the journal, as the next change finds
touch /mnt/error/file || true`),
			script(mapped + `
for name in error flaky; do
	until umount /mnt/$name; do sleep 0.1; done # the check has a file open for a moment
done
table error linear /dev/loop0 0
table flaky linear /dev/loop1 0
for name in error flaky; do
	e2fsck -fy /dev/mapper/$name || [ $? = 1 ] # it has mended something
done
mounted`),
		},
		{"FilesystemShutDown", "Ext4JournalAborted", []string{"dm-0"}, nil, nil}, // by the disk above
		{
			"NetworkUnhealthy", "CarrierLost", []string{"eth1: no carrier", "bond0: member eth3 has no carrier"},
			links(false, "second", "fourth"), links(true, "second", "fourth"),
		},
		{
			"ServiceNetworkUnhealthy", "KubeProxyGone", []string{"nobody listens at http://127.0.0.1:10256", "ptp"},
			script("systemctl stop kube-proxy.service; mv /opt/cni/bin/ptp /root"),
			script("systemctl start kube-proxy.service; mv /root/ptp /opt/cni/bin"),
		},
		{
			// A page of the kernel's own code, which it can't do without.
			"MemoryUnhealthy", "UncorrectedErrors", []string{"DIMM_A1 (mc0 dimm0): uncorrected errors since the node booted: 1", "pages out of use for errors: 1"},
			script(`mount -t debugfs debugfs /sys/kernel/debug
echo 0x1000 >/sys/kernel/debug/hwpoison/corrupt-pfn || true # what can't be done is told as an error
echo 1 >/sys/devices/system/edac/mc/mc0/dimm0/dimm_ue_count`), nil,
		},
		{"MemoryFailed", "MemoryNotRecovered", []string{"Memory failure: 0x1000: recovery action for "}, nil, nil}, // of that page
		{
			"StorageDeviceFailed", "NVMeRemoved", []string{"nvme nvme3"},
			logged("nvme nvme3: Disabling device after reset failure: -19"), nil,
		},
		{
			"KernelLockup", "SoftLockup", []string{"CPU#3"},
			logged("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kworker/3:1:1234]"), nil,
		},
		{
			"PCIeFailed", "PCIeFatalError", []string{"0000:00:1c.0"},
			logged("pcieport 0000:00:1c.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0"), nil,
		},
		{
			"GPUFailed", "GPUFellOffTheBus", []string{"GPU has fallen off the bus"},
			logged("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."), nil,
		},
		{
			"ResourcesExhausted", "ProcessesExhausted", []string{
				"(kernel.threads-max)", "(fs.file-max)", "hoarder.service: 19 of 20 tasks", "open files (LimitNOFILE of its unit)", "fs.inotify.max_user_instances",
			},
			script(`set -e
cd /proc/sys
cat fs/file-max >/run/file-max
cat fs/inotify/max_user_instances >/run/max_user_instances
cat kernel/threads-max >/run/threads-max
systemctl start hoarder.service crowd.service
until [ $(cut -d/ -f2 /proc/loadavg | cut -d" " -f1) -ge 370 ]; do sleep 0.1; done
echo 401 >kernel/threads-max
echo $(($(cut -f1 fs/file-nr) + 50)) >fs/file-max
echo 0 >fs/inotify/max_user_instances`),
			script(`cd /proc/sys
cat /run/file-max >fs/file-max
cat /run/max_user_instances >fs/inotify/max_user_instances
cat /run/threads-max >kernel/threads-max
systemctl stop hoarder.service crowd.service`),
		},
		{
			"ClockUnhealthy", "ClockOff", []string{"ahead of the API server's"},
			script("date -s @$(($(date +%s) + 600))"), script("date -s @$(($(date +%s) - 600))"),
		},
	}
}

func TestTheFaultsThatAKernelShowsAreSeenHoldAndClear(t *testing.T) {
	s := begin(t)
	n := s.start("faults", options{
		checks:   faultChecks,
		flags:    []string{"--config.system-log-monitor=builtin:kernel,builtin:gpu"},
		devices:  cards("second", "third", "fourth"),
		modules:  []string{"dm_mod", "dm_flakey", "loop", "bonding", "hwpoison_inject", "sch_ingress", "cls_flower", "act_ct"},
		programs: []string{"dmsetup", "mkfs.ext4", "e2fsck", "tc", "bash"},
		units:    map[string]string{"edac.service": edacUnit, "kube-proxy.service": proxyUnit},
		files: map[string]vm.File{
			"/usr/lib/e2e/edac":                   {Content: edac, Mode: 0o755},
			"/usr/lib/e2e/hoarder":                {Content: hoarder, Mode: 0o755},
			"/usr/lib/e2e/crowd":                  {Content: crowd, Mode: 0o755},
			"/usr/lib/e2e/greedy":                 {Content: greedy, Mode: 0o755},
			"/etc/systemd/system/hoarder.service": {Content: hoarderUnit},
			"/etc/systemd/system/crowd.service":   {Content: crowdUnit},
			"/usr/lib/e2e/kube-proxy/livez":       {Content: "ok\n"},
			"/opt/cni/bin/ptp":                    {Content: "#!/bin/sh\n", Mode: 0o755},
			"/etc/cni/net.d/10-pods.conflist":     {Content: `{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp"}]}`},
		},
	})
	n.run(prepare)
	prepared := n.Condition("NetworkUnhealthy").LastHeartbeatTime.Time
	for _, f := range faults() {
		n.Until(round, fmt.Sprintf("%s is False", f.condition), n.Confirms(f.condition, corev1.ConditionFalse, prepared))
	}

	n.killedForMemory()
	n.connected()

	for _, f := range faults() {
		if f.begins != nil {
			f.begins(n)
		}
	}
	found := map[corev1.NodeConditionType]corev1.NodeCondition{}
	var held []corev1.NodeCondition
	for _, f := range faults() {
		c := n.says(f.condition, corev1.ConditionTrue, f.reason, f.words...)
		found[f.condition] = c
		held = append(held, c)
	}
	n.holds(held...)
	for _, c := range held {
		n.Proved("seen, and held through a restart of the detector: %s: %s: %s", c.Type, c.Reason, c.Message)
	}

	for _, f := range faults() {
		if f.ends != nil {
			f.ends(n)
		}
	}
	for _, f := range faults() {
		if f.ends != nil {
			n.Until(round, fmt.Sprintf("%s is over", f.condition), n.Is(f.condition, corev1.ConditionFalse))
			n.Proved("over when it was mended: %s", f.condition)
		}
	}
	for _, f := range faults() {
		since := found[f.condition].LastTransitionTime
		if now := n.Condition(f.condition); f.ends == nil && !now.LastTransitionTime.Equal(&since) {
			n.Errorf("%s was to stay until a boot, and is: %+v", f.condition, now)
		}
	}
	n.run("sync")
	n.Must(n.machine.Reset(n.Ctx))
	n.boots(2)
	for _, f := range faults() {
		if f.ends == nil {
			n.Until(round, fmt.Sprintf("%s is over", f.condition), n.Is(f.condition, corev1.ConditionFalse))
			n.Proved("over since the machine has booted: %s", f.condition)
		}
	}
}

// connect has the kernel follow the connections of UDP over the loopback interface, and no others,
// and makes more of them than it may.
const connect = `set -e
/usr/sbin/tc qdisc add dev lo clsact # busybox has another one
/usr/sbin/tc filter add dev lo egress protocol ip flower ip_proto udp action ct commit
cd /proc/sys/net/netfilter
cat nf_conntrack_max >/run/nf_conntrack_max
echo 3600 >nf_conntrack_udp_timeout
echo 20 >nf_conntrack_max
bash -c 'for ((port = 20001; port < 20041; port++)); do echo hello >/dev/udp/127.0.0.1/$port || true; done'`

// connected has the table of connections fill. That is the least of what runs out: beside the other
// faults no message would name it.
func (n *node) connected() {
	n.Helper()
	const condition = "ResourcesExhausted"
	n.run(connect)
	c := n.says(condition, corev1.ConditionTrue, "ConntrackExhausted", " of 20 connections (net.netfilter.nf_conntrack_max)")
	n.holds(c)
	n.Proved("seen, and held through a restart of the detector: %s: %s: %s", c.Type, c.Reason, c.Message)
	n.run("cat /run/nf_conntrack_max >/proc/sys/net/netfilter/nf_conntrack_max")
	n.says(condition, corev1.ConditionFalse, "ResourcesAvailable")
	n.Proved("over when it was mended: ConntrackExhausted")
}

// killedForMemory has the kernel kill a process, of which an event tells.
func (n *node) killedForMemory() {
	n.Helper()
	n.run("systemd-run --quiet --unit=greedy --property=MemoryMax=16M /usr/lib/e2e/greedy")
	n.Until(round, "an event tells of the process that the kernel has killed", func() (bool, string) {
		var list corev1.EventList
		err := n.plane.List(n.Ctx, &list, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"involvedObject.name": n.name, "reason": "OOMKilling"})
		if err != nil || len(list.Items) == 0 {
			return false, fmt.Sprint(err)
		}
		n.Proved("an event of what the kernel logs: %s", list.Items[0].Message)
		return true, ""
	})
}
