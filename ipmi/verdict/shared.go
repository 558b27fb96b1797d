package verdict

import (
	_ "embed"
	"regexp"
	"slices"
	"sync"
)

//go:embed shared.yaml
var sharedYAML []byte

// sharedSensor is a sensor that several memory modules share.
type sharedSensor struct {
	Maker         string   `yaml:"maker"`
	Manufacturers []uint32 `yaml:"manufacturers"` // of the BMC
	SensorName    string   `yaml:"sensorName"`
	// Slots is a pattern for the firmware's names of the slots that it is about.
	Slots  string `yaml:"slots"`
	Source string `yaml:"source"`

	name, slots *regexp.Regexp
}

var sharedSensors = sync.OnceValue(func() []sharedSensor {
	all := decoded[[]sharedSensor](sharedYAML)
	for i := range all {
		all[i].name, all[i].slots = pattern(all[i].SensorName), pattern(all[i].Slots)
	}
	return all
})

// sharedSlots returns which slots the memory sensor of that name is about, if it is known to be
// one of several modules; else nil.
func (j *judgement) sharedSlots(name string) *regexp.Regexp {
	if j.memory.BMC == nil {
		return nil
	}
	for _, s := range sharedSensors() {
		if slices.Contains(s.Manufacturers, j.memory.BMC.Manufacturer) && s.name.MatchString(name) {
			return s.slots
		}
	}
	return nil
}
