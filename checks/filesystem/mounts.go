package filesystem

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
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
	// readOnly is whether it can only be read, though it was mounted to be written. toBeRead is
	// whether its first mount is one to be read only: an image is full on purpose.
	readOnly, toBeRead bool
	// refuses is whether ext4 itself says that it refuses to write after an error.
	refuses bool
	// shutdown is whether ext4 was told to stop, or did so by itself.
	shutdown bool
	// errors are what ext4 has counted.
	errors ext4Errors
}

// mayRefuse is whether ext4 may let nobody write any more after an error that it has counted: not
// all kernels say so in its options, such as 6.1.192.
func (f fileSystem) mayRefuse() bool {
	return f.errors.count > 0 && !f.readOnly && !f.toBeRead && !f.shutdown
}

// String names it to people.
func (f fileSystem) String() string { return fmt.Sprintf("%s (%s on %s)", f.points[0], f.kind, f.disk) }

// podVolume is where a kubelet mounts what belongs to pods, whatever its root directory is, and
// wherever that directory is seen once more.
var podVolume = regexp.MustCompile(`/pods/[^/]+/(volumes|volume-subpaths|volumeDevices)/|/plugins/kubernetes\.io/`)

// parseMounts returns the file systems of a mountinfo, see proc_pid_mountinfo(5), but for
// those that are mounted below ignored folders only, or as volumes of pods.
//
// The flags of a mount are what the one who mounted it has asked for, those of the file
// system what the kernel made of it. So a file system that is read-only though its first
// mount is not was not meant to be.
func parseMounts(r io.Reader, ignored []string) ([]fileSystem, error) {
	disks := mountinfo.FSTypeFilter(kinds()...)
	infos, err := mountinfo.GetMountsFromReader(r, func(m *mountinfo.Info) (skip, stop bool) {
		if skip, stop = disks(m); !skip {
			skip = podVolume.MatchString(m.Mountpoint) || slices.ContainsFunc(ignored, func(folder string) bool { return within(m.Mountpoint, folder) })
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
			of, asked := strings.Split(m.VFSOptions, ","), strings.Split(m.Options, ",")
			// Since Linux 6.16 ext4 does not become read-only after errors: it refuses to write.
			refuses := slices.Contains(of, "emergency_ro")
			all = append(all, fileSystem{
				device: d, kind: m.FSType, disk: filepath.Base(m.Source),
				readOnly: refuses || slices.Contains(of, "ro") && slices.Contains(asked, "rw"),
				toBeRead: slices.Contains(asked, "ro"),
				refuses:  refuses,
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

// readErrors reads what the kernel tells of an ext4, of other kinds nothing, and corrects by
// that who has made it read-only. It also sets the kernel's name of the disk.
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
	if count, err := strconv.Atoi(read("errors_count")); err == nil {
		f.errors.count = count
		// The kernel counts an error before it lets nobody write: people have remounted this.
		f.readOnly = f.readOnly && (f.refuses || count > 0)
	}
	if seconds, err := strconv.ParseInt(read("last_error_time"), 10, 64); err == nil && seconds > 0 {
		f.errors.last = time.Unix(seconds, 0).UTC()
	}
	f.errors.in = read("last_error_func")
}
