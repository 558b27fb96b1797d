package ipmi

import "fmt"

// relativeInstance is the first instance that is relative to a management controller (IPMI
// 2.0, section 39.1).
const relativeInstance = 0x60

// Name returns what people call the entity, by table 43-13 and its instance: "Power Supply
// 2"; "" if the table here has no name for it, or it has no instance.
func (e Entity) Name() string {
	instance := e.Instance
	if instance >= relativeInstance {
		instance -= relativeInstance
	}
	name := entities[e.ID]
	if name == "" || e.Instance == 0 {
		return ""
	}
	return fmt.Sprintf("%s %d", name, instance)
}

// String returns the entity as ipmitool writes it: "10.2".
func (e Entity) String() string { return fmt.Sprintf("%d.%d", e.ID, e.Instance) }

// entities are those that are exchanged, or carry what is (table 43-13).
var entities = map[uint8]string{
	3:  "Processor",
	4:  "Disk",
	5:  "Peripheral Bay",
	7:  "System Board",
	8:  "Memory Module",
	9:  "Processor Module",
	10: "Power Supply",
	11: "Add-in Card",
	15: "Drive Backplane",
	16: "Back Panel Board",
	17: "Front Panel Board",
	19: "Power Unit",
	20: "Power Module",
	21: "Power Distribution Board",
	26: "Disk Drive Bay",
	27: "Peripheral Bay",
	28: "Device Bay",
	29: "Fan",
	30: "Cooling Unit",
	31: "Cable",
	32: "Memory Device",
	40: "Battery",
	41: "Processing Blade",
}
