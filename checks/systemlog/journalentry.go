package systemlog

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// journalEntry is an entry of the journal. Its message is empty if it has none.
type journalEntry struct {
	logLine
	cursor string // names the entry
}

// parseJournalEntry reads one line of journalctl's JSON format
// (https://systemd.io/JOURNAL_EXPORT_FORMATS/#journal-json-format).
func parseJournalEntry(line []byte) (*journalEntry, error) {
	var fields struct {
		Cursor       string          `json:"__CURSOR"`
		Microseconds string          `json:"__REALTIME_TIMESTAMP"`
		Message      json.RawMessage `json:"MESSAGE"`
	}
	if err := json.Unmarshal(line, &fields); err != nil {
		return nil, fmt.Errorf("entry of the journal: %w", err)
	}
	microseconds, err := strconv.ParseInt(fields.Microseconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("entry of the journal: __REALTIME_TIMESTAMP: %w", err)
	}
	message, err := journalText(fields.Message)
	if err != nil {
		return nil, fmt.Errorf("entry of the journal: MESSAGE: %w", err)
	}
	return &journalEntry{
		logLine: logLine{Timestamp: time.UnixMicro(microseconds), Message: strings.TrimSpace(message)},
		cursor:  fields.Cursor,
	}, nil
}

// journalText is the value of a field: a string; null if it was too long; an
// array of byte values if it is no UTF-8 text; or an array of such values, of
// which the first is taken, if the entry has the field several times.
func journalText(value json.RawMessage) (string, error) {
	if len(value) == 0 || value[0] != '[' {
		return plainText(value)
	}
	var values []json.RawMessage
	if err := json.Unmarshal(value, &values); err != nil || len(values) == 0 {
		return "", err
	}
	if first := values[0]; first[0] == '"' || first[0] == 'n' {
		return plainText(first)
	} else if first[0] == '[' {
		value = first
	}
	var raw []byte
	if err := json.Unmarshal(value, &raw); err != nil {
		return "", err
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD"), nil
}

// plainText is that of a string, or of null: none.
func plainText(value json.RawMessage) (text string, err error) {
	if len(value) > 0 {
		err = json.Unmarshal(value, &text)
	}
	return text, err
}
