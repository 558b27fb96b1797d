package network

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodemend/nodemend/checks"
)

// Reasons of the condition, the gravest first: of several problems the first counts.
const (
	// ReasonCarrierLost: an interface or bond has no link any more.
	ReasonCarrierLost = "CarrierLost"
	// ReasonFlapping: an interface loses its link again and again.
	ReasonFlapping = "LinkFlapping"
	// ReasonErrors: too many packets are damaged.
	ReasonErrors = "PacketErrors"
	// ReasonDegraded: a bond, or a switch in software, works without one of its members.
	ReasonDegraded = "BondDegraded"
	// ReasonSlow: a link is slower than both of its ends, or than the others of its bond.
	ReasonSlow = "LinkSlow"
	// ReasonDropped: too many packets are dropped, since the node or the interface is too slow.
	ReasonDropped = "PacketsDropped"
	// ReasonMTU: a part of a bridge or bond can't carry the packets that the whole takes.
	ReasonMTU = "MTUMismatch"
	// ReasonNotSeen, with Unknown: something could not be looked at.
	ReasonNotSeen = "NetworkNotSeen"
	// ReasonHealthy: none of these.
	ReasonHealthy = "NetworkHealthy"
)

// grave are the reasons of problems, the gravest first.
func grave() []string {
	return []string{ReasonCarrierLost, ReasonFlapping, ReasonErrors, ReasonDegraded, ReasonSlow, ReasonDropped, ReasonMTU}
}

const (
	// few are too few damaged or dropped packets to say anything.
	few = 20
	// lacp is the mode of bonds whose members agree with the switch on what they are used for,
	// standby the one of which a single member is used.
	lacp, standby = "802.3ad", "active-backup"
)

// finding is something that is not well.
type finding = checks.Finding

// history is what former runs have seen of an interface.
type history struct {
	at      time.Time
	index   int64
	traffic traffic
	// linked is whether it ever had a carrier. bond is what it was a member of, and faulty
	// whether anything was wrong with it.
	linked bool
	bond   string
	faulty bool
	// gone is whether it is there no more, and missed.
	gone bool
	// lost is since when it has no carrier; zero: it has one.
	lost time.Time
	// losses are how often it had lost its carrier when it was looked at, the latest last.
	losses []losses
}

// losses is how often a carrier was lost until then.
type losses struct {
	at time.Time
	n  int64
}

// watched is what former runs have seen, by the names of interfaces.
type watched map[string]*history

// remembered is what is to be known, after a restart or reboot, of an interface without a
// carrier, or one that is gone.
type remembered struct {
	// Linked is whether it ever had a carrier: its driver, loaded anew, does not know.
	Linked bool   `json:"linked,omitempty"`
	Faulty bool   `json:"faulty,omitempty"`
	Bond   string `json:"bond,omitempty"`
}

// remember returns what is to be remembered.
func (w watched) remember() map[string]remembered {
	all := map[string]remembered{}
	for name, h := range w {
		if h.faulty && !h.lost.IsZero() || h.gone {
			all[name] = remembered{Linked: h.linked, Faulty: h.faulty, Bond: h.bond}
		}
	}
	return all
}

// recall takes in what was remembered of the interfaces that are not excluded.
func (w watched) recall(all map[string]remembered, exclude []string) {
	for name, r := range all {
		switch h := w[name]; {
		case checks.Matches(exclude, name):
		case h != nil: // the file was read only after the first look
			h.linked = h.linked || r.Linked
		default:
			w[name] = &history{linked: r.Linked, faulty: r.Faulty, bond: r.Bond, index: -1, losses: []losses{{}}, gone: true}
		}
	}
}

// judge tells what is wrong, and remembers what was seen.
func (w watched) judge(all seen, o Options, now time.Time) checks.Result {
	var found []finding
	var well []string
	there := map[string]iface{}
	for _, i := range all.interfaces {
		there[i.name] = i
	}
	for _, i := range all.interfaces {
		h := w[i.name]
		if h == nil || h.anew(i) {
			h = &history{at: now, index: i.index, traffic: i.traffic, losses: []losses{{now, i.losses}}, linked: h != nil && h.linked}
			w[i.name] = h
		}
		before := len(found)
		found = append(found, h.findings(i, o, now)...)
		h.faulty, h.bond, h.gone = before < len(found), "", false
		if i.member != nil {
			h.bond = i.upper
		}
		if i.bond != nil {
			found = append(found, i.bondFindings(there)...)
		}
		if before == len(found) && i.up {
			well = append(well, i.String())
		}
	}
	if len(all.errs) == 0 { // else it may be one of these
		found = append(found, w.gone(there)...)
	}
	return verdict(found, all.errs, well)
}

