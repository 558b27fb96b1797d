package ipmi

// Unit returns the unit of a reading as ipmitool writes it: "degrees C", "RPM",
// "Watts", "percent", "Volts/second". The arguments are bytes 21 to 23 of an SDR (IPMI
// 2.0, section 43.1): the flags and the codes of base and modifier unit (table
// 43-15). The rate unit of the flags is left out, as ipmitool does.
func Unit(flags, base, modifier uint8) string {
	const divided, multiplied = 1, 2
	percent := flags&1 != 0
	name := units.name(base)
	if name == "" {
		name = "invalid"
	}
	modifierName := units.name(modifier)
	if modifierName == "" {
		modifierName = "invalid"
	}
	switch flags >> 1 & 3 {
	case divided:
		name += "/" + modifierName
	case multiplied:
		name += "*" + modifierName
	default:
		if percent && base == 0 {
			return "percent"
		}
	}
	if percent {
		return "% " + name
	}
	return name
}

// units are the sensor unit type codes (table 43-15).
var units = stateTable{
	"unspecified", "degrees C", "degrees F", "degrees K", "Volts", "Amps", "Watts", "Joules", "Coulombs",
	"VA", "Nits", "lumen", "lux", "Candela", "kPa", "PSI", "Newton", "CFM", "RPM", "Hz", "microsecond",
	"millisecond", "second", "minute", "hour", "day", "week", "mil", "inches", "feet", "cu in", "cu feet",
	"mm", "cm", "m", "cu cm", "cu m", "liters", "fluid ounce", "radians", "steradians", "revolutions",
	"cycles", "gravities", "ounce", "pound", "ft-lb", "oz-in", "gauss", "gilberts", "henry", "millihenry",
	"farad", "microfarad", "ohms", "siemens", "mole", "becquerel", "PPM", "reserved", "Decibels", "DbA",
	"DbC", "gray", "sievert", "color temp deg K", "bit", "kilobit", "megabit", "gigabit", "byte",
	"kilobyte", "megabyte", "gigabyte", "word", "dword", "qword", "line", "hit", "miss", "retry", "reset",
	"overflow", "underrun", "collision", "packets", "messages", "characters", "error", "correctable error",
	"uncorrectable error", "fatal error", "grams",
}
