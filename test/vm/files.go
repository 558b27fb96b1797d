package vm

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

var (
	//go:embed guest/init
	initScript string
	//go:embed guest/start
	startScript string
	//go:embed guest/agent
	agentScript string
)

const (
	systemd  = "/usr/lib/systemd/systemd"
	unitDir  = "/usr/lib/systemd/system"
	ownUnits = "/etc/systemd/system"
)

// units are those of this machine that are there inside, too.
func units() []string {
	return []string{
		"basic.target", "final.target", "local-fs-pre.target", "local-fs.target", "multi-user.target", "network.target",
		"network-online.target", "paths.target", "poweroff.target", "reboot.target", "rescue.target", "shutdown.target",
		"sigpwr.target", "slices.target", "sockets.target", "swap.target", "sysinit.target", "time-set.target",
		"time-sync.target", "timers.target", "umount.target",
		"dbus.service", "dbus.socket", "systemd-journald.service", "systemd-journald.socket",
		"systemd-journald-dev-log.socket", "systemd-journal-flush.service", "systemd-poweroff.service",
		"systemd-reboot.service",
	}
}

// dbusFiles are the rules of the system's message bus, for which there are no defaults.
func dbusFiles() []string {
	const dir = "/usr/share/dbus-1/"
	return []string{
		dir + "system.conf", dir + "system.d/org.freedesktop.systemd1.conf",
		dir + "system-services/org.freedesktop.systemd1.service",
	}
}

// etc is what the programs inside need there.
func etc() map[string]string {
	return map[string]string{
		"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nmessagebus:x:100:100::/nonexistent:/bin/false\nnobody:x:65534:65534::/nonexistent:/bin/false\n",
		"/etc/group":  "root:x:0:\nmessagebus:x:100:\nsystemd-journal:x:101:\nnogroup:x:65534:\n",
		// systemd makes one up for a machine that has none, and this is any.
		"/etc/machine-id": "00000000000000000000000000000e2e\n",
		"/etc/hostname":   "node\n",
		"/etc/hosts":      "127.0.0.1 localhost node\n",
		"/etc/os-release": "ID=nodemend-e2e\nPRETTY_NAME=\"a machine for tests\"\n",
		"/etc/fstab":      "",
	}
}

// buildDisk makes the disk of a machine.
func buildDisk(ctx context.Context, options Options, image string) error {
	dir := filepath.Join(options.Dir, "root")
	defer func() { _ = os.RemoveAll(dir) }() // at worst it takes space
	if err := fillDisk(ctx, options, dir); err != nil {
		return fmt.Errorf("collecting the files of the disk: %w", err)
	}
	return disk(ctx, dir, image)
}

func fillDisk(ctx context.Context, options Options, dir string) error {
	t := newTree(dir)
	t.mkdir("/dev", "/proc", "/sys", "/run", "/tmp", "/root", "/var/log/journal", "/var/lib", "/var/tmp")
	t.symlink("/run", "/var/run")
	programs := []string{
		systemd, "/usr/lib/systemd/systemd-journald", "/usr/lib/systemd/systemd-shutdown",
		"/usr/bin/systemctl", "/usr/bin/journalctl", "/usr/bin/busctl", "/usr/bin/systemd-run", "/usr/bin/dbus-daemon", "/usr/bin/flock",
	}
	// Newer ones start units by it.
	if executor := "/usr/lib/systemd/systemd-executor"; exists(executor) {
		programs = append(programs, executor)
	}
	t.do(func() error {
		ipmitool, err := exec.LookPath("ipmitool")
		programs = append(programs, ipmitool)
		return err
	})
	for _, name := range options.Programs {
		t.do(func() error {
			path, err := exec.LookPath(name)
			if err != nil {
				return fmt.Errorf("%w: it needs %s: %w", ErrUnavailable, name, err)
			}
			programs = append(programs, path)
			return nil
		})
	}
	t.programs(ctx, programs...)
	t.busybox(ctx)
	for _, name := range units() {
		t.host(filepath.Join(unitDir, name), filepath.Join(unitDir, name), 0o644)
	}
	for _, path := range dbusFiles() {
		t.host(path, path, 0o644)
	}
	for name, content := range etc() {
		t.write(name, content, 0o644)
	}
	for _, wanted := range []struct{ by, unit string }{
		{"sockets.target", "dbus.socket"},
		{"sockets.target", "systemd-journald.socket"},
		{"sockets.target", "systemd-journald-dev-log.socket"},
		{"sysinit.target", "systemd-journald.service"},
		{"sysinit.target", "systemd-journal-flush.service"},
		{"multi-user.target", "dbus.service"},
	} {
		t.enable(unitDir, wanted.by, wanted.unit)
	}
	t.symlink(filepath.Join(unitDir, "multi-user.target"), filepath.Join(ownUnits, "default.target"))
	t.write("/usr/lib/e2e/start", startScript, 0o755)
	t.write("/usr/lib/e2e/agent", agentScript, 0o755)
	if options.PowerButton {
		t.write("/etc/acpi/PWRF/00000080", "#!/bin/sh\nexec systemctl poweroff\n", 0o755) // where busybox looks for it
		t.write(filepath.Join(ownUnits, "acpid.service"), "[Service]\nExecStart=/bin/acpid -d\n", 0o644)
		t.enable(ownUnits, "multi-user.target", "acpid.service")
	}
	for name, content := range options.Units {
		t.write(filepath.Join(ownUnits, name), content, 0o644)
		t.enable(ownUnits, "multi-user.target", name)
	}
	for name, file := range options.Files {
		if file.From != "" {
			t.host(file.From, name, file.mode())
		} else {
			t.write(name, file.Content, file.mode())
		}
	}
	return t.close()
}

// enable has a unit in a directory started by a target.
func (t *tree) enable(dir, target, unit string) {
	t.symlink(filepath.Join(dir, unit), filepath.Join(ownUnits, target+".wants", unit))
}

// buildInitramfs makes what boots the disk.
func buildInitramfs(ctx context.Context, options Options, k kernel, archive string) error {
	dir := filepath.Join(options.Dir, "boot")
	defer func() { _ = os.RemoveAll(dir) }() // at worst it takes space
	if err := fillInitramfs(dir, k); err != nil {
		return fmt.Errorf("collecting the files of the initramfs: %w", err)
	}
	return cpio(ctx, dir, archive)
}

func fillInitramfs(dir string, k kernel) error {
	t := newTree(dir)
	t.do(func() error {
		busybox, err := exec.LookPath("busybox")
		t.host(busybox, "/bin/busybox", 0o755)
		return err
	})
	t.do(func() error {
		modules, err := os.ReadDir(k.modules())
		for _, module := range modules {
			t.host(filepath.Join(k.modules(), module.Name()), "/modules/"+module.Name(), 0o644)
		}
		return err
	})
	t.write("/init", initScript, 0o755)
	return t.close()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (f File) mode() fs.FileMode {
	if f.Mode == 0 {
		return 0o644
	}
	return f.Mode
}
