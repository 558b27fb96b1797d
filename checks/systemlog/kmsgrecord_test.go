package systemlog

import (
	"testing"
	"time"
)

func TestRecordsOfTheKernelLog(t *testing.T) {
	for name, tc := range map[string]struct {
		data string
		want record
	}{
		"plain":                {"6,339,5140900,-;NET: Registered protocol family 10\n", record{339, 5140900 * time.Microsecond, "NET: Registered protocol family 10"}},
		"with keys and values": {"3,7,1,-;nvme nvme0: I/O 12 timeout; reset\n SUBSYSTEM=nvme\n DEVICE=c241:0\n", record{7, time.Microsecond, "nvme nvme0: I/O 12 timeout; reset"}},
		"with a caller":        {"4,8,2,c,caller=T1; spaced \n", record{8, 2 * time.Microsecond, "spaced"}},
		"without message":      {"4,9,2,-;\n", record{9, 2 * time.Microsecond, ""}},
	} {
		if got, err := parseRecord([]byte(tc.data)); err != nil || got != tc.want {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	for _, data := range []string{"", "6,1,2,-", "6,1;x", "6,-1,2,-;x", "6,1,x,-;x", "6,1,9223372036854775,-;x\n", "6,1,18446744073709551615,-;x"} {
		if got, err := parseRecord([]byte(data)); (err == nil) != (got.message != "") || err == nil && got.sinceBoot < 0 {
			t.Errorf("%q: got %+v, %v", data, got, err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte("6,339,5140900,-,caller=T1;text\n KEY=value\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := parseRecord(data); err == nil && r.sinceBoot < 0 {
			t.Errorf("got %+v", r)
		}
	})
}
