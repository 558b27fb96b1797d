package bmc

// Media of channels (IPMI 2.0, table 6-3).
const (
	IPMB     = 0x01
	LAN      = 0x04
	OtherLAN = 0x06
)

// Parameters of a LAN channel (table 23-4).
const (
	IPAddress          = 3
	AddressingEnables  = 51
	IPv6Status         = 55
	IPv6StaticAddress  = 56
	IPv6DynamicAddress = 59
)

// Channel is one way to the BMC.
type Channel struct {
	Medium uint8
	// Parameters are those of a LAN, each with its sets; those that are not there are not supported. A
	// channel of another medium may have some, too: nobody should ask.
	Parameters map[uint8][][]byte
}

// SetChannel sets the channel of a number.
func (b *BMC) SetChannel(number uint8, c Channel) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.channels == nil {
		b.channels = map[uint8]Channel{}
	}
	b.channels[number] = c
}

// channelInfo is Get Channel Info (section 22.24).
func (b *BMC) channelInfo(request []byte) (uint8, []byte) {
	if len(request) != 1 {
		return invalidLength, nil
	}
	c, found := b.channels[request[0]&0xf]
	if !found {
		return invalidField, nil
	}
	const ipmb, multiSession = 0x01, 0x80
	return ok, []byte{request[0] & 0xf, c.Medium, ipmb, multiSession, 0xf2, 0x1b, 0, 0, 0}
}

// lanParameter is Get LAN Configuration Parameters (section 23.2).
func (b *BMC) lanParameter(request []byte) (uint8, []byte) {
	if len(request) != 4 {
		return invalidLength, nil
	}
	c, found := b.channels[request[0]&0xf]
	if !found {
		return invalidField, nil
	}
	sets, found := c.Parameters[request[1]]
	switch {
	case !found:
		return noParameter, nil
	case int(request[2]) >= len(sets):
		return parameterRange, nil
	}
	const revision = 0x11
	return ok, append([]byte{revision}, sets[request[2]]...)
}
