package child

// Head is a writer that keeps the first bytes that are written to it, and never fails.
type Head struct {
	// Limit is how many.
	Limit int

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
	return len(data), nil
}

// String returns what was kept. Nobody may write by then.
func (h *Head) String() string { return string(h.kept) }

// Exceeded reports whether there was more.
func (h *Head) Exceeded() bool { return h.exceeded }
