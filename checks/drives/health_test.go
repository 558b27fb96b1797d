package drives

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// expect compares what a drive was understood to say.
func expect(t *testing.T, got health, err error, want health, texts ...string) {
	t.Helper()
	var found []string
	for _, f := range got.findings {
		found = append(found, f.Reason+": "+f.Text)
	}
	if err != nil || strings.Join(found, "\n") != strings.Join(texts, "\n") ||
		got.asleep != want.asleep || got.none != want.none || got.media != want.media || got.used != want.used || got.note() != want.note() {
		t.Errorf("got %+v, note %q, %v\nwant %+v, note %q, findings %q", got, got.note(), err, want, want.note(), texts)
	}
}

// nvmeLog is a health log of a drive that is well.
func nvmeLog(change func(log []byte)) []byte {
	log := make([]byte, healthLogSize)
	binary.LittleEndian.PutUint16(log[1:], 273+35)
	log[3], log[4] = 100, 10
	change(log)
	return log
}

func TestTheHealthLogOfNVMeIsUnderstood(t *testing.T) {
	spare := []string{"spare 100 %"}
	for name, test := range map[string]struct {
		change func(log []byte)
		want   health
		texts  []string
	}{
		"well":                      {func([]byte) {}, health{notes: spare}, nil},
		"worn":                      {func(log []byte) { log[5] = 255 }, health{notes: spare, used: 255}, nil},
		"of another vendor's cloud": {func(log []byte) { clear(log) }, health{}, nil},
		"media errors":              {func(log []byte) { log[160] = 7; log[161] = 1 }, health{notes: spare, media: 263}, nil},
		"more than can be counted":  {func(log []byte) { log[175] = 1 }, health{notes: spare, media: math.MaxUint64}, nil},
		"everything at once": {
			func(log []byte) { log[0], log[3] = 0x3f, 4 }, health{notes: []string{"spare 4 %"}},
			[]string{
				"DriveReadOnly: it lets nobody write any more",
				"DriveFailing: it says that it is not reliable any more",
				"SpareLow: spare 4 %, and at least 10 % should be left",
				"CacheUnprotected: its cache is not kept any more when the power is lost",
				"DriveReadOnly: its persistent memory can't be written any more, or is not reliable",
				"DriveTooHot: 35 °C, which its maker does not allow",
			},
		},
	} {
		t.Run(name, func(t *testing.T) { expect(t, decodeNVMe(nvmeLog(test.change)), nil, test.want, test.texts...) })
	}
}

func TestADriveWithoutAHealthLogSaysNothing(t *testing.T) {
	for _, status := range []errStatus{0x4002, 0x109, 0x2001} {
		got, err := refused(status)
		expect(t, got, err, health{none: true})
	}
	if _, err := refused(errStatus(0x006)); err == nil || !strings.Contains(err.Error(), "NVMe status 0x6") {
		t.Errorf("of an internal error: %v", err)
	}
}

// disk plays one that is spoken to by SCSI: what it answers to commands, by their first
// bytes.
type disk struct {
	*testing.T
	answers map[string]answer
	asked   []string
}

type answer struct {
	data, sense []byte
	err         error
}

func (d *disk) send(command, data []byte) ([]byte, error) {
	name := commandName(command)
	d.asked = append(d.asked, name)
	a, known := d.answers[name]
	if !known {
		return sense(illegalRequest, 0x20, 0), nil
	}
	copy(data, a.data)
	return a.sense, a.err
}

func commandName(command []byte) string {
	switch command[0] {
	case 0x85:
		name, known := map[byte]string{0xe5: "power", 0xb0: map[byte]string{0xd0: "data", 0xd1: "limits", 0xda: "status"}[command[4]]}[command[14]]
		if !known || len(command) != 16 || command[14] == smart && (command[10] != 0x4f || command[12] != 0xc2) {
			return "nonsense"
		}
		return name
	case requestSense:
		return "sense"
	case logSense:
		return map[byte]string{0x2f: "exceptions", 0x02: "written", 0x03: "read", 0x05: "verified", 0x11: "endurance"}[command[2]&0x3f]
	}
	return "nonsense"
}

// sense are sense data of a fixed form.
func sense(key, code, qualifier byte) []byte {
	return []byte{0: 0x70, 2: key, 7: 10, 12: code, 13: qualifier, 17: 0}
}

// returned are the registers in the form in which Linux passes them on.
func returned(count, mid, high byte) []byte {
	return []byte{0: 0x72, 1: recovered, 3: 0x1d, 7: 14, 8: 0x09, 9: 12, 13: count, 17: mid, 19: high, 21: 0x50}
}

// returnedFixed are they in the form in which some controllers do.
func returnedFixed(count, mid, high byte) []byte {
	return []byte{0: 0x70, 2: recovered, 6: count, 7: 10, 10: mid, 11: high, 12: 0, 13: 0x1d, 17: 0}
}

