package network

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mdlayher/ethtool"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
)

// host is one whose /sys is played.
type host struct {
	t    *testing.T
	path string
	// links are what both ends of its links can do.
	links map[string]link
}

func newHost(t *testing.T) *host {
	h := &host{t: t, path: t.TempDir(), links: map[string]link{}}
	h.write("class/net/bonding_masters", "bond0")
	h.add("lo", "flags", "0x9", "carrier", "1")
	return h
}

func (h *host) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) linkTo(name, target string) {
	h.t.Helper()
	path := filepath.Join(h.path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) remove(name string) {
	h.t.Helper()
	if err := os.RemoveAll(filepath.Join(h.path, name)); err != nil {
		h.t.Fatal(err)
	}
}

// set writes files of an interface: names and what they hold.
func (h *host) set(name string, files ...string) {
	h.t.Helper()
	for i := 0; i < len(files); i += 2 {
		h.write("class/net/"+name+"/"+files[i], files[i+1])
	}
}

// add adds an interface without a device that is well, with these files besides.
func (h *host) add(name string, files ...string) {
	h.t.Helper()
	h.set(name, "flags", "0x1003", "carrier", "1", "carrier_up_count", "1", "carrier_down_count", "1", "mtu", "1500",
		"statistics/rx_packets", "0", "statistics/tx_packets", "0", "statistics/rx_errors", "0", "statistics/tx_errors", "0",
		"statistics/rx_missed_errors", "0", "statistics/tx_dropped", "0", "statistics/rx_dropped", "100000")
	h.set(name, files...)
}

// nic adds an interface of the hardware.
func (h *host) nic(name string, files ...string) {
	h.t.Helper()
	h.add(name, append([]string{"speed", "10000", "duplex", "full", "device/vendor", "0x8086"}, files...)...)
}

// bonded adds two of them in a bond.
func (h *host) bonded(mode string) {
	h.t.Helper()
	h.add("bond0", "bonding/slaves", "eth1 eth2", "bonding/mode", mode, "bonding/ad_aggregator", "1", "bonding/ad_partner_mac", "00:1c:73:00:00:01", "mtu", "9000", "speed", "20000")
	for _, name := range []string{"eth1", "eth2"} {
		h.nic(name, "mtu", "9000", "bonding_slave/mii_status", "up", "bonding_slave/ad_aggregator_id", "1")
		h.linkTo("class/net/"+name+"/master", "../bond0")
	}
}

func (h *host) options() Options {
	return Options{
		MaxFlaps: 5, FlapWindow: 9 * time.Minute, MaxErrors: 1, MaxDropped: 5, Timeout: 20 * time.Second,
		Sys: h.path, Links: func([]string) (map[string]link, error) { return h.links, nil }, Clock: clock.RealClock{},
	}
}

func newCheck(t *testing.T, o Options) *Check {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWhatOneLookShows(t *testing.T) {
	const agreed = "802.3ad 4"
	for name, tc := range map[string]struct {
		play    func(h *host)
		options func(o *Options)
		want    checks.Result
	}{
		"all is well": {want: checks.Healthy(ReasonHealthy, "eth0 (10000 Mb/s): nothing is wrong")},
		"a lost carrier": {
			play: func(h *host) { h.set("eth0", "carrier", "0") },
			want: checks.Problem(ReasonCarrierLost, "eth0: no carrier"),
		},
		"a lost carrier of a part of Open vSwitch": {
			play: func(h *host) {
				h.add("ovs-system", "uevent", "INTERFACE=ovs-system")
				h.set("eth0", "carrier", "0")
				h.linkTo("class/net/eth0/master", "../ovs-system")
			},
			want: checks.Problem(ReasonDegraded, "eth0: no carrier; it is a part of ovs-system, which may go on with others"),
		},
		"a lost carrier of a part of a VRF": {
			play: func(h *host) {
				h.add("blue", "uevent", "DEVTYPE=vrf\nINTERFACE=blue")
				h.set("eth0", "carrier", "0")
				h.linkTo("class/net/eth0/master", "../blue")
			},
			want: checks.Problem(ReasonCarrierLost, "eth0: no carrier"),
		},
		"a socket without a cable": {
			play: func(h *host) { h.nic("eth9", "carrier", "0", "carrier_up_count", "0", "speed", "-1") },
			want: checks.Healthy(ReasonHealthy, "eth0 (10000 Mb/s), eth9: nothing is wrong"),
		},
		"an interface that is switched off": {
			play: func(h *host) {
				h.nic("eth9", "flags", "0x1002", "speed", "-1")
				h.remove("class/net/eth9/carrier") // which can't be read then
			},
			want: checks.Healthy(ReasonHealthy, "eth0 (10000 Mb/s): nothing is wrong"),
		},
		"all are switched off": {
			play: func(h *host) { h.set("eth0", "flags", "0x1002") },
			want: checks.CannotTell(ReasonNotSeen, "no network interface is there, or switched on"),
		},
		"interfaces that others use": {
			play: func(h *host) {
				for _, name := range []string{"veth1", "cni0", "vxlan.calico", "docker0", "tunl0"} {
					h.add(name, "carrier", "0")
				}
				h.nic("pf0vf1", "carrier", "0", "phys_port_name", "pf0vf1")
				h.nic("vf1", "carrier", "0")
				h.linkTo("class/net/vf1/device/physfn", "../0000:01:00.0")
				h.nic("wlan0", "carrier", "0", "phy80211/name", "phy0")
				h.nic("usb0", "carrier", "0")
				h.linkTo("class/net/usb0/device/driver", "../../bus/usb/drivers/cdc_ether")
			},
			want: checks.Healthy(ReasonHealthy, "eth0 (10000 Mb/s): nothing is wrong"),
		},
		"one that is included, and one that is excluded": {
			play: func(h *host) {
				h.add("veth1", "carrier", "0")
				h.nic("eth9", "carrier", "0")
			},
			options: func(o *Options) { o.Include, o.Exclude = []string{"veth*"}, []string{"eth9"} },
			want:    checks.Problem(ReasonCarrierLost, "veth1: no carrier"),
		},
		"a slow link": {
			play: func(h *host) { h.set("eth0", "speed", "100"); h.links["eth0"] = link{fastest: 1000} },
			want: checks.Problem(ReasonSlow, "eth0: 100 Mb/s, and both ends can do 1000 Mb/s: a damaged cable or plug"),
		},
		"a switch that can't do more": {
			play: func(h *host) { h.links["eth0"] = link{fastest: 10000} },
			want: checks.Healthy(ReasonHealthy, "eth0 (10000 Mb/s): nothing is wrong"),
		},
		"less than is asked for": {
			options: func(o *Options) { o.MinSpeed = 25000 },
			want:    checks.Problem(ReasonSlow, "eth0: 10000 Mb/s, and minSpeed is 25000"),
		},
		"half duplex": {
			play: func(h *host) { h.set("eth0", "speed", "100", "duplex", "half") },
			want: checks.Problem(ReasonSlow, "eth0: 100 Mb/s half duplex: one end has a set speed, and the other one has not"),
		},
		"a bond": {
			play: func(h *host) { h.bonded(agreed) },
			want: checks.Healthy(ReasonHealthy, "bond0 (20000 Mb/s), eth0 (10000 Mb/s), eth1 (10000 Mb/s), eth2 (10000 Mb/s): nothing is wrong"),
		},
		"a member without a carrier": {
			play: func(h *host) {
				h.bonded(agreed)
				h.set("eth2", "carrier", "0", "carrier_up_count", "0", "bonding_slave/mii_status", "down")
			},
			want: checks.Problem(ReasonDegraded, "bond0: member eth2 has no carrier"),
		},
		"a member that the bond does not use yet": {
			play: func(h *host) { h.bonded(agreed); h.set("eth2", "bonding_slave/mii_status", "going back") },
			want: checks.Problem(ReasonDegraded, "bond0: member eth2 is going back"),
		},
		"a member that is switched off": {
			play: func(h *host) { h.bonded(agreed); h.set("eth2", "flags", "0x1002") },
			want: checks.Problem(ReasonDegraded, "bond0: member eth2 is switched off"),
		},
		"a member in another group": {
			play: func(h *host) { h.bonded(agreed); h.set("eth2", "bonding_slave/ad_aggregator_id", "2") },
			want: checks.Problem(ReasonDegraded, "bond0: member eth2 is not used with the others: its port of the switch is in another group, or speaks no LACP"),
		},
		"a switch without LACP": {
			play: func(h *host) {
				h.bonded(agreed)
				h.set("bond0", "bonding/ad_partner_mac", "00:00:00:00:00:00")
				h.set("eth2", "bonding_slave/ad_aggregator_id", "2")
			},
			want: checks.Problem(ReasonDegraded, "bond0: no switch speaks LACP with it, so a single member is used"),
		},
		"a slower member": {
			play: func(h *host) { h.bonded("balance-xor 2"); h.set("eth2", "speed", "1000") },
			want: checks.Problem(ReasonSlow, "bond0: member eth2 has 1000 Mb/s, another one 10000 Mb/s"),
		},
		"a slower member for emergencies": {
			play: func(h *host) { h.bonded("active-backup 1"); h.set("eth2", "speed", "1000") },
			want: checks.Healthy(ReasonHealthy, "bond0 (20000 Mb/s), eth0 (10000 Mb/s), eth1 (10000 Mb/s), eth2 (1000 Mb/s): nothing is wrong"),
		},
		"a bond without members": {
			play: func(h *host) { h.bonded(agreed); h.set("bond0", "bonding/slaves", "") },
			want: checks.Problem(ReasonDegraded, "bond0: the bond has no member"),
		},
		"one that the kernel has made, and nobody uses": {
			play: func(h *host) { h.bonded(agreed); h.set("bond0", "bonding/slaves", "", "flags", "0x1402") },
			want: checks.Healthy(ReasonHealthy, "eth0 (10000 Mb/s), eth1 (10000 Mb/s), eth2 (10000 Mb/s): nothing is wrong"),
		},
		"a bond that is dead": {
			play: func(h *host) {
				h.bonded(agreed)
				for _, name := range []string{"bond0", "eth1", "eth2"} {
					h.set(name, "carrier", "0")
				}
			},
			want: checks.Problem(ReasonCarrierLost, "bond0: no carrier; bond0: member eth1 has no carrier; bond0: member eth2 has no carrier"),
		},
		"a bond that is excluded, and a member of it": {
			play:    func(h *host) { h.bonded(agreed); h.set("eth2", "carrier", "0") },
			options: func(o *Options) { o.Exclude = []string{"bond0", "eth2"} },
			want:    checks.Healthy(ReasonHealthy, "eth0 (10000 Mb/s), eth1 (10000 Mb/s): nothing is wrong"),
		},
		"a part with a smaller MTU": {
			play: func(h *host) {
				h.add("br0", "bridge/bridge_id", "8000", "mtu", "9000")
				h.linkTo("class/net/eth0/master", "../br0")
			},
			want: checks.Problem(ReasonMTU, "eth0: its MTU is 1500, that of br0, which it is a part of, 9000"),
		},
		"a part with a larger MTU": {
			play: func(h *host) {
				h.add("br0", "bridge/bridge_id", "8000", "mtu", "1400")
				h.linkTo("class/net/eth0/master", "../br0")
			},
			want: checks.Healthy(ReasonHealthy, "eth0 (10000 Mb/s): nothing is wrong"),
		},
		"a part of something else": {
			play: func(h *host) { h.add("ovs-system", "mtu", "9000"); h.linkTo("class/net/eth0/master", "../ovs-system") },
			want: checks.Healthy(ReasonHealthy, "eth0 (10000 Mb/s): nothing is wrong"),
		},
		"several": {
			play: func(h *host) {
				h.set("eth0", "speed", "100")
				h.links["eth0"] = link{fastest: 1000}
				for i := range 6 {
					h.nic("eth1"+strconv.Itoa(i), "carrier", "0")
				}
			},
			want: checks.Problem(ReasonCarrierLost, "eth10: no carrier; eth11: no carrier; eth12: no carrier; eth13: no carrier; eth14: no carrier; and 2 more"),
		},
		"counters that are none": {
			play: func(h *host) { h.set("eth0", "statistics/rx_errors", "many") },
			want: checks.CannotTell(ReasonNotSeen, `eth0: strconv.ParseUint: parsing "many": invalid syntax`),
		},
		"the links can't be asked": {
			options: func(o *Options) {
				o.Links = func([]string) (map[string]link, error) { return nil, errors.New("no socket") }
			},
			want: checks.CannotTell(ReasonNotSeen, "no socket"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.nic("eth0")
			o := h.options()
			if tc.options != nil {
				tc.options(&o)
			}
			c := newCheck(t, o)
			if tc.play != nil {
				tc.play(h)
			}
			for range 2 { // the second one as after a restart
				if got := c.Run(t.Context()); got != tc.want {
					t.Errorf("got  %+v\nwant %+v", got, tc.want)
				}
				c = newCheck(t, o)
			}
		})
	}
}

func TestWhatTakesMoreThanOneLook(t *testing.T) {
	type step struct {
		after time.Duration
		files []string
		want  string
	}
	const well = "False eth0 (10000 Mb/s): nothing is wrong"
	for name, steps := range map[string][]step{
		"how long there is no carrier": {
			{0, nil, well},
			{time.Minute, []string{"carrier", "0"}, "True eth0: no carrier"},
			{2 * time.Minute, nil, "True eth0: no carrier for 2m0s"},
			{time.Minute, []string{"carrier", "1"}, well},
			{time.Minute, []string{"carrier", "0"}, "True eth0: no carrier"},
		},
		"a link that flaps": {
			{0, []string{"carrier_down_count", "100"}, well},
			{4 * time.Minute, []string{"carrier_down_count", "102"}, well},
			{4 * time.Minute, []string{"carrier_down_count", "105"}, "True eth0: lost its carrier 5 times in 8m0s"},
			{2 * time.Minute, []string{"carrier_down_count", "106"}, well}, // 4 in the last 6 minutes
			{2 * time.Minute, []string{"carrier_down_count", "107"}, "True eth0: lost its carrier 5 times in 8m0s"},
			{20 * time.Minute, nil, well},
			{3 * time.Hour, []string{"carrier_down_count", "200"}, well}, // a look hung, so nobody knows when
			{time.Minute, []string{"carrier_down_count", "203"}, well},
		},
		"a driver that was loaded anew": {
			{0, []string{"carrier_down_count", "100"}, well},
			{time.Minute, []string{"carrier_down_count", "2"}, well},
			{time.Minute, []string{"carrier_down_count", "8"}, "True eth0: lost its carrier 6 times in 1m0s"},
		},
		"damaged packets": {
			{0, []string{"statistics/rx_errors", "5000"}, well}, // long ago
			{30 * time.Second, []string{"statistics/rx_packets", "900", "statistics/tx_packets", "100", "statistics/rx_errors", "5009", "statistics/tx_errors", "10"}, well},
			{30 * time.Second, []string{"statistics/rx_packets", "2880", "statistics/rx_errors", "5029"}, "True eth0: 20 packets damaged, and 1980 not, in 30s"},
			{30 * time.Second, []string{"statistics/rx_packets", "6000", "statistics/rx_errors", "5050"}, well}, // less than a percent
		},
		"dropped packets": {
			{0, nil, well},
			{30 * time.Second, []string{"statistics/rx_packets", "1000", "statistics/rx_missed_errors", "40"}, well},
			{30 * time.Second, []string{"statistics/rx_packets", "2000", "statistics/rx_missed_errors", "100"}, "True eth0: 60 packets dropped, and 1000 not, in 30s"},
			{30 * time.Second, []string{"statistics/rx_dropped", "900000"}, well}, // nobody wanted those
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.nic("eth0")
			synctest.Test(t, func(t *testing.T) {
				c := newCheck(t, h.options())
				for i, s := range steps {
					time.Sleep(s.after)
					h.set("eth0", s.files...)
					got := c.Run(t.Context())
					if text := string(got.Status) + " " + got.Message; text != s.want {
						t.Errorf("step %d: got %s, want %s", i, text, s.want)
					}
				}
			})
		})
	}
}

func TestAnInterfaceThatVanishes(t *testing.T) {
	for name, tc := range map[string]struct {
		before, change func(h *host)
		want           string
	}{
		"after it was lost": {
			func(h *host) { h.set("eth0", "carrier", "0") },
			func(h *host) { h.remove("class/net/eth0") },
			"Unknown NetworkNotSeen: eth0: it is there no more, and was faulty when it was last seen",
		},
		"while it was well": {nil, func(h *host) { h.remove("class/net/eth0") }, "False NetworkHealthy: bond0 (20000 Mb/s), eth1 (10000 Mb/s), eth2 (10000 Mb/s): nothing is wrong"},
		"out of a bond": {nil, func(h *host) {
			h.remove("class/net/eth1")
			h.set("bond0", "bonding/slaves", "eth2")
		}, "Unknown NetworkNotSeen: eth1: it is there no more, and was a member of bond0"},
		"with its bond": {nil, func(h *host) {
			for _, name := range []string{"bond0", "eth1", "eth2"} {
				h.remove("class/net/" + name)
			}
		}, "False NetworkHealthy: eth0 (10000 Mb/s): nothing is wrong"},
		"under its name": {
			func(h *host) { h.set("eth0", "ifindex", "7", "carrier", "0") },
			func(h *host) {
				h.remove("class/net/eth0")
				h.nic("ens3", "ifindex", "7")
			},
			"False NetworkHealthy: bond0 (20000 Mb/s), ens3 (10000 Mb/s), eth1 (10000 Mb/s), eth2 (10000 Mb/s): nothing is wrong",
		},
		"for a moment": {
			func(h *host) { h.set("eth0", "carrier", "0") },
			func(h *host) {
				h.remove("class/net/eth0")
				h.nic("eth0", "ifindex", "9", "carrier", "0", "carrier_up_count", "0")
			},
			"True CarrierLost: eth0: no carrier",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.nic("eth0")
			h.bonded("802.3ad")
			for i, name := range []string{"eth0", "eth1", "eth2", "bond0"} {
				h.set(name, "ifindex", strconv.Itoa(2+i))
			}
			if tc.before != nil {
				tc.before(h)
			}
			c := newCheck(t, h.options())
			c.Run(t.Context())
			tc.change(h)
			for range 2 {
				got := c.Run(t.Context())
				if text := string(got.Status) + " " + got.Reason + ": " + got.Message; !strings.HasPrefix(text, tc.want) {
					t.Errorf("got %s\nwant %s", text, tc.want)
				}
			}
		})
	}
}

