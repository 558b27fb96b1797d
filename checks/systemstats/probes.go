package systemstats

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prometheus/procfs"
	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/load"
	"k8s.io/node-problem-detector/pkg/util"
	"k8s.io/node-problem-detector/pkg/util/metrics/system"
)

// probe reads once what a collector reads, in the same way. procPath is where the
// configuration says that procfs is; only some collectors heed it.
type probe func(procPath string) error

// allProbes are the probes by the collector's name in the configuration.
func allProbes() map[string]probe {
	return map[string]probe{
		"cpu":       probeCPU,
		"disk":      probeDisk,
		"host":      probeHost,
		"memory":    probeMemory,
		"net":       probeNet,
		"osFeature": probeOSFeature,
	}
}

func probeCPU(procPath string) error {
	if _, err := load.Avg(); err != nil {
		return fmt.Errorf("load average: %w", err)
	}
	// Without its file this is an empty list, of which NPD takes the first.
	if times, err := cpu.Times(false); err != nil || len(times) == 0 {
		return errors.Join(errors.New("CPU times of procfs can't be read"), err)
	}
	fs, err := procfs.NewFS(procPath)
	if err != nil {
		return err
	}
	_, err = fs.Stat()
	return err
}

func probeDisk(string) error {
	if _, err := disk.Partitions(false); err != nil {
		return fmt.Errorf("partitions: %w", err)
	}
	if _, err := disk.IOCounters(); err != nil {
		return fmt.Errorf("I/O counters: %w", err)
	}
	return nil
}

func probeHost(string) error {
	if _, err := host.KernelVersion(); err != nil {
		return fmt.Errorf("kernel version: %w", err)
	}
	if _, err := util.GetOSVersion(); err != nil {
		return fmt.Errorf("OS version: %w", err)
	}
	if _, err := host.Uptime(); err != nil {
		return fmt.Errorf("uptime: %w", err)
	}
	return nil
}

func probeMemory(string) error {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return err
	}
	_, err = fs.Meminfo()
	return err
}

func probeNet(procPath string) error {
	fs, err := procfs.NewFS(procPath)
	if err != nil {
		return err
	}
	_, err = fs.NetDev()
	return err
}

func probeOSFeature(procPath string) error {
	if _, err := system.CmdlineArgs(filepath.Join(procPath, "cmdline")); err != nil {
		return err
	}
	path := filepath.Join(procPath, "modules")
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	// NPD's parser needs three fields in every line.
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if len(bytes.Fields(lines.Bytes())) < 3 {
			return fmt.Errorf("%s: line %q has less than three fields", path, lines.Text())
		}
	}
	return nil
}