// smartTable is a table of SMART: entries of an id, flags, a value and a raw one.
func smartTable(entries ...[4]uint32) []byte {
	data := make([]byte, smartDataSize)
	for i, e := range entries {
		at := data[2+12*i:]
		at[0], at[1], at[3] = byte(e[0]), byte(e[1]), byte(e[2])
		binary.LittleEndian.PutUint32(at[5:], e[3])
	}
	return data
}

func TestADiskOfSATAIsUnderstood(t *testing.T) {
	active, well, failing := answer{sense: returned(0xff, 0, 0)}, answer{sense: returned(0, 0x4f, 0xc2)}, answer{sense: returned(0, 0xf4, 0x2c)}
	data := answer{data: smartTable([4]uint32{5, 3, 36, 900}, [4]uint32{187, 0x32, 95, 5}, [4]uint32{197, 0x12, 100, 2}, [4]uint32{194, 0x22, 30, 30})}
	limits := smartTable()
	limits[2], limits[3] = 5, 36
	limits[14], limits[15] = 187, 99 // beyond it, but it foretells nothing
	for name, test := range map[string]struct {
		answers map[string]answer
		want    health
		texts   []string
		asked   string
	}{
		"well":                     {map[string]answer{"power": active, "status": well, "data": data}, health{media: 5}, nil, "power status data"},
		"fails":                    {map[string]answer{"power": active, "status": failing, "data": data, "limits": {data: limits}}, health{media: 5}, []string{"DriveFailing: it says that it will fail soon (SMART), attribute 5 is 36, and has to be above 36"}, "power status data limits"},
		"fails, without any table": {map[string]answer{"power": active, "status": failing}, health{}, []string{"DriveFailing: it says that it will fail soon (SMART)"}, "power status data limits"},
		"fixed form":               {map[string]answer{"power": {sense: returnedFixed(0x80, 0, 0)}, "status": {sense: returnedFixed(0, 0xf4, 0x2c)}}, health{}, []string{"DriveFailing: it says that it will fail soon (SMART)"}, "power status data limits"},
		"in standby":               {map[string]answer{"power": {sense: returned(0, 0, 0)}, "status": failing}, health{asleep: true}, nil, "power"},
		"in standby y":             {map[string]answer{"power": {sense: returned(1, 0, 0)}}, health{asleep: true}, nil, "power"},
		"in standby, fixed form":   {map[string]answer{"power": {sense: returnedFixed(0, 0, 0)}}, health{asleep: true}, nil, "power"},
		"SMART is switched off":    {map[string]answer{"power": active, "status": {sense: sense(aborted, 0, 0)}}, health{none: true}, nil, "power status"},
		"no SMART":                 {map[string]answer{"power": active}, health{none: true}, nil, "power status"},
		"no pass through":          {nil, health{none: true}, nil, "power"},
		"registers are not passed": {map[string]answer{"power": {}}, health{none: true}, nil, "power"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &disk{T: t, answers: test.answers}
			got, err := askATA(d.send)
			expect(t, got, err, test.want, test.texts...)
			if asked := strings.Join(d.asked, " "); asked != test.asked {
				t.Errorf("it was asked for %s, want %s", asked, test.asked)
			}
		})
	}
	for _, broken := range []map[string]answer{
		{"power": {err: unix.EIO}},
		{"power": active, "status": {err: unix.EIO}},
		{"power": active, "status": well, "data": {err: unix.EIO}},
		{"power": active, "status": failing, "data": data, "limits": {err: unix.EIO}},
		{"power": active, "status": {sense: sense(0x4, 0x44, 0)}},
	} {
		if got, err := askATA((&disk{T: t, answers: broken}).send); err == nil {
			t.Errorf("%v: got %+v", broken, got)
		}
	}
}

// logPage is a page of a log: a parameter after the other, of a code and bytes.
func logPage(number byte, parameters ...[]byte) answer {
	all := bytes.Join(parameters, nil)
	return answer{data: append([]byte{number, 0, byte(len(all) >> 8), byte(len(all))}, all...)}
}

func parameter(code byte, value ...byte) []byte {
	return append([]byte{0, code, 3, byte(len(value))}, value...)
}

