package proof

import (
	"encoding/json"
	"errors"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
)

// OfAction returns the proof that the remote runner has kept in an action. The error says why what
// is there proves nothing. Which boot it is about, [Proof.Proves] tells.
func OfAction(action *v1alpha1.NodeAction) (Proof, error) {
	if action.Status.Power == nil {
		return Proof{}, errNone
	}
	return of(action.Spec.NodeName, action.Status.Power.Proof)
}

// OfMaintenance is OfAction, of a maintenance.
func OfMaintenance(m *v1alpha1.NodeMaintenance) (Proof, error) {
	if m.Status.Power == nil {
		return Proof{}, errNone
	}
	return of(m.Spec.NodeName, m.Status.Power.Proof)
}

var errNone = errors.New("there is none")

func of(node string, kept *v1alpha1.PowerProof) (proved Proof, err error) {
	if kept == nil {
		return proved, errNone
	}
	machine, err := power.ParseUUID(kept.Machine)
	if err != nil {
		return proved, err
	}
	record := Record{
		Kind: kept.Kind, Node: node, BootID: kept.BootID, Machine: machine,
		Reader: kept.Reader, Switch: kept.Switch, Apart: kept.Apart.Duration,
	}
	for _, r := range []struct {
		kept *v1alpha1.PowerReading
		to   *ReadRecord
	}{{&kept.First, &record.First}, {&kept.Second, &record.Second}} {
		guid, err := power.ParseGUID(r.kept.GUID)
		if err != nil {
			return proved, err
		}
		*r.to = ReadRecord{Time: r.kept.Time.Time, GUID: guid, Order: power.Order(r.kept.Order), Power: power.Off}
	}
	text, err := json.Marshal(record)
	if err != nil {
		return proved, err
	}
	err = json.Unmarshal(text, &proved)
	return proved, err
}
