package gpu

import (
	"cmp"
	"slices"
	"strings"
)

// known is what is remembered.
type known struct {
	// GPUs are those that the driver had.
	GPUs []remembered `json:"gpus"`
}

// remembered is what is remembered of a GPU.
type remembered struct {
	Address string `json:"address"`
	Model   string `json:"model,omitempty"`
	Serial  string `json:"serial,omitempty"`
	UUID    string `json:"uuid,omitempty"`
	// Told is whether the driver has ever told how it is.
	Told bool `json:"told,omitempty"`
}

// told is whether the driver has told of any GPU how it is.
func (k known) told() bool {
	return slices.ContainsFunc(k.GPUs, func(r remembered) bool { return r.Told })
}

// String is what people find it by.
func (r remembered) String() string {
	name := r.Address
	if r.Model != "" {
		name += " " + r.Model
	}
	if r.Serial != "" {
		name += " serial " + r.Serial
	}
	return name
}

// learn takes what is told of a GPU.
func (r *remembered) learn(g gpu, row map[string]string) {
	of := func(field string) string {
		value := row[field]
		if strings.HasPrefix(value, "[") || strings.HasPrefix(value, "ERR") || untold(value) {
			return ""
		}
		return value
	}
	r.Address = g.address
	r.Model = cmp.Or(of(fieldName), g.model, r.Model)
	r.Serial = cmp.Or(of(fieldSerial), r.Serial)
	r.UUID = cmp.Or(g.uuid, of(fieldUUID), r.UUID)
}

// meet returns what is remembered of the GPUs that are there, by their present addresses, and those
// that are missing. A GPU is known by its UUID, wherever it is, or else by its address. One that is
// looked at and was never met before is in the place of one that is not there: somebody has exchanged
// it.
func (k known) meet(gpus []gpu, uuid func(gpu) string, lookedAt func(gpu) bool) (met map[string]remembered, missing []remembered) {
	met, missing = map[string]remembered{}, slices.Clone(k.GPUs)
	take := func(is func(remembered) bool) (r remembered, found bool) {
		at := slices.IndexFunc(missing, is)
		if at < 0 {
			return r, false
		}
		r = missing[at]
		missing = slices.Delete(missing, at, at+1)
		return r, true
	}
	var others, fresh []gpu
	for _, g := range gpus {
		r, found := take(func(r remembered) bool { return r.UUID != "" && r.UUID == uuid(g) })
		if found {
			met[g.address] = r
		} else {
			others = append(others, g)
		}
	}
	for _, g := range others {
		r, found := take(func(r remembered) bool { return r.Address == g.address && (r.UUID == "" || uuid(g) == "") })
		if found {
			met[g.address] = r
		} else if lookedAt(g) {
			fresh = append(fresh, g)
		}
	}
	for _, g := range fresh {
		if _, here := take(func(r remembered) bool { return r.Address == g.address }); !here {
			take(func(remembered) bool { return true })
		}
	}
	return met, missing
}
