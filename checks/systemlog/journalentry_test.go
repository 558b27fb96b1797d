package systemlog

import (
	"strings"
	"testing"
	"time"
)

func TestJournalEntries(t *testing.T) {
	for name, tc := range map[string]struct{ message, want string }{
		"text":                  {`"out of memory\n"`, "out of memory"},
		"text of several lines": {`"a\nb"`, "a\nb"},
		"bytes":                 {`[104,105,32,255,33]`, "hi \uFFFD!"},
		"no bytes":              {`[]`, ""},
		"too long":              {`null`, ""},
		"several":               {`["first","second"]`, "first"},
		"several, first null":   {`[null,"second"]`, ""},
		"several, in bytes":     {`[[97,98],"second"]`, "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			log, err := parseJournalEntry([]byte(`{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"1700000000000001","MESSAGE":` + tc.message + `}`))
			if err != nil {
				t.Fatal(err)
			}
			if log.cursor != "s=1" || log.Message != tc.want || !log.Timestamp.Equal(time.Unix(1700000000, 1000)) {
				t.Errorf("got %q at %v, cursor %q, want %q", log.Message, log.Timestamp, log.cursor, tc.want)
			}
		})
	}
	for name, line := range map[string]string{
		"no JSON":                      `-- Logs begin at`,
		"cut off":                      `{"__REALTIME_TIMESTAMP":"17000`,
		"no time":                      `{"MESSAGE":"x"}`,
		"a time that is none":          `{"__REALTIME_TIMESTAMP":"soon","MESSAGE":"x"}`,
		"a message of an unknown kind": `{"__REALTIME_TIMESTAMP":"1","MESSAGE":{"a":1}}`,
		"a byte that is none":          `{"__REALTIME_TIMESTAMP":"1","MESSAGE":[1,256]}`,
		"nested arrays":                `{"__REALTIME_TIMESTAMP":"1","MESSAGE":[[[1]]]}`,
	} {
		if log, err := parseJournalEntry([]byte(line)); err == nil {
			t.Errorf("%s: accepted as %+v", name, log)
		}
	}
	if log, err := parseJournalEntry([]byte(`{"__REALTIME_TIMESTAMP":"1"}`)); err != nil || log.Message != "" {
		t.Errorf("an entry without message: got %v, %v", log, err)
	}
}

func FuzzJournalEntry(f *testing.F) {
	for _, message := range []string{`"x"`, `[104,105,255]`, `null`, `[]`, `[[1],[2]]`, `["a"]`, `[null]`, `{}`, `1`} {
		f.Add([]byte(`{"__REALTIME_TIMESTAMP":"1700000000000000","MESSAGE":` + message + `}`))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		log, err := parseJournalEntry(line)
		if (log == nil) == (err == nil) {
			t.Fatalf("got %v and %v", log, err)
		}
		if err == nil && log.Message != strings.ToValidUTF8(log.Message, "") {
			t.Errorf("%q is not valid UTF-8", log.Message)
		}
	})
}
