package verdict

import (
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// Status is the gist of a verdict.
type Status string

// All statuses.
const (
	Healthy    Status = "healthy"
	Failed     Status = "failed"
	CannotTell Status = "cannotTell"
)

// Verdict is what a server's hardware is judged to be.
type Verdict struct {
	Status Status `json:"status"`
	// Reason is one CamelCase word for the node condition, without figures.
	Reason string `json:"reason"`
	// Message is for the people in the datacentre: the failures, most severe first,
	// then warnings and what is acknowledged, in at most MaxMessage bytes.
	Message string `json:"message"`
	// Failures are all of them, warnings and acknowledged ones included, in the
	// order of Message.
	Failures []Failure `json:"failures"`
}

// Failure is one thing that is, or may be, wrong with a component.
type Failure struct {
	// ID is another one for each incident: an acknowledgement can name it.
	ID        string `json:"id"`
	Component string `json:"component"` // "DIMM_A1"
	// Kind of the component: "Memory", "PowerSupply".
	Kind     Kind     `json:"kind"`
	What     string   `json:"what"` // "uncorrectable ECC"
	Severity Severity `json:"severity"`
	// Since is the time of the SEL record that began it, or when it was first seen.
	Since time.Time `json:"since"`
	// Source is where it was read: "SEL 0x07", "sensor PSU1 Status", "chassis status".
	Source string `json:"source"`
	// Record is the ID of that SEL record; 0 if there is none.
	Record uint16 `json:"record,omitempty"`
	// Data are the event data of that record, in hexadecimal, or the text of the entry.
	Data string `json:"data,omitempty"`
	// Raw is what was read, in bytes: "record 0700026f…", or of a sensor "number 0x03, states 0x0003".
	Raw  string `json:"raw,omitempty"`
	Rule string `json:"rule"` // its name
	// Module is the memory module that it is about; nil if that is not known for sure. Then
	// Candidates are those that it may be about. One without a size was there before.
	Module     *ipmi.Module  `json:"module,omitempty"`
	Candidates []ipmi.Module `json:"candidates,omitempty"`
	// Path is that of the part's resource, Identity what the resource says which part it is, and
	// Said its state in the words of the resource; of a source that knows parts.
	Path     string         `json:"path,omitempty"`
	Identity *ipmi.Identity `json:"identity,omitempty"`
	Said     string         `json:"said,omitempty"`
	// Unconfirmed is whether it was known before, and can't be seen to be
	// still there.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
	// NoInput is the power supply whose lost input explains it, which makes it a
	// warning; empty: none.
	NoInput string `json:"noInput,omitempty"`
	// History is whether it is only in the SEL, from before the first look at this server, so
	// that it is listed, but does not count.
	History bool `json:"history,omitempty"`
	// Acknowledged tells who has acknowledged it; nil: nobody.
	Acknowledged *Acknowledgement `json:"acknowledged,omitempty"`

	// forgotten is whether it is not known if it counts, as the memory is lost.
	forgotten bool
	recorded  time.Time // of Record; zero if the SEL had no clock
	rank      int       // of the rule: lower is more severe
}

// Counts reports whether f takes the server out of service, if it is not Unconfirmed.
func (f Failure) Counts() bool {
	return f.Severity == SeverityFailure && f.Acknowledged == nil && !f.History
}

// Input is what was read from a BMC, and when.
type Input struct {
	// Now is the time of the reading, by the clock of the node.
	Now time.Time
	// Watched is how long before the state was remembered, by a clock that nobody sets. While
	// it is 0 the times of both are compared, which a step of the clock changes.
	Watched time.Duration
	// BootID of the running kernel (/proc/sys/kernel/random/boot_id). While it is
	// empty no power-off releases a failure.
	BootID string

	// Kind is that of the source: empty for IPMI, or "redfish". What one has read can't be read on
	// by another.
	Kind string

	// BMC identifies it. It may be nil if State.KnowsBMC; before, parts are named less well.
	BMC *ipmi.DeviceID

	// Modules are those that the firmware has found at the start of this boot; empty: it is not
	// known.
	Modules []ipmi.Module

	// Each part with the error of reading it; the part is not looked at then, unless
	// that is ipmi.ErrPartial. Read the SEL before the sensors: what happens in between is seen at once.
	Chassis      ipmi.Chassis
	ChassisError error
	Sensors      []ipmi.Sensor
	SensorsError error
	// Log holds the records after State.Cursor.
	Log      ipmi.EventLog
	LogError error
}

// Judge returns the verdict on in by the rules, then the default ones, and what to
// remember for the next call. It keeps no reference to prev and does not change it.
func Judge(rules Rules, prev State, in Input) (Verdict, State) {
	j := newJudgement(rules, prev, in)
	j.findSensors()
	j.readModules()
	j.readSerials()
	j.readLog()
	j.readSensors()
	j.readChassis()
	j.readParts()
	j.noteModules()
	j.noteSerials()
	j.forget()
	verdict := j.verdict()
	return verdict, State{j.memorize()}
}
