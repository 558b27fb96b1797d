package redfish

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nodemend/nodemend/ipmi"
)

// Types and states of the sensors that parts have (IPMI 2.0, tables 42-2 and 42-3).
const (
	severities     ipmi.EventType = 0x07
	devicePresence ipmi.EventType = 0x08

	severityOK, severityWarning, severityCritical uint16 = 1 << 0, 1 << 1, 1 << 2
	deviceAbsent, devicePresent                   uint16 = 1 << 0, 1 << 1
	drivePresent, drivePredicted                  uint16 = 1 << 0, 1 << 2
	supplyPresent, supplyFailed, supplyNoInput    uint16 = 1 << 0, 1 << 1, 1 << 3
)

// kind is a kind of parts.
type kind struct {
	name string
	ipmi.SensorType
}

// The kinds that are read.
var (
	kindTemperature = kind{"Temperature", 0x01}
	kindVoltage     = kind{"Voltage", 0x02}
	kindFan         = kind{"Fan", 0x04}
	kindProcessor   = kind{"Processor", 0x07}
	kindSupply      = kind{"Power supply", 0x08}
	kindMemory      = kind{"Memory", 0x0c}
	kindDrive       = kind{"Drive", 0x0d}
	kindSystem      = kind{"System", 0x12}
	// what leads to parts, see parts.resource
	kindResource = kind{"Resource", 0x25}
)

// text is a text that only describes: some services have a number there, or nothing.
type text string

// UnmarshalJSON takes a text or a number, and nothing of all else.
func (t *text) UnmarshalJSON(data []byte) error {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	switch v := value.(type) {
	case string:
		*t = text(strings.TrimSpace(v))
	case float64:
		*t = text(strconv.FormatFloat(v, 'f', -1, 64))
	default:
		*t = ""
	}
	return nil
}

// link is a reference to another resource.
type link struct {
	Path string `json:"@odata.id"`
}

// status is that of DSP0268 (Resource.Status).
type status struct {
	State        *string `json:"State,omitempty"`
	Health       *string `json:"Health,omitempty"`
	HealthRollup *string `json:"HealthRollup,omitempty"`
}

// resource is what all kinds of parts say: Memory, Processor, Drive, PowerSupply, Fan, and the
// members of Power and Thermal.
type resource struct {
	link
	ID       text   `json:"Id"`
	MemberID text   `json:"MemberId"`
	Name     text   `json:"Name"`
	FanName  text   `json:"FanName"`
	Status   status `json:"Status"`

	DeviceLocator    text   `json:"DeviceLocator"`
	Socket           text   `json:"Socket"`
	PhysicalLocation places `json:"PhysicalLocation"`
	Location         places `json:"Location"`

	Manufacturer    text `json:"Manufacturer"`
	Model           text `json:"Model"`
	PartNumber      text `json:"PartNumber"`
	SerialNumber    text `json:"SerialNumber"`
	FirmwareVersion text `json:"FirmwareVersion"`
	Revision        text `json:"Revision"`

	FailurePredicted *bool    `json:"FailurePredicted"`
	LineInputStatus  *string  `json:"LineInputStatus"`
	LineInputVoltage *float64 `json:"LineInputVoltage"`
}

// places are one place, or, of older drives, a list.
type places []place

type place struct {
	PartLocation struct {
		ServiceLabel text `json:"ServiceLabel"`
	} `json:"PartLocation"`
	Info text `json:"Info"`
}

// UnmarshalJSON takes both. What is neither is no place.
func (p *places) UnmarshalJSON(data []byte) error {
	var one place
	var list []place
	switch {
	case json.Unmarshal(data, &list) == nil:
		*p = list
	case json.Unmarshal(data, &one) == nil:
		*p = places{one}
	}
	return nil
}

// label returns the first name of a place.
func (p places) label() text {
	for _, place := range p {
		for _, label := range []text{place.PartLocation.ServiceLabel, place.Info} {
			if label != "" {
				return label
			}
		}
	}
	return ""
}

// said is the state of a resource as it is shown to people.
type said struct {
	status
	FailurePredicted *bool    `json:"FailurePredicted,omitempty"`
	LineInputStatus  *string  `json:"LineInputStatus,omitempty"`
	LineInputVoltage *float64 `json:"LineInputVoltage,omitempty"`
}

func (r resource) said() string {
	data, err := json.Marshal(said{r.Status, r.FailurePredicted, r.LineInputStatus, r.LineInputVoltage})
	if err != nil { // a number that is none
		return ""
	}
	const most = 300
	return string(data[:min(len(data), most)])
}

