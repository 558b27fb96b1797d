package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs/sysfs"
	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/checks"
)

// iface is a network interface as it was when it was looked at.
type iface struct {
	name string
	// index is the kernel's number of it, which it keeps when it is named anew.
	index int64
	// up is whether somebody wants it to be.
	up bool
	// carrier is whether it has a link to somewhere; ups and losses are how often it has got
	// and lost one since its driver was loaded.
	carrier     bool
	ups, losses int64
	// speed is in Mb/s; 0: it has none, or does not tell. half is whether it can't send and
	// receive at once.
	speed int
	half  bool
	mtu   int64
	link  link
	// traffic counts packets.
	traffic traffic
	// upper is the bond or bridge that it is a part of, of that MTU; empty: of none.
	upper    string
	upperMTU int64
	// part is what else joins it with others: a team, or Open vSwitch; empty: nothing.
	part string
	// member is what a bond tells of it; nil: it is in none.
	member *member
	// bond is what it is itself; nil: none.
	bond *bond
}

// traffic is how many packets there were, that were damaged, and that were dropped since the
// node, or the interface, was too slow. Not counted are those that were dropped since nobody
// wanted them.
type traffic struct{ packets, errors, dropped uint64 }

// bond is several interfaces that are used as one.
type bond struct {
	// mode is such as 802.3ad.
	mode    string
	members []string
	// group is the number of those that are used together, and partner the other end's address,
	// of the mode 802.3ad.
	group, partner string
}

// member is what a bond tells of an interface in it.
type member struct {
	// state is that of its link, such as up.
	state string
	// group is that of the bond's groups which it is in.
	group string
}

// sys is where sysfs is mounted.
type sys string

func (s sys) of(name string, file ...string) string {
	return filepath.Join(append([]string{string(s), "class", "net", name}, file...)...)
}

func (s sys) has(name string, file ...string) bool {
	_, err := os.Lstat(s.of(name, file...))
	return err == nil
}

// text returns what a file of an interface holds; empty if there is no such file, or it does
// not tell.
func (s sys) text(name string, file ...string) string {
	data, err := os.ReadFile(s.of(name, file...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// names are those of the interfaces that are looked at: those of hardware, bonds and their
// members, and what is included, but for what is excluded.
func (s sys) names(o Options) ([]string, error) {
	entries, err := os.ReadDir(s.of(""))
	if err != nil {
		return nil, err
	}
	var names []string
	add := func(name string) {
		if !checks.Matches(o.Exclude, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, entry := range entries {
		name := entry.Name()
		if !s.has(name, "flags") { // bonding_masters is none
			continue
		}
		isBond := s.has(name, "bonding")
		if isBond || s.hardware(name) || checks.Matches(o.Include, name) {
			add(name)
		}
		if isBond && !checks.Matches(o.Exclude, name) {
			for _, m := range s.members(name) {
				add(m)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

func (s sys) members(bond string) []string { return strings.Fields(s.text(bond, "bonding", "slaves")) }

// representor is the name of a port that stands for a part of an interface, which is used by a
// pod or a virtual machine.
var representor = regexp.MustCompile(`^(c\d+)?pf\d+(vf|sf)\d+$`)

// hardware is whether an interface is that of a device of the node alone: not a part of it
// that is lent to pods, no radio, and none of a BMC or telephone at the USB.
func (s sys) hardware(name string) bool {
	if !s.has(name, "device") || s.has(name, "device", "physfn") || s.has(name, "wireless") || s.has(name, "phy80211") {
		return false
	}
	driver, _ := os.Readlink(s.of(name, "device", "driver")) // some have none
	switch filepath.Base(driver) {
	case "cdc_ether", "cdc_eem", "cdc_ncm", "rndis_host":
		return false
	}
	return !representor.MatchString(s.text(name, "phys_port_name"))
}

// look looks at all interfaces.
func (s sys) look(o Options) seen {
	names, err := s.names(o)
	if err != nil {
		return seen{err: err}
	}
	class, err := sysfs.NewFS(string(s))
	if err != nil {
		return seen{err: err}
	}
	ends, err := o.Links(names)
	if err != nil {
		return seen{err: err}
	}
	var all seen
	for _, name := range names {
		i, err := s.read(class, name)
		switch {
		case err == nil:
			i.link = ends[name]
			all.interfaces = append(all.interfaces, i)
		case s.has(name): // else it has gone meanwhile
			all.errs = append(all.errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return all
}

func (s sys) read(class sysfs.FS, name string) (i iface, err error) {
	of, err := class.NetClassByIface(name)
	if err != nil {
		return iface{}, err
	}
	value := func(p *int64) int64 {
		if p == nil {
			return 0
		}
		return *p
	}
	i = iface{
		name: name, index: value(of.IfIndex), up: value(of.Flags)&unix.IFF_UP != 0, carrier: value(of.Carrier) == 1,
		ups: value(of.CarrierUpCount), losses: value(of.CarrierDownCount),
		speed: int(max(0, value(of.Speed))), half: of.Duplex == "half", mtu: value(of.MTU),
	}
	if i.traffic, err = s.traffic(name); err != nil {
		return iface{}, err
	}
	if target, err := os.Readlink(s.of(name, "master")); err == nil {
		upper := filepath.Base(target)
		if s.has(upper, "bonding") || s.has(upper, "bridge") {
			mtu, err := strconv.ParseInt(s.text(upper, "mtu"), 10, 64)
			if err == nil { // else it has gone meanwhile
				i.upper, i.upperMTU = upper, mtu
			}
		} else if !strings.Contains(s.text(upper, "uevent"), "DEVTYPE=vrf") { // which only routes
			i.part = upper
		}
	}
	if s.has(name, "bonding_slave") {
		i.member = &member{state: s.text(name, "bonding_slave", "mii_status"), group: s.text(name, "bonding_slave", "ad_aggregator_id")}
	}
	if s.has(name, "bonding") {
		mode, _, _ := strings.Cut(s.text(name, "bonding", "mode"), " ") // "802.3ad 4"
		i.bond = &bond{
			mode: mode, members: s.members(name),
			group: s.text(name, "bonding", "ad_aggregator"), partner: s.text(name, "bonding", "ad_partner_mac"),
		}
	}
	return i, nil
}

// traffic reads the counters of an interface. rx_dropped is left out: it counts also what
// nobody on this node listens to.
func (s sys) traffic(name string) (t traffic, err error) {
	var errs []error
	sum := func(files ...string) (n uint64) {
		for _, file := range files {
			data, err := os.ReadFile(s.of(name, "statistics", file))
			if err == nil {
				var one uint64
				one, err = strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
				n += one
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		return n
	}
	t = traffic{packets: sum("rx_packets", "tx_packets"), errors: sum("rx_errors", "tx_errors"), dropped: sum("rx_missed_errors", "tx_dropped")}
	return t, errors.Join(errs...)
}
