package memory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// controller is a memory controller, as EDAC tells of it (Documentation/driver-api/edac.rst and
// Documentation/admin-guide/RAS of Linux).
type controller struct {
	name string // mc0
	// counting is for how long its driver has counted.
	counting time.Duration
	// modules are its modules, and itself for errors of which it can't tell the module.
	modules []module
}

// module is a memory module.
type module struct {
	// id is what its controller calls it, and name what people do, who may give it another label.
	// names are all by which it can be excluded.
	id, name string
	names    []string
	// corrected and uncorrected are its errors since the driver was loaded.
	corrected, uncorrected uint64
}

// pages are those that the kernel has put out of use since it booted, or could not.
type pages struct{ offline, failed uint64 }

// seen is what one look has seen.
type seen struct {
	controllers []controller
	pages       pages
	err         error
}

// files is where sysfs and procfs are mounted.
type files struct{ sys, proc string }

func (f files) controllers() []string {
	found, err := filepath.Glob(filepath.Join(f.sys, "devices", "system", "edac", "mc", "mc[0-9]*"))
	if err != nil {
		return nil // the pattern is well
	}
	return found
}

// look reads all that the kernel counts.
func (f files) look() (all seen) {
	var errs []error
	for _, path := range f.controllers() {
		c, err := readController(path)
		errs = append(errs, err)
		all.controllers = append(all.controllers, c)
	}
	offline, err := f.offline()
	errs = append(errs, err)
	failed, err := f.failed()
	errs = append(errs, err)
	all.pages, all.err = pages{offline, failed}, errors.Join(errs...)
	return all
}

func readController(path string) (controller, error) {
	r := reader{path: path}
	c := controller{
		name: filepath.Base(path), counting: time.Duration(r.number("seconds_since_reset")) * time.Second,
		modules: []module{{id: filepath.Base(path), corrected: r.number("ce_noinfo_count"), uncorrected: r.number("ue_noinfo_count")}},
	}
	c.modules[0].name = c.name + ", unknown module"
	c.modules[0].names = []string{c.name}
	entries, err := os.ReadDir(path)
	if err != nil {
		return c, err
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, "dimm") || strings.HasPrefix(name, "rank") {
			id, label, place := c.name+" "+name, r.text(name, "dimm_label"), c.name+" "+cmp.Or(r.text(name, "dimm_location"), name)
			c.modules = append(c.modules, module{
				id: id, name: naming(label, place), names: []string{id, label, place},
				corrected: r.number(name, "dimm_ce_count"), uncorrected: r.number(name, "dimm_ue_count"),
			})
		}
	}
	return c, r.err
}

// naming names a module as its board is labelled, if that is known, and as the controller does.
func naming(label, place string) string {
	if label == "" || strings.HasPrefix(label, "mc#") { // which the kernel makes up of the location
		return place
	}
	return fmt.Sprintf("%s (%s)", label, place)
}

// offline is how many pages are out of use for errors of the memory.
func (f files) offline() (uint64, error) {
	proc, err := procfs.NewFS(f.proc)
	if err != nil {
		return 0, err
	}
	info, err := proc.Meminfo()
	if err != nil {
		return 0, err
	}
	if info.HardwareCorruptedBytes == nil { // this kernel puts none out of use
		return 0, nil
	}
	return *info.HardwareCorruptedBytes / uint64(os.Getpagesize()), nil
}

// failed is how many pages with an uncorrectable error could not be put out of use, which Linux
// tells from 6.3 on.
func (f files) failed() (n uint64, err error) {
	nodes, err := filepath.Glob(filepath.Join(f.sys, "devices", "system", "node", "node[0-9]*", "memory_failure"))
	if err != nil {
		return 0, err
	}
	for _, path := range nodes {
		r := reader{path: path}
		n += r.number("failed") + r.number("ignored")
		err = errors.Join(err, r.err)
	}
	return n, err
}

// reader reads files of a folder, and keeps the first error. Files that are not there are empty:
// kernels and drivers differ.
type reader struct {
	path string
	err  error
}

func (r *reader) text(file ...string) string {
	data, err := os.ReadFile(filepath.Join(slices.Insert(file, 0, r.path)...))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.err = cmp.Or(r.err, err)
	}
	return strings.TrimSpace(string(data))
}

func (r *reader) number(file ...string) uint64 {
	text := r.text(file...)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		r.err = cmp.Or(r.err, fmt.Errorf("%s: %w", filepath.Join(slices.Insert(file, 0, r.path)...), err))
	}
	return n
}