// names returns what people may call the part, the best first: as the board is labelled.
func (r resource) names(k kind) []text {
	names := []text{r.DeviceLocator, r.PhysicalLocation.label(), r.Location.label(), r.Name, r.FanName}
	if k == kindProcessor {
		names = []text{r.Socket, r.Location.label(), r.Name}
	}
	var distinct []text
	for _, name := range names {
		if name != "" && !slices.Contains(distinct, name) {
			distinct = append(distinct, name)
		}
	}
	return distinct
}

// number returns what tells the part from the others of its list.
func (r resource) number() text {
	if r.MemberID != "" {
		return r.MemberID
	}
	return r.ID
}

func (r resource) identity() *ipmi.Identity {
	const most = 64
	short := func(t text) string { return strings.ToValidUTF8(string(t[:min(len(t), most)]), "") }
	firmware := r.FirmwareVersion
	if firmware == "" {
		firmware = r.Revision
	}
	identity := ipmi.Identity{
		Manufacturer: short(r.Manufacturer), Model: short(r.Model), PartNumber: short(r.PartNumber),
		Serial: short(r.SerialNumber), Firmware: short(firmware),
	}
	if identity == (ipmi.Identity{}) {
		return nil
	}
	return &identity
}

// absent reports whether the resource says that there is no such part.
func (r resource) absent() bool { return r.Status.State != nil && *r.Status.State == "Absent" }

// health returns the part's health by its severity; problem is why it is not known, where a
// part that is in use should tell. A resource that is out of use may have none.
func (r resource) health() (severity uint16, problem string) {
	state := "Enabled"
	if r.Status.State != nil && *r.Status.State != "" {
		state = *r.Status.State
	}
	switch health := r.Status.Health; {
	case r.absent():
		return 0, ""
	case health == nil && state == "Enabled":
		return 0, "it does not tell its health"
	case health == nil:
		return 0, ""
	case *health == "OK":
		return severityOK, ""
	case *health == "Warning":
		return severityWarning, ""
	case *health == "Critical":
		return severityCritical, ""
	default:
		return 0, fmt.Sprintf("its health is %.20q, which is none of OK, Warning and Critical", *health)
	}
}

// noInput reports whether a power supply has no input: it says so, or it is not well and measures
// none. HPE's says it in words of its own; a supply in need of repair measures what is there.
func (r resource) noInput(severity uint16) bool {
	if r.LineInputStatus != nil {
		return *r.LineInputStatus == "LossOfInput"
	}
	return severity != severityOK && r.LineInputVoltage != nil && *r.LineInputVoltage < 1
}

// sensors returns those of a part with that name and path. What is not known of it has neither
// a reading nor a state.
func (r resource) sensors(k kind, name, path string) []ipmi.Sensor {
	severity, problem := r.health()
	health := ipmi.Sensor{
		Name: name, Type: k.SensorType, EventType: severities, Path: path, Identity: r.identity(), Said: r.said(),
		Available: severity != 0, States: severity, Problem: problem,
	}
	if problem != "" {
		health.Problem = fmt.Sprintf("%s: %s", name, problem)
	}
	presence := health
	presence.Problem, presence.States, presence.Available = "", 0, severity != 0 || r.absent()
	switch k {
	case kindSystem, kindTemperature, kindVoltage:
		return []ipmi.Sensor{health}
	case kindDrive:
		presence.EventType = ipmi.SensorSpecific
		if severity != 0 {
			presence.States = drivePresent
		}
		if r.FailurePredicted != nil && *r.FailurePredicted && !r.absent() {
			presence.Available, presence.States = true, drivePresent|drivePredicted
		}
	case kindSupply:
		presence.EventType = ipmi.SensorSpecific
		if severity != 0 {
			presence.States = supplyPresent
		}
		if severity == severityCritical { // which it tells itself
			presence.States |= supplyFailed
			health.States = 0
		}
		if !r.absent() && r.noInput(severity) {
			presence.Available, presence.States = true, presence.States|supplyPresent|supplyNoInput
		}
	default:
		presence.EventType = devicePresence
		switch {
		case r.absent():
			presence.States = deviceAbsent
		case severity != 0:
			presence.States = devicePresent
		}
	}
	return []ipmi.Sensor{health, presence}
}

// unread returns the sensors of a resource that can't be read.
func unread(k kind, name, path, problem string) []ipmi.Sensor {
	sensors := resource{}.sensors(k, name, path)
	for i := range sensors {
		sensors[i].Said = ""
	}
	sensors[0].Problem = fmt.Sprintf("%s: %s", name, problem)
	return sensors
}
