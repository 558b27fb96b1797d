package verdict

// adopt carries over what is remembered of other controllers' sensors as if they were the BMC's
// own: an earlier version read ipmitool's lists, which do not tell them apart. It knows them
// by all else that they have in common.
func (j *judgement) adopt() {
	for _, s := range j.in.Sensors {
		k := keyOf(s)
		own := k
		own.Owner, own.LUN = 0, 0
		if _, listed := j.sensors[own]; k == own || listed {
			continue
		}
		for state := range uint8(16) {
			before := own.state(state)
			p := j.points[before]
			if p == nil || p.Name != clean(s.Name) {
				continue
			}
			delete(j.points, before)
			if now := k.state(state); j.points[now] == nil {
				p.key = now
				j.points[now] = p
			}
		}
	}
}