// A driver that is loaded anew does not know that the link was ever up.
func TestARebootMakesNoDeadLinkHealthy(t *testing.T) {
	h := newHost(t)
	h.nic("eth0")
	h.nic("eth1")
	h.nic("eth2", "carrier", "0", "carrier_up_count", "0") // a socket without a cable
	for i, name := range []string{"eth0", "eth1", "eth2"} {
		h.set(name, "ifindex", strconv.Itoa(2+i))
	}
	o := h.options()
	o.StateFile = filepath.Join(t.TempDir(), "state", "network.json")
	look := func(want string) {
		t.Helper()
		got := newCheck(t, o).Run(t.Context())
		if text := string(got.Status) + " " + got.Message; text != want {
			t.Errorf("got  %s\nwant %s", text, want)
		}
	}
	look("False eth0 (10000 Mb/s), eth1 (10000 Mb/s), eth2 (10000 Mb/s): nothing is wrong")
	h.set("eth0", "carrier", "0")
	look("True eth0: no carrier")
	h.set("eth0", "ifindex", "5", "carrier_up_count", "0", "carrier_down_count", "0")
	look("True eth0: no carrier")
	look("True eth0: no carrier")
	h.remove("class/net/eth0")
	look("Unknown eth0: it is there no more, and was faulty when it was last seen; exclude it if that is meant")
	look("Unknown eth0: it is there no more, and was faulty when it was last seen; exclude it if that is meant")
	o.Exclude = []string{"eth0"}
	look("False eth1 (10000 Mb/s), eth2 (10000 Mb/s): nothing is wrong")
	o.Exclude = nil
	h.nic("eth0", "ifindex", "9")
	look("False eth0 (10000 Mb/s), eth1 (10000 Mb/s), eth2 (10000 Mb/s): nothing is wrong")
}

