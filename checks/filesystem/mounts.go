package filesystem

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
)

// kinds are the types of file systems that lie on disks of the node. Those of a network
// hang with their server, and others that have no disk can't fail like this.
func kinds() []string { return []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs"} }

// device numbers a file system, as the kernel does in mountinfo.
type device struct{ major, minor int }

func (d device) String() string { return fmt.Sprintf("%d:%d", d.major, d.minor) }

// fileSystem is one, wherever it is mounted.
type fileSystem struct {
	device
	// kind is its type, such as ext4.
	kind string
	// disk is the kernel's name of what it lies on, such as sda1.
	disk string
	// points are where it is mounted, those of its whole first.
	points []string
	// readOnly is whether it can only be read, though it was mounted to be written.
	readOnly bool
	// shutdown is whether ext4 was told to stop, or did so by itself.
	shutdown bool
	// errors are what ext4 has counted.
	errors ext4Errors
}

// String names it to people.
func (f fileSystem) String() string { return fmt.Sprintf("%s (%s on %s)", f.points[0], f.kind, f.disk) }

// parseMounts returns the file systems of a mountinfo, see proc_pid_mountinfo(5), but for
// those that are mounted below ignored folders only.
//
// The flags of a mount are what the one who mounted it has asked for, those of the file
// system what the kernel made of it. So a file system that is read-only though its first
// mount is not was not meant to be.
func parseMounts(r io.Reader, ignored []string) ([]fileSystem, error) {
	disks := mountinfo.FSTypeFilter(kinds()...)
	infos, err := mountinfo.GetMountsFromReader(r, func(m *mountinfo.Info) (skip, stop bool) {
		if skip, stop = disks(m); !skip {
			skip = slices.ContainsFunc(ignored, func(folder string) bool { return within(m.Mountpoint, folder) })
		}
		return skip, stop
	})
	if err != nil {
		return nil, err
	}
	var all []fileSystem
	for _, m := range infos {
		d := device{m.Major, m.Minor}
		i := slices.IndexFunc(all, func(f fileSystem) bool { return f.device == d })
		if i < 0 {
			of := strings.Split(m.VFSOptions, ",")
			all = append(all, fileSystem{
				device: d, kind: m.FSType, disk: filepath.Base(m.Source),
				// Since Linux 6.16 ext4 does not become read-only after errors: it refuses to write.
				readOnly: slices.Contains(of, "emergency_ro") ||
					slices.Contains(of, "ro") && slices.Contains(strings.Split(m.Options, ","), "rw"),
				shutdown: slices.Contains(of, "shutdown"),
			})
			i = len(all) - 1
		}
		if m.Root == "/" && !slices.Contains(all[i].points, m.Mountpoint) {
			all[i].points = append(all[i].points, m.Mountpoint)
		}
	}
	for i := range all {
		if len(all[i].points) == 0 { // only a part of it is mounted
			at := slices.IndexFunc(infos, func(m *mountinfo.Info) bool { return device{m.Major, m.Minor} == all[i].device })
			all[i].points = []string{infos[at].Mountpoint}
		}
	}
	return all, nil
}

func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// ext4Errors are what ext4 has counted since e2fsck has last looked, and written into the
// file system: they outlive a boot.
type ext4Errors struct {
	count int
	// last is when and in which function of the kernel it found the last one.
	last time.Time
	in   string
}

// readErrors reads what the kernel tells of an ext4, of other kinds nothing. It also sets
// the kernel's name of the disk.
func (f *fileSystem) readErrors(sys string) {
	target, err := os.Readlink(filepath.Join(sys, "dev", "block", f.device.String()))
	if err != nil {
		return // no block device has that number
	}
	f.disk = filepath.Base(target)
	if !strings.HasPrefix(f.kind, "ext") {
		return
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(sys, "fs", "ext4", f.disk, name))
		if err != nil {
			return "" // an ext2 driver, or a kernel without
		}
		return strings.TrimSpace(string(text))
	}
	f.errors.count, _ = strconv.Atoi(cmp.Or(read("errors_count"), "0")) // 0 where it is no number
	if seconds, err := strconv.ParseInt(read("last_error_time"), 10, 64); err == nil && seconds > 0 {
		f.errors.last = time.Unix(seconds, 0).UTC()
	}
	f.errors.in = read("last_error_func")
}
