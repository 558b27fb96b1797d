package proof

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nodemend/nodemend/internal/power"
)

// MinGap is how far two readings of off have to be apart. It is more than the time for which
// BMCs were seen to say off in between.
const MinGap = 2 * time.Second

// PowerOff is the kind of a proof.
const PowerOff = "PowerOff"

// Record is what a proof says, for people and for whoever comes later.
type Record struct {
	// Kind is PowerOff.
	Kind string `json:"kind"`
	// Node is the name of the node, and BootID its boot that is over.
	Node   string `json:"node"`
	BootID string `json:"bootID"`
	// Machine is the node's systemUUID.
	Machine power.UUID `json:"machine"`
	// Reader is who has read it, and Switch what from.
	Reader string `json:"reader"`
	Switch string `json:"switch"`
	// First and Second are the readings.
	First  ReadRecord `json:"first"`
	Second ReadRecord `json:"second"`
	// Apart is how long after the answer to the first the second was asked for, by a clock
	// that nobody sets.
	Apart time.Duration `json:"apart"`
}

// ReadRecord is a reading.
type ReadRecord struct {
	// Time of the answer.
	Time time.Time `json:"time"`
	// GUID is what the switch has called its machine, with the bytes as they came, and Order
	// that in which they are the node's systemUUID.
	GUID  power.GUID  `json:"guid"`
	Order power.Order `json:"order"`
	// Power is Off.
	Power power.State `json:"power"`
}

// Proof shows that a boot of a node is over. Only this package makes one, from two readings;
// one that is read from JSON has to say the same. The zero Proof proves nothing.
type Proof struct{ record Record }

// Proves reports whether the boot of the node is over.
func (p Proof) Proves(node, bootID string) bool {
	return p.record.problem() == nil && p.record.Node == node && p.record.BootID == bootID
}

// Record returns what the proof says.
func (p Proof) Record() Record { return p.record }

// String says it in a sentence.
func (p Proof) String() string {
	r := p.record
	if r.problem() != nil {
		return "no proof"
	}
	return fmt.Sprintf("the power of node %s was off: %s, whose GUID %s is the node's systemUUID %s, said so at %s and, %s later, at %s to %s",
		r.Node, r.Switch, r.First.GUID, r.Machine, r.First.Time.UTC().Format(time.RFC3339), r.Apart.Round(time.Millisecond),
		r.Second.Time.UTC().Format(time.RFC3339), r.Reader)
}

// MarshalJSON writes the record.
func (p Proof) MarshalJSON() ([]byte, error) { return json.Marshal(p.record) }

// UnmarshalJSON reads a record, and refuses one that proves nothing.
func (p *Proof) UnmarshalJSON(data []byte) error {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	if err := r.problem(); err != nil {
		return fmt.Errorf("this is no proof: %w", err)
	}
	p.record = r
	return nil
}

// problem says why the record proves nothing; nil if it does prove it.
func (r Record) problem() error {
	switch {
	case r.Kind != PowerOff:
		return fmt.Errorf("its kind is %q, not %s", r.Kind, PowerOff)
	case r.Node == "" || r.BootID == "":
		return errors.New("it names no boot of a node")
	case r.Apart < MinGap:
		return fmt.Errorf("its readings are %s apart, not %s", r.Apart, MinGap)
	}
	for _, read := range []ReadRecord{r.First, r.Second} {
		order, matches := read.GUID.Matches(r.Machine)
		switch {
		case read.Power != power.Off:
			return fmt.Errorf("the power was read %q", read.Power)
		case !matches || order != read.Order:
			return fmt.Errorf("the GUID %s is not that of machine %s in order %q", read.GUID, r.Machine, read.Order)
		}
	}
	return nil
}

// reading is one that a switch has answered.
type reading struct {
	asked, answered time.Time
	power.Reading
	err error
}

// isOff reports whether the reading says that this machine is off.
func (r reading) isOff(machine power.UUID) bool {
	_, matches := r.GUID.Matches(machine)
	return r.err == nil && matches && r.Power == power.Off
}

// prove returns the proof that two readings are if they are so far apart: since the first was
// asked for, there was no other reading than off.
func prove(plan Plan, gap time.Duration, first, second reading) (Proof, error) {
	r := Record{
		Kind: PowerOff, Node: plan.Node, BootID: plan.BootID, Machine: plan.Machine, Reader: plan.Reader, Switch: plan.Switch,
		First: plan.record(first), Second: plan.record(second), Apart: second.asked.Sub(first.answered),
	}
	err := errors.Join(first.err, second.err, r.problem())
	if r.Apart < gap {
		err = errors.Join(err, fmt.Errorf("the readings are %s apart, not %s", r.Apart, gap))
	}
	if err != nil {
		return Proof{}, err
	}
	return Proof{r}, nil
}

func (p Plan) record(r reading) ReadRecord {
	order, _ := r.GUID.Matches(p.Machine)
	return ReadRecord{Time: r.answered, GUID: r.GUID, Order: order, Power: r.Power}
}