func TestADiskOfSASIsUnderstood(t *testing.T) {
	awake := answer{data: sense(0, 0, 0)}
	errorsOf := func(page, uncorrected byte) answer {
		return logPage(page, parameter(3, 0, 0, 0, 99), parameter(6, 0, 0, 0, 0, 0, 0, 1, uncorrected))
	}
	for name, test := range map[string]struct {
		answers map[string]answer
		want    health
		texts   []string
		asked   string
	}{
		"well": {
			map[string]answer{
				"sense": awake, "exceptions": logPage(0x2f, parameter(0, 0, 0, 38)),
				"read": errorsOf(3, 1), "written": errorsOf(2, 2), "verified": errorsOf(5, 3), "endurance": logPage(0x11, parameter(1, 0, 0, 0, 42)),
			},
			health{media: 3*256 + 6, used: 42}, nil, "sense exceptions read written verified endurance",
		},
		"fails":                  {map[string]answer{"sense": awake, "exceptions": logPage(0x2f, parameter(0, 0x5d, 0x10, 38))}, health{}, []string{"DriveFailing: it says that it will fail soon (SMART, 5D/10)"}, "sense exceptions read written verified endurance"},
		"hot":                    {map[string]answer{"sense": awake, "exceptions": logPage(0x2f, parameter(0, 0x0b, 0x01, 80))}, health{}, []string{"DriveTooHot: it is hotter than its maker allows"}, "sense exceptions read written verified endurance"},
		"tells nothing":          {map[string]answer{"sense": awake}, health{none: true}, nil, "sense exceptions read written verified endurance"},
		"counts errors alone":    {map[string]answer{"sense": awake, "read": errorsOf(3, 1)}, health{media: 257}, nil, "sense exceptions read written verified endurance"},
		"a page that is cut off": {map[string]answer{"sense": awake, "exceptions": logPage(0x2f, parameter(0, 0, 0, 38), []byte{0, 1, 3, 200})}, health{}, nil, "sense exceptions read written verified endurance"},
		"in standby":             {map[string]answer{"sense": {data: sense(0, 0x5e, 0x43)}}, health{asleep: true}, nil, "sense"},
		"stopped":                {map[string]answer{"sense": {data: sense(notReady, 0x04, 0x02)}}, health{asleep: true}, nil, "sense"},
		"stopped, as an error":   {map[string]answer{"sense": {sense: sense(notReady, 0x04, 0x02)}}, health{asleep: true}, nil, "sense"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &disk{T: t, answers: test.answers}
			got, err := askSCSI(d.send)
			expect(t, got, err, test.want, test.texts...)
			if asked := strings.Join(d.asked, " "); asked != test.asked {
				t.Errorf("it was asked for %s, want %s", asked, test.asked)
			}
		})
	}
	for _, broken := range []map[string]answer{
		{"sense": {err: unix.EIO}},
		{"sense": {data: sense(notReady, 0x04, 0x03)}},
		{"sense": awake, "exceptions": {err: unix.EIO}},
		{"sense": awake, "exceptions": {sense: sense(0x4, 0x44, 0)}},
		{"sense": awake, "exceptions": logPage(0x2e)},
		{"sense": awake, "read": {err: unix.EIO}},
		{"sense": awake, "endurance": {err: unix.EIO}},
	} {
		if got, err := askSCSI((&disk{T: t, answers: broken}).send); err == nil {
			t.Errorf("%v: got %+v", broken, got)
		}
	}
}

func TestADiskThatHasSomethingToTellFirstIsAskedAgain(t *testing.T) {
	calls := 0
	send := again(func(_, _ []byte) ([]byte, error) {
		calls++
		if calls < 3 {
			return sense(unitAttention, 0x29, 0), nil
		}
		return nil, nil
	})
	if got, err := send([]byte{requestSense}, nil); got != nil || err != nil || calls != 3 {
		t.Errorf("got %x, %v after %d calls", got, err, calls)
	}
	send = again(func(_, _ []byte) ([]byte, error) { return sense(unitAttention, 0x29, 0), nil })
	if got, err := send([]byte{requestSense}, nil); read(got).key != unitAttention || err != nil {
		t.Errorf("of one that says nothing else: got %x, %v", got, err)
	}
}

func TestAnErrorOfADiskNamesItsSense(t *testing.T) {
	_, err := askSCSI((&disk{T: t, answers: map[string]answer{"sense": {data: sense(notReady, 0x04, 0x03)}}}).send)
	var refusal errSense
	if !errors.As(err, &refusal) || err.Error() != "the disk refuses to tell its health, with SCSI sense 2/04/03" {
		t.Errorf("got %v", err)
	}
}

func TestAFileThatIsNoDriveIsNotAsked(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []drive{{device: "none", language: nvme}, {device: "none", language: scsi}} {
		if h := ask(dir, d); !errors.Is(h.err, unix.ENOENT) {
			t.Errorf("got %+v", h)
		}
	}
	for _, language := range []language{nvme, ata, scsi} {
		if h := ask("/dev", drive{device: "null", language: language}); h.err == nil {
			t.Errorf("/dev/null tells %+v", h)
		}
	}
}

func TestTheCommandsHaveTheFormThatLinuxTakes(t *testing.T) {
	if number := uint64(adminIOCTL); number != 0xc0484e41 {
		t.Errorf("NVME_IOCTL_ADMIN_CMD is %#x", number)
	}
	if size := unsafe.Sizeof(sgHeader{}); size != 88 {
		t.Errorf("struct sg_io_hdr has %d bytes", size)
	}
}
