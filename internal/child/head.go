package child

import "errors"

// ErrTooLong is what a strict [Head] returns for what is beyond its limit.
var ErrTooLong = errors.New("too long")

// Head is a writer that keeps the first bytes that are written to it.
type Head struct {
	// Limit is how many.
	Limit int
	// Strict makes what is beyond an error, which closes the pipe of a child. Otherwise it
	// is left out.
	Strict bool

	kept     []byte
	exceeded bool
}

// Write implements io.Writer.
func (h *Head) Write(data []byte) (int, error) {
	room := h.Limit - len(h.kept)
	if len(data) <= room {
		h.kept = append(h.kept, data...)
		return len(data), nil
	}
	h.kept = append(h.kept, data[:room]...)
	h.exceeded = true
	if h.Strict {
		return room, ErrTooLong
	}
	return len(data), nil
}

// String returns what was kept. Nobody may write by then.
func (h *Head) String() string { return string(h.kept) }

// Exceeded reports whether there was more.
func (h *Head) Exceeded() bool { return h.exceeded }