func TestACardWithModesThatTheLibraryDoesNotKnowIsNotKnownToBeSlow(t *testing.T) {
	if _, err := linkMode(newerCard{}, "eth0"); err == nil || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("got %v", err)
	}
}

type newerCard struct{}

func (newerCard) LinkMode(ethtool.Interface) (*ethtool.LinkMode, error) {
	known, bit := make([]int, 92), 92
	return &ethtool.LinkMode{SpeedMegabits: known[bit]}, nil
}

func TestAKernelThatDoesNotAnswerIsAskedOnce(t *testing.T) {
	h := newHost(t)
	h.nic("eth0")
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, make(chan struct{})
		o := h.options()
		o.Links = func([]string) (map[string]link, error) {
			asked++
			<-answer
			return nil, nil
		}
		c := newCheck(t, o)
		for _, want := range []string{"18s", "36s"} {
			got := c.Run(t.Context())
			if got.Status != checks.Unknown || got.Reason != ReasonNotSeen || !strings.Contains(got.Message, "for "+want+":") {
				t.Errorf("got %+v, want %s", got, want)
			}
		}
		close(answer)
		if got := c.Run(t.Context()); got.Status != checks.False || asked != 1 {
			t.Errorf("got %+v, and it was asked %d times", got, asked)
		}
	})
}

