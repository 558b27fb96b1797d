package power

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
)

// UUID is what a node calls its machine (status.nodeInfo.systemUUID), which is what the
// firmware says in SMBIOS. Its bytes are in the order of its text.
type UUID [16]byte

// GUID is what a switch calls its machine, with its bytes as they came. Which order they
// have differs: see [Orders].
type GUID [16]byte

// Order is one in which the bytes of a GUID may come.
type Order string

// Orders that are in use. IPMI 2.0, section 20.8, has the bytes of RFC 4122 in reverse; many
// BMCs hand on what SMBIOS has (DSP0134, section 7.2.1), where those of the first three
// groups are reversed; others, and all texts, have them as they are written.
const (
	RFC4122 Order = "RFC4122"
	SMBIOS  Order = "SMBIOS"
	IPMI    Order = "IPMI"
)

// Orders returns all of them.
func Orders() []Order { return []Order{RFC4122, SMBIOS, IPMI} }

var (
	// uuidText accepts what firmware and BMCs write: upper and lower case.
	uuidText = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)
	hyphens  = regexp.MustCompile(`-`)
)

// ParseUUID reads a UUID as people and nodes write it. One that many machines have, since
// their maker has set none, is an error: it does not tell them apart.
func ParseUUID(text string) (UUID, error) {
	u, err := parse(text)
	if err != nil {
		return UUID{}, err
	}
	if GUID(u).placeholder() {
		return UUID{}, fmt.Errorf("%w: %q is what machines have whose maker has set no UUID", ErrNoIdentity, text)
	}
	return u, nil
}

// ParseGUID reads the text of a GUID, and accepts any.
func ParseGUID(text string) (GUID, error) {
	u, err := parse(text)
	return GUID(u), err
}

func parse(text string) (u UUID, err error) {
	if !uuidText.MatchString(text) {
		return u, fmt.Errorf("%.60q is no UUID such as 4c4c4544-0032-3810-8052-b4c04f4a5731", text)
	}
	_, err = hex.Decode(u[:], []byte(hyphens.ReplaceAllString(text, "")))
	return u, err
}

// String returns the text, in lower case.
func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// MarshalText returns the text.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText is ParseUUID.
func (u *UUID) UnmarshalText(text []byte) (err error) {
	*u, err = ParseUUID(string(text))
	return err
}

// String returns the bytes as they came, grouped like a UUID.
func (g GUID) String() string { return UUID(g).String() }

// MarshalText returns the text.
func (g GUID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText is ParseGUID.
func (g *GUID) UnmarshalText(text []byte) (err error) {
	*g, err = ParseGUID(string(text))
	return err
}

// In returns the UUID that the bytes are in an order.
func (g GUID) In(order Order) UUID {
	u := UUID(g)
	switch order {
	case SMBIOS:
		slices.Reverse(u[:4])
		slices.Reverse(u[4:6])
		slices.Reverse(u[6:8])
	case IPMI:
		slices.Reverse(u[:])
	}
	return u
}

// Matches returns the first order in which the GUID is the UUID of the machine, and whether
// there is one. One that many machines have matches none.
func (g GUID) Matches(machine UUID) (Order, bool) {
	if g.placeholder() {
		return "", false
	}
	for _, order := range Orders() {
		if g.In(order) == machine {
			return order, true
		}
	}
	return "", false
}

// Alike returns the UUIDs, this one among them, that a GUID may match which matches this one, if
// in another order: of two nodes with such UUIDs nobody can tell which one is switched.
func (u UUID) Alike() (all []UUID) {
	for _, order := range Orders() {
		// An order applied twice is none, so this is what a switch of u says in it.
		said := GUID(GUID(u).In(order))
		for _, order := range Orders() {
			if is := said.In(order); !slices.Contains(all, is) {
				all = append(all, is)
			}
		}
	}
	return all
}

// placeholders are what firmware says of machines whose maker has set no UUID, so of many.
func placeholders() []string {
	return []string{
		"03000200-0400-0500-0006-000700080009", // American Megatrends' sample
		"12345678-1234-5678-90ab-cddeefaabbcc", // Gigabyte and others
		"12345678-1234-1234-1234-123456789abc",
		"01234567-89ab-cdef-0123-456789abcdef",
		"11111111-2222-3333-4444-555555555555",
	}
}

// placeholder reports whether the GUID is, in any order, of no machine in particular: all of
// its bytes are the same, or it is one of the placeholders.
func (g GUID) placeholder() bool {
	if !slices.ContainsFunc(g[1:], func(b byte) bool { return b != g[0] }) {
		return true
	}
	for _, order := range Orders() {
		if slices.Contains(placeholders(), g.In(order).String()) {
			return true
		}
	}
	return false
}