// gone are the interfaces that are there no more and were faulty, or were used by a bond that is
// still there: one that falls off its bus must not look like one that works. Others are forgotten.
func (w watched) gone(there map[string]iface) (all []finding) {
	indexes := map[int64]bool{}
	for _, i := range there {
		indexes[i.index] = true
	}
	for _, name := range slices.Sorted(maps.Keys(w)) {
		if _, still := there[name]; still {
			continue
		}
		h := w[name]
		bond, bonded := there[h.bond]
		h.gone = true
		text := name + ": it is there no more, and "
		switch {
		case indexes[h.index]: // it was named anew
			delete(w, name)
		case h.faulty:
			all = append(all, finding{Reason: ReasonNotSeen, Text: text + "was faulty when it was last seen; exclude it if that is meant"})
		case bonded && bond.up:
			all = append(all, finding{Reason: ReasonNotSeen, Text: text + "was a member of " + h.bond + "; exclude it if that is meant"})
		default:
			delete(w, name)
		}
	}
	return all
}

// anew reports whether it is another interface of the name, or its driver was loaded anew, so that
// it counts from zero.
func (h *history) anew(i iface) bool {
	return h.index != i.index || i.losses < h.losses[len(h.losses)-1].n || i.traffic.packets < h.traffic.packets ||
		i.traffic.errors < h.traffic.errors || i.traffic.dropped < h.traffic.dropped
}

// String names the interface and what it does.
func (i iface) String() string {
	if i.speed > 0 {
		return fmt.Sprintf("%s (%d Mb/s)", i.name, i.speed)
	}
	return i.name
}

// findings are what is wrong with one interface, apart from its members.
func (h *history) findings(i iface, o Options, now time.Time) (all []finding) {
	add := func(reason, format string, args ...any) {
		all = append(all, finding{Reason: reason, Text: i.name + ": " + fmt.Sprintf(format, args...)})
	}
	flaps, since := h.flaps(i, o.FlapWindow, now)
	h.lose(i, now)
	last := h.traffic
	passed := now.Sub(h.at)
	h.at, h.traffic = now, i.traffic
	if !i.up {
		return nil // nobody wants it to be
	}
	if text := h.lostFor(now); text != "" && i.member == nil { // of a bond's members the bond tells
		if i.part != "" {
			add(ReasonDegraded, "%s; it is a part of %s, which may go on with others", text, i.part)
		} else {
			add(ReasonCarrierLost, "%s", text)
		}
	}
	if flaps >= int64(o.MaxFlaps) {
		add(ReasonFlapping, "lost its carrier %d times in %s", flaps, since.Round(time.Second))
	}
	if i.carrier {
		if text := i.slow(o.MinSpeed); text != "" {
			add(ReasonSlow, "%s", text)
		}
	}
	packets, of := i.traffic.packets-last.packets, " in "+passed.Round(time.Second).String()
	if n := i.traffic.errors - last.errors; tooMany(n, packets, o.MaxErrors) {
		add(ReasonErrors, "%d packets damaged, and %d not,%s", n, packets, of)
	}
	if n := i.traffic.dropped - last.dropped; tooMany(n, packets, o.MaxDropped) {
		add(ReasonDropped, "%d packets dropped, and %d not,%s", n, packets, of)
	}
	if i.upper != "" && i.mtu < i.upperMTU {
		add(ReasonMTU, "its MTU is %d, that of %s, which it is a part of, %d", i.mtu, i.upper, i.upperMTU)
	}
	return all
}

// flaps is how often the interface has lost its carrier in the window, as far as it was
// watched, and how long that is.
func (h *history) flaps(i iface, window time.Duration, now time.Time) (int64, time.Duration) {
	for len(h.losses) > 1 && now.Sub(h.losses[0].at) > window {
		h.losses = h.losses[1:]
	}
	if now.Sub(h.losses[0].at) > window { // when these were lost is not known
		h.losses = []losses{{now, i.losses}}
		return 0, 0
	}
	first := h.losses[0]
	h.losses = append(h.losses, losses{now, i.losses})
	return i.losses - first.n, now.Sub(first.at)
}

