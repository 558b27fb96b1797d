package drives

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nodemend/nodemend/checks"
)

// language is that in which a drive is asked how it is.
type language int

const (
	nvme language = iota
	ata
	scsi
)

// drive is a drive of the node, as the kernel tells of it.
type drive struct {
	// name is that of what it stores on, such as sda and nvme0n1, or of itself, such as nvme0.
	name string
	// device is the name in /dev of what can be asked.
	device   string
	language language
	// id tells it from all other drives.
	id string
	// place is where it is plugged.
	place string
	// state is what the kernel thinks of it: live and running are well.
	state string
	// asleep is whether the kernel has put it to sleep.
	asleep bool
	io     requests
}

// requests are those that were made of a drive since the node booted. Only for SCSI they are
// counted.
type requests struct{ done, failed uint64 }

// well are those that have not failed.
func (r requests) well() uint64 { return r.done - min(r.failed, r.done) }

// inventory is what one look at sysfs has seen.
type inventory struct {
	drives []drive
	arrays []array
	err    error
}

// sys is where sysfs is mounted.
type sys string

func (s sys) of(name ...string) string { return filepath.Join(slices.Insert(name, 0, string(s))...) }

// text returns what a file holds; empty if there is none, or it does not tell.
func (s sys) text(name ...string) string {
	data, err := os.ReadFile(s.of(name...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.Trim(string(data), "\x00"))
}

// list returns the names of a folder that begin with a prefix; none if there is no folder.
func (s sys) list(prefix string, folder ...string) ([]string, error) {
	entries, err := os.ReadDir(s.of(folder...))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// look returns all drives and arrays that are looked at.
func (s sys) look(exclude []string) (all inventory) {
	controllers, errNVMe := s.list("nvme", "class", "nvme")
	for _, name := range controllers {
		all.drives = append(all.drives, s.nvme(name)...)
	}
	disks, errBlock := s.list("", "block")
	for _, name := range disks {
		switch {
		case strings.HasPrefix(name, "sd"):
			all.drives = append(all.drives, s.scsi(name)...)
		case strings.HasPrefix(name, "md"):
			all.arrays = append(all.arrays, s.array(name)...)
		}
	}
	all.drives = slices.DeleteFunc(all.drives, func(d drive) bool {
		return checks.Matches(exclude, d.name) || checks.Matches(exclude, d.device) || checks.Matches(exclude, d.id)
	})
	all.arrays = slices.DeleteFunc(all.arrays, func(a array) bool { return checks.Matches(exclude, a.name) })
	tellApart(all.drives)
	all.err = errors.Join(errNVMe, errBlock)
	return all
}

// tellApart gives each way to a drive that has several an id of its own.
func tellApart(drives []drive) {
	seen := map[string]bool{}
	for i := range drives {
		d := &drives[i]
		if seen[d.id] {
			d.id += " at " + cmp.Or(d.place, d.name)
		}
		seen[d.id] = true
	}
}

// namespace is the name of a block device of an NVMe controller, or of a way to it.
var namespace = regexp.MustCompile(`^nvme(\d+)(c\d+)?n\d+$`)

// volume is what the model of a drive of NVMe says which is a volume in the network, of
// Amazon's, Google's, Microsoft's and Alibaba's clouds.
var volume = regexp.MustCompile(`^(Amazon Elastic Block Store|nvme_card-pd|MSFT NVMe Accelerator|Alibaba Cloud Elastic Block Storage)`)

// way is the part of a name that tells one of several ways to a namespace.
var way = regexp.MustCompile(`c\d+`)

// nvme returns a controller, unless its drives are somewhere in the network.
func (s sys) nvme(name string) []drive {
	model := s.text("class", "nvme", name, "model")
	if transport := s.text("class", "nvme", name, "transport"); transport != "" && transport != "pcie" || volume.MatchString(model) {
		return nil
	}
	state := s.text("class", "nvme", name, "state")
	if state == "" || strings.HasPrefix(state, "deleting") { // it has gone meanwhile
		return nil
	}
	d := drive{
		name: name, device: name, language: nvme, state: state, place: s.text("class", "nvme", name, "address"),
		id: model + " " + s.text("class", "nvme", name, "serial"),
	}
	spaces, err := s.list("nvme", "class", "nvme", name)
	spaces = slices.DeleteFunc(spaces, func(n string) bool { return !namespace.MatchString(n) })
	if err == nil && len(spaces) == 1 {
		// nvme0c0n1 is a way to nvme0n1, which several controllers may share.
		d.name = way.ReplaceAllString(spaces[0], "")
	}
	return []drive{d}
}

var (
	// elsewhere is in the path of a disk that is not the node's own: iSCSI, Fibre Channel, USB, a
	// hypervisor's.
	elsewhere = regexp.MustCompile(`/(session\d+|rport-[\d:-]+|usb\d+|virtio\d+)/`)
	// numbered are the numbers of SCSI hosts, which another boot may give to others.
	numbered = regexp.MustCompile(`/(host|port-|expander-|end_device-|target)\d+`)
	address  = regexp.MustCompile(`/\d+(:\d+:\d+:\d+)$`)
)

// virtual is what the vendor of a disk says which is a hypervisor's, and not of virtio.
var virtual = regexp.MustCompile(`^(Msft|Google|VMware|QEMU)$`)

// scsi returns a disk that is spoken to as to one of SCSI (SATA is, too), unless it is
// somewhere else, or may be taken out.
func (s sys) scsi(name string) []drive {
	place, err := filepath.EvalSymlinks(s.of("block", name, "device"))
	if err != nil || elsewhere.MatchString(place) || s.text("block", name, "removable") == "1" {
		return nil
	}
	state := s.text("block", name, "device", "state")
	if state == "cancel" || state == "deleted" {
		return nil
	}
	d := drive{
		name: name, device: name, language: scsi, state: state,
		id:     cmp.Or(s.text("block", name, "device", "wwid"), s.serial(name), name),
		place:  s.placeOf(strings.TrimPrefix(place, string(s))),
		asleep: s.text("block", name, "device", "power", "runtime_status") == "suspended",
		io:     requests{done: s.hex("block", name, "device", "iodone_cnt"), failed: s.hex("block", name, "device", "ioerr_cnt")},
	}
	switch vendor := s.text("block", name, "device", "vendor"); {
	case virtual.MatchString(vendor):
		return nil
	case vendor == "ATA":
		d.language = ata
	}
	return []drive{d}
}

// bySAS is the path of a disk of SAS: that of its controller, and the name of its end.
var bySAS = regexp.MustCompile(`^(.*?)/host\d+/.*/(end_device-[\d:]+)/`)

// placeOf is the path of a device without what another boot may change. SAS numbers its devices
// one after the other, as they come: a disk is in a bay, if its controller tells that, or else
// somewhere at this controller.
func (s sys) placeOf(device string) string {
	if sas := bySAS.FindStringSubmatch(device); sas != nil {
		of := func(file string) string { return s.text("class", "sas_device", sas[2], file) }
		if bay := of("bay_identifier"); bay != "" {
			return fmt.Sprintf("%s, enclosure %s, bay %s", sas[1], of("enclosure_identifier"), bay)
		}
		return sas[1]
	}
	return address.ReplaceAllString(numbered.ReplaceAllString(device, "/$1"), "/$1")
}

// serial is the number of a disk as SCSI has it (SPC-4, vital product data 80h).
func (s sys) serial(name string) string {
	const header = 4
	data, err := os.ReadFile(s.of("block", name, "device", "vpd_pg80"))
	if err != nil || len(data) <= header {
		return ""
	}
	return strings.TrimSpace(string(data[header:]))
}

func (s sys) hex(name ...string) uint64 {
	n, err := strconv.ParseUint(s.text(name...), 0, 64)
	if err != nil {
		return 0
	}
	return n
}
