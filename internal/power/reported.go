package power

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// BMCAnnotation is the annotation by which a node reports its BMC, as a ReportedBMC.
const BMCAnnotation = "nodemend.dev/bmc"

const (
	// MaxAddresses is how many addresses a ReportedBMC has at most.
	MaxAddresses = 4
	// maxReported is how long its text may be. MaxAddresses and a GUID fit.
	maxReported = 512
)

// ReportedBMC is what a node has read of its BMC from inside. Whoever has root on the node may have
// written anything: it says where to ask, and proves nothing.
type ReportedBMC struct {
	// Addresses are those of its LAN channels, in their order; never empty.
	Addresses []netip.Addr `json:"addresses"`
	// GUID is the System GUID; nil: the BMC does not tell it from inside.
	GUID *GUID `json:"guid,omitempty"`
}

// String returns the value of the annotation.
func (r ReportedBMC) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		return "" // there is nothing in it that can't be encoded
	}
	return string(text)
}

// ParseReported reads the value of the annotation.
func ParseReported(text string) (r ReportedBMC, err error) {
	if len(text) > maxReported {
		return r, fmt.Errorf("it has more than %d characters", maxReported)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&r); err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more follows")
		}
	}
	switch {
	case err != nil:
		return ReportedBMC{}, fmt.Errorf("%.60q: %w: accepted is such as %s", text, err, `{"addresses":["10.0.0.7"],"guid":"4c4c4544-0032-3810-8052-b4c04f4a5731"}`)
	case len(r.Addresses) == 0 || len(r.Addresses) > MaxAddresses:
		return ReportedBMC{}, fmt.Errorf("%.60q has %d addresses: accepted are 1 to %d", text, len(r.Addresses), MaxAddresses)
	}
	for i, address := range r.Addresses {
		r.Addresses[i] = address.Unmap() // 10.0.0.7 is one address, however it is written
		if !address.IsValid() || address.Zone() != "" {
			return ReportedBMC{}, fmt.Errorf("%.60q has the address %q: accepted are addresses without a zone", text, address)
		}
	}
	return r, nil
}

// CutReported shortens a value of the annotation that is too long to be one, and leaves others as they are:
// a node may write any.
func CutReported(text string) string {
	if len(text) > maxReported {
		return text[:maxReported+1]
	}
	return text
}