// lose remembers since when an interface has no carrier that ever had one. One that never had
// one is a socket without a cable, unless it is a part of a bond.
func (h *history) lose(i iface, now time.Time) {
	h.linked = h.linked || i.carrier || i.ups > 0
	switch {
	case !i.up, i.carrier, !h.linked && i.member == nil:
		h.lost = time.Time{}
	case h.lost.IsZero():
		h.lost = now
	}
}

// lostFor tells for how long there is no carrier; empty if there is one.
func (h *history) lostFor(now time.Time) string {
	switch {
	case h.lost.IsZero():
		return ""
	case h.lost.Equal(now):
		return "no carrier"
	default:
		return fmt.Sprintf("no carrier for %s", now.Sub(h.lost).Round(time.Second))
	}
}

// slow tells why the link is slower than it should be; empty if it is not.
func (i iface) slow(least int) string {
	switch {
	case i.speed == 0: // a virtual one
		return ""
	case i.speed < i.link.fastest:
		return fmt.Sprintf("%d Mb/s, and both ends can do %d Mb/s: a damaged cable or plug", i.speed, i.link.fastest)
	case i.speed < least:
		return fmt.Sprintf("%d Mb/s, and minSpeed is %d", i.speed, least)
	case i.half:
		return fmt.Sprintf("%d Mb/s half duplex: one end has a set speed, and the other one has not", i.speed)
	}
	return ""
}

// tooMany is whether n of all packets are at least so many percent.
func tooMany(n, others uint64, percent int) bool {
	return percent > 0 && n >= few && float64(n)*100 >= float64(n+others)*float64(percent)
}

// bondFindings are what is wrong with the members of a bond.
func (i iface) bondFindings(there map[string]iface) (all []finding) {
	if !i.up {
		return nil
	}
	if len(i.bond.members) == 0 {
		return []finding{{Reason: ReasonDegraded, Text: i.name + ": the bond has no member"}}
	}
	add := func(reason, format string, args ...any) {
		all = append(all, finding{Reason: reason, Text: fmt.Sprintf(format, args...)})
	}
	agrees := i.bond.mode == lacp && i.carrier
	if agrees && i.bond.partner == "00:00:00:00:00:00" {
		add(ReasonDegraded, "%s: no switch speaks LACP with it, so a single member is used", i.name)
		agrees = false
	}
	fast := 0
	for _, name := range i.bond.members {
		if i.bond.mode != standby {
			fast = max(fast, there[name].speed)
		}
	}
	for _, name := range i.bond.members {
		m, looked := there[name]
		if !looked || m.member == nil { // excluded, or it has gone meanwhile
			continue
		}
		switch {
		case !m.up:
			add(ReasonDegraded, "%s: member %s is switched off", i.name, name)
		case !m.carrier:
			add(ReasonDegraded, "%s: member %s has no carrier", i.name, name)
		case m.member.state != "up":
			add(ReasonDegraded, "%s: member %s is %s", i.name, name, cmp.Or(m.member.state, "not ready"))
		case agrees && m.member.group != i.bond.group:
			add(ReasonDegraded, "%s: member %s is not used with the others: its port of the switch is in another group, or speaks no LACP", i.name, name)
		case m.speed > 0 && m.speed < fast:
			add(ReasonSlow, "%s: member %s has %d Mb/s, another one %d Mb/s", i.name, name, m.speed, fast)
		}
	}
	return all
}

// verdict is what all findings mean, and what could not be looked at.
func verdict(found []finding, errs []error, well []string) checks.Result {
	for _, err := range errs {
		found = append(found, finding{Reason: ReasonNotSeen, Text: err.Error()})
	}
	healthy := checks.Healthy(ReasonHealthy, strings.Join(well, ", ")+": nothing is wrong")
	if len(well) == 0 {
		healthy = checks.CannotTell(ReasonNotSeen, "no network interface is there, or switched on")
	}
	return checks.Judge(found, grave(), healthy)
}
