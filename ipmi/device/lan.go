package device

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/ipmi"
)

const (
	// firstChannel to lastChannel are the channels whose media differ (IPMI 2.0, table 6-1).
	firstChannel, lastChannel = 0x1, 0xb
	// mediumLAN is that of an 802.3 LAN (table 6-3).
	mediumLAN = 0x04
)

// Parameters of a LAN channel (table 23-4). Those of IPv6 came with revision 1.1.
const (
	ipAddress          = 3
	addressingEnables  = 51
	ipv6Status         = 55
	ipv6StaticAddress  = 56
	ipv6DynamicAddress = 59
)

// maxSets is how many addresses of IPv6 of each kind are read of a channel.
const maxSets = 4

// ErrNoAddress is of a BMC that has no address in a LAN, or does not tell it.
var ErrNoAddress = errors.New("the BMC says of no LAN channel that it has an address")

// Reported returns under which addresses the BMC says that it is reached from outside, by IPv4 and
// then by IPv6, and its System GUID if it tells it. The error is ErrNoAddress if there is none. Which
// channels are a LAN is asked once.
func (d *Device) Reported(ctx context.Context) (r power.ReportedBMC, err error) {
	if d.channels == nil {
		if d.channels, err = d.lanChannels(ctx); err != nil {
			return r, err
		}
	}
	for _, read := range []func(context.Context, byte) ([]netip.Addr, error){d.ipv4, d.ipv6} {
		for _, channel := range d.channels {
			found, err := read(ctx, channel)
			if err != nil {
				return r, err
			}
			r.Addresses = append(r.Addresses, found...)
		}
	}
	if len(r.Addresses) == 0 {
		return r, ErrNoAddress
	}
	r.Addresses = r.Addresses[:min(len(r.Addresses), power.MaxAddresses)]
	answer, err := d.conn.send(ctx, getSystemGUID)
	switch {
	case err == nil:
		guid := power.GUID(answer[:16])
		r.GUID = &guid
	case !refused(err) && !errors.Is(err, ipmi.ErrMalformed):
		return r, err
	}
	return r, nil
}

// lanChannels returns the channels that are a LAN.
func (d *Device) lanChannels(ctx context.Context) ([]byte, error) {
	channels := []byte{}
	for number := byte(firstChannel); number <= lastChannel; number++ {
		answer, err := d.conn.send(ctx, getChannelInfo, number)
		switch {
		case err == nil && answer[1]&0x7f == mediumLAN:
			channels = append(channels, number)
		case err != nil && !refused(err):
			return nil, err
		}
	}
	return channels, nil
}

// lanParameter returns a set of a parameter of a channel, which has so many bytes at least; nil: the
// BMC does not have it.
func (d *Device) lanParameter(ctx context.Context, channel, parameter, set byte, length int) ([]byte, error) {
	answer, err := d.conn.send(ctx, getLANParameter, channel, parameter, set, 0)
	switch {
	case refused(err):
		return nil, nil
	case err != nil:
		return nil, err
	case len(answer) <= length:
		return nil, fmt.Errorf("%s: parameter %d: %w: %d bytes of %d", getLANParameter.name, parameter, ipmi.ErrMalformed, len(answer)-1, length)
	}
	return answer[1:], nil // after the revision
}

// ipv4 returns the channel's address.
func (d *Device) ipv4(ctx context.Context, channel byte) ([]netip.Addr, error) {
	data, err := d.lanParameter(ctx, channel, ipAddress, 0, 4)
	if err != nil || data == nil {
		return nil, err
	}
	return usable(netip.AddrFrom4([4]byte(data))), nil
}

// ipv6 returns the channel's addresses that are active, those that people have set first.
func (d *Device) ipv6(ctx context.Context, channel byte) (found []netip.Addr, err error) {
	enabled, err := d.lanParameter(ctx, channel, addressingEnables, 0, 1)
	if err != nil || enabled == nil || enabled[0] == 0 {
		return nil, err
	}
	// How many there may be of each kind.
	sets, err := d.lanParameter(ctx, channel, ipv6Status, 0, 2)
	if err != nil || sets == nil {
		return nil, err
	}
	for kind, parameter := range []byte{ipv6StaticAddress, ipv6DynamicAddress} {
		for set := range min(sets[kind], maxSets) {
			const length = 20
			data, err := d.lanParameter(ctx, channel, parameter, set, length)
			if err != nil {
				return nil, err
			}
			if data != nil {
				found = append(found, decodeIPv6(parameter, data)...)
			}
		}
	}
	return found, nil
}

// decodeIPv6 decodes one set of the parameters of IPv6 addresses: the set, the source and whether it is
// enabled, the address, the length of its prefix, and its status.
func decodeIPv6(parameter byte, data []byte) []netip.Addr {
	const enabled, status, active = 1 << 7, 0xf, 0
	if data[19]&status != active || parameter == ipv6StaticAddress && data[1]&enabled == 0 {
		return nil
	}
	return usable(netip.AddrFrom16([16]byte(data[2:18])))
}

// usable returns the address if others can ask for it: one that is set, of one machine, and not of one
// link alone.
func usable(a netip.Addr) []netip.Addr {
	if !a.IsGlobalUnicast() {
		return nil
	}
	return []netip.Addr{a}
}
