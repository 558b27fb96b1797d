package systemlog

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
)

// What the kernel and drivers write, as their sources and public reports have it.
func TestTheRulesOfTheProgramKnowWhatTheKernelWrites(t *testing.T) {
	const event = "" // for people, no condition
	for line, want := range map[string]struct{ condition, reason string }{
		"nvme nvme0: Removing after probe failure status: -19":                                                 {"StorageDeviceFailed", "NVMeRemoved"},
		"nvme nvme3: Disabling device after reset failure: -19":                                                {"StorageDeviceFailed", "NVMeRemoved"},
		"nvme nvme0: I/O 128 QID 2 timeout, reset controller":                                                  {event, "NVMeTimeout"},
		"nvme nvme0: I/O tag 128 (3080) opcode 0x2 (I/O Cmd) QID 2 timeout, aborting req_op:READ(0) size:4096": {event, "NVMeTimeout"},
		"nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10":                         {event, "NVMeReset"},
		"sd 0:0:0:0: Device offlined - not ready after error recovery":                                         {"StorageDeviceFailed", "DiskOffline"},
		"sd 2:0:0:0: [sdb] rejecting I/O to offline device":                                                    {event, "IORejected"},
		"ata3.00: disable device": {"StorageDeviceFailed", "DiskDisabled"},
		"ata3.00: disabled":       {"StorageDeviceFailed", "DiskDisabled"},
		"blk_update_request: I/O error, dev sda, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0": {event, "IOError"},
		"I/O error, dev nvme0n1, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2":              {event, "IOError"},
		"XFS (dm-3): log I/O error -5":                                                                                  {},
		"XFS (dm-3): Filesystem has been shut down due to log error (0x2).":                                             {"FilesystemShutDown", "XFSShutDown"},
		"XFS (sda2): I/O Error Detected. Shutting down filesystem":                                                      {"FilesystemShutDown", "XFSShutDown"},
		"XFS (sda2): Please unmount the filesystem and rectify the problem(s)":                                          {},
		"XFS (sda2): Unmounting Filesystem 6bba92a5-d4f6-4e6a-9d3e-6d6b7ba4fd7c":                                        {},
		"Aborting journal on device sda1-8.":                                                                            {"FilesystemShutDown", "Ext4JournalAborted"},
		"EXT4-fs (sda1): Remounting filesystem read-only":                                                               {"FilesystemShutDown", "Ext4JournalAborted"},
		"EXT4-fs (sda1): re-mounted 3f0c ro. Quota mode: none.":                                                         {},
		"EXT4-fs error (device sda1): ext4_find_entry:1683: inode #2: comm ls: reading directory lblock 0":              {event, "Ext4Error"},
		"BTRFS info (device sdc: state EA): forced readonly":                                                            {"FilesystemShutDown", "BtrfsReadOnly"},
		"watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kworker/3:1:1234]":                                          {"KernelLockup", "SoftLockup"},
		"NMI watchdog: Watchdog detected hard LOCKUP on cpu 5":                                                          {"KernelLockup", "HardLockup"},
		"watchdog: Watchdog detected hard LOCKUP on cpu 5":                                                              {"KernelLockup", "HardLockup"},
		"rcu: INFO: rcu_preempt self-detected stall on CPU":                                                             {event, "RCUStall"},
		"rcu: INFO: rcu_sched detected stalls on CPUs/tasks:":                                                           {event, "RCUStall"},
		"rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 3-... } 21 jiffies s: 5":                     {event, "RCUStall"},
		"Memory failure: 0x12345: recovery action for dirty LRU page: Recovered":                                        {},
		"Memory failure: 0x12345: recovery action for high-order kernel page: Ignored":                                  {"MemoryFailed", "MemoryNotRecovered"},
		"EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1 offset:0x0)":     {"MemoryFailed", "UncorrectableMemoryError"},
		"EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1 offset:0x0)":     {event, "CorrectedMemoryError"},
		"{1}[Hardware Error]: event severity: fatal":                                                                    {"MemoryFailed", "FatalHardwareError"},
		"{1}[Hardware Error]: event severity: corrected":                                                                {},
		"mce: [Hardware Error]: Machine check events logged":                                                            {event, "MachineCheck"},
		"pcieport 0000:00:1c.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0":                    {"PCIeFailed", "PCIeFatalError"},
		"nvme 0000:01:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)":        {"PCIeFailed", "PCIeFatalError"},
		"nvme 0000:01:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)":   {},
		"pcieport 0000:00:1c.0: AER: Corrected error message received from 0000:01:00.0":                                {event, "CorrectedPCIeError"},
		"pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)":                 {event, "CorrectedPCIeError"},
		"INFO: task jbd2/sda1-8:345 blocked for more than 120 seconds.":                                                 {event, "TaskHung"},
		"BUG: kernel NULL pointer dereference, address: 0000000000000008":                                               {event, "KernelOops"},
		"Memory cgroup out of memory: Killed process 4242 (java) total-vm:1kB, anon-rss:1kB, file-rss:0kB":              {event, "OOMKilling"},
		"Out of memory: Killed process 4242 (java) total-vm:1kB, anon-rss:1kB, file-rss:0kB":                            {event, "OOMKilling"},
		"NETDEV WATCHDOG: eth0 (ixgbe): transmit queue 3 timed out":                                                     {event, "TransmitTimeout"},
		"ixgbe 0000:01:00.0 eth0: NETDEV WATCHDOG: CPU: 5: transmit queue 3 timed out 5376 ms":                          {event, "TransmitTimeout"},
		"unregister_netdevice: waiting for eth0 to become free. Usage count = 2":                                        {event, "UnregisterNetDevice"},
		"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.":                  {"GPUFailed", "GPUFellOffTheBus"},
		"NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)":    {"GPUFailed", "NodeRebootRequired"},
		"NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)":      {"GPUFailed", "GPUResetRequired"},
		"NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)":    {event, "Xid"},
		"NVRM: Xid (PCI:0000:b3:00): 119, pid=1234, name=python, Timeout after 6s of waiting for RPC response from GPU": {"GPUFailed", "GPUResetRequired"},
		"NVRM: Xid (PCI:0000:b3:00): 13, pid=1234, name=python, Graphics SM Warp Exception on (GPC 7, TPC 0, SM 0)":     {event, "Xid"},
		// As it was seen on an H200, whose driver asked for nothing then.
		"NVRM: Xid (PCI:0000:00:06): 31, pid=558, name=python3, channel 0x0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_8 faulted @ 0x70000_00000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE": {event, "Xid"},
		"NVRM: Xid (PCI:0000:b3:00): 794, something new":                                                            {event, "Xid"},
		"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Fatal, Link 46 MC TS crumbstore MCTO (First)":            {"GPUFailed", "NVSwitchFatalError"},
		"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)": {event, "SXid"},
		"Linux version 6.12.0 (builder@host) (gcc) #1 SMP PREEMPT_DYNAMIC":                                          {},
		"veth1a2b3c4: renamed from eth0":                                                                            {},
	} {
		var got []string
		for _, name := range Builtins() {
			config, err := Load(BuiltinPrefix + name)
			if err != nil || len(config.Warnings) > 0 {
				t.Fatalf("%s: %v, %q", name, err, config.Warnings)
			}
			m := New(config, Options{Clock: clock.RealClock{}})
			m.buffer.push(&logLine{Message: line})
			for i, rule := range m.config.Rules {
				if _, _, found := m.buffer.match(m.patterns[i]); found {
					if rule.Type == checks.Permanent {
						got = append(got, rule.Condition+" "+rule.Reason)
					} else {
						got = append(got, " "+rule.Reason)
					}
				}
			}
		}
		got = slices.DeleteFunc(got, func(s string) bool { return s == " Xid" && len(got) > 1 }) // each line of the driver is an event, too
		expected := want.condition + " " + want.reason
		if want.reason == "" {
			if got != nil {
				t.Errorf("%s\n\tgot %q, want nothing", line, got)
			}
		} else if !slices.Equal(got, []string{expected}) {
			t.Errorf("%s\n\tgot %q, want %q", line, got, expected)
		}
	}
}

func TestANameThatNoRulesHaveIsNamed(t *testing.T) {
	if _, err := Load("builtin:kernle"); err == nil || !strings.Contains(err.Error(), `"kernle"; there are gpu and kernel`) {
		t.Errorf("got %v", err)
	}
}
