package ipmi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits are those of a threshold sensor in the order of their bits, in its unit: from
// lower non-critical to upper non-recoverable (IPMI 2.0, section 35.9). nil is one that
// can't be read.
type Limits [6]*float64

// limitOrder has the names of limits in the order of their bits.
var limitOrder = [6]string{
	"lower non-critical", "lower critical", "lower non-recoverable", "upper non-critical", "upper critical", "upper non-recoverable",
}

// Believe takes those states from a threshold sensor that its limits make nonsense of, and
// says so in its Problem: limits that nobody has set, with which any reading is beyond
// one, and such as are swapped.
func (s *Sensor) Believe(limits Limits) {
	sensible := limits.sensible(s.Type)
	believed := s.States & sensible
	for _, pair := range [][2]int{{0, 1}, {0, 2}, {1, 2}, {3, 4}, {3, 5}, {4, 5}} {
		mild, grave := limits[pair[0]], limits[pair[1]]
		both := uint16(1)<<pair[0] | uint16(1)<<pair[1]
		if mild == nil || grave == nil || sensible&both != both || !misordered(pair[0] >= 3, *mild, *grave) {
			continue
		}
		// Which of the two is wrong is not known: both have to be passed.
		if believed&both != both {
			believed &^= both
		}
	}
	if believed != s.States {
		s.Problem = fmt.Sprintf("sensor %q (0x%02x): its limits make no sense: %s", s.Name, s.Number, limits)
	}
	s.States = believed
}

// misordered reports whether the graver limit is passed before the milder one.
func misordered(upper bool, mild, grave float64) bool {
	if upper {
		return grave < mild
	}
	return grave > mild
}

// sensible returns the bits of the limits that may be meant: none if a lower one is not
// below an upper one; no upper one of zero, and no lower one of zero but of a
// temperature, as nothing is below.
func (l Limits) sensible(t SensorType) uint16 {
	const temperature = 0x01
	var bits uint16
	var lower, upper []float64
	for i, limit := range l {
		if limit == nil {
			bits |= 1 << i // nothing is known against it
			continue
		}
		if *limit == 0 && (i >= 3 || t != temperature) {
			continue
		}
		bits |= 1 << i
		if i >= 3 {
			upper = append(upper, *limit)
		} else {
			lower = append(lower, *limit)
		}
	}
	if len(lower) > 0 && len(upper) > 0 && slices.Max(lower) >= slices.Min(upper) {
		return 0
	}
	return bits
}

// String returns those that can be read: "lower critical 95, upper critical 5".
func (l Limits) String() string {
	var all []string
	for i, limit := range l {
		if limit != nil {
			all = append(all, limitOrder[i]+" "+strconv.FormatFloat(*limit, 'f', -1, 64))
		}
	}
	return strings.Join(all, ", ")
}
