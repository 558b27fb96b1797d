package report

import (
	"testing"
	"time"
)

func TestAReportSaysInSentencesWhatWasProved(t *testing.T) {
	r := &Report{}
	if r.String() != "" {
		t.Errorf("without scenarios it says %q", r)
	}
	r.Add("TestAPodOfTheDetectorIsDeleted", "ok", 61*time.Second, []string{"the status stays"})
	r.Add("TestHardwareThatTheBMCReports/ipmitool", "FAIL", time.Second, nil)
	const want = `
ok     61 s  A pod of the detector is deleted
               - the status stays

FAIL    1 s  Hardware that the BMC reports: ipmitool
`
	if got := r.String(); got != want {
		t.Errorf("it says %s, want %s", got, want)
	}
}