func TestANodeWithoutInterfacesOfHardwareIsNotChecked(t *testing.T) {
	h := newHost(t)
	h.add("eth0") // as in a container
	_, err := New(h.options())
	if off := (checks.Off{}); !errors.As(err, &off) {
		t.Errorf("got the error %v", err)
	}
}

func TestInterfacesThatAreNotSeenAreNotHealthy(t *testing.T) {
	h := newHost(t)
	h.remove("class")
	c := newCheck(t, h.options())
	if got := c.Run(t.Context()); got.Status != checks.Unknown || got.Reason != ReasonNotSeen || !strings.Contains(got.Message, "class/net") {
		t.Errorf("got %+v", got)
	}
}

func TestTheFastestModeIsOneThatBothEndsOffer(t *testing.T) {
	modes := func(names ...string) (all []ethtool.AdvertisedLinkMode) {
		for _, name := range names {
			all = append(all, ethtool.AdvertisedLinkMode{Name: name})
		}
		return all
	}
	for _, tc := range []struct {
		ours, peers []ethtool.AdvertisedLinkMode
		want        int
	}{
		{modes("Autoneg", "TP", "100baseT/Full", "1000baseT/Full", "2500baseT/Full"), modes("Autoneg", "100baseT/Full", "1000baseT/Full"), 1000},
		{modes("25000baseCR/Full"), nil, 0},
		{modes("Autoneg", "10000baseT/Full"), modes("Autoneg", "1000baseT/Full"), 0},
	} {
		if got := fastest(tc.ours, tc.peers); got != tc.want {
			t.Errorf("%v and %v: got %d, want %d", tc.ours, tc.peers, got, tc.want)
		}
	}
}
