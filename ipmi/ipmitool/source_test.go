package ipmitool

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

func TestSecretsAreNotOnTheCommandLine(t *testing.T) {
	f := newFake(t, fakeProgram)
	f.says("chassis status", fixture(t, "on-chassis-status.txt"))
	f.write("password", "pass word\n")
	f.write("key", "the key\nnot this\n")
	password, key := filepath.Join(f.dir, "password"), filepath.Join(f.dir, "key")
	s := f.source(Options{Host: "bmc.example", Port: 6230, User: "reader", PasswordFile: password, KeyFile: key, CipherSuite: 17})
	if _, err := s.Chassis(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"-I", "lanplus", "-C", "17", "-H", "bmc.example", "-p", "6230", "-U", "reader", "-f", password, "-K",
		"exec", "/dev/stdin",
	}
	if got := f.kept("arguments"); !slices.Equal(got, want) {
		t.Errorf("arguments %q, want %q", got, want)
	}
	environment := f.kept("environment")
	for _, want := range []string{"LC_ALL=C", "TZ=UTC", "IPMI_KGKEY=the key"} {
		if !slices.Contains(environment, want) {
			t.Errorf("the environment %q lacks %q", environment, want)
		}
	}
	if s.String() != "ipmitool at bmc.example:6230" {
		t.Errorf("it is named %q", s)
	}
}

func TestInBandIsTheDefault(t *testing.T) {
	f := newFake(t, fakeProgram)
	f.says("chassis status", fixture(t, "on-chassis-status.txt"))
	s := f.source(Options{})
	if _, err := s.Chassis(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := f.kept("arguments"), []string{"-I", "open", "exec", "/dev/stdin"}; !slices.Equal(got, want) {
		t.Errorf("arguments %q, want %q", got, want)
	}
	if s.String() != "ipmitool" {
		t.Errorf("it is named %q", s)
	}
}

func TestARefusedRestartCauseIsUnknown(t *testing.T) {
	const status, cause = "chassis status", "chassis restart_cause"
	for name, test := range map[string]struct {
		complaint string
		wantError bool
	}{
		"refused":    {complaint: "Get Chassis Restart Cause failed: Invalid command\n"},
		"no answer":  {complaint: "Unable to get Chassis Restart Cause\n", wantError: true},
		"only noise": {complaint: "IANA PEN registry open failed: No such file or directory\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, fakeProgram)
			f.says(status, fixture(t, "on-chassis-status.txt"))
			f.complains(cause, test.complaint)
			f.fails(cause)
			chassis, err := f.source(Options{}).Chassis(t.Context())
			if test.wantError {
				if !errors.Is(err, ErrIncomplete) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil || chassis != (ipmi.Chassis{PowerOn: true}) {
				t.Errorf("got %+v, %v", chassis, err)
			}
		})
	}
}

func TestTheBMCHasItsNameFromTheSDRs(t *testing.T) {
	f := newFake(t, fakeProgram)
	f.says("mc info", fixture(t, "mc-info.txt"))
	f.says("sdr elist mcloc", fixture(t, "sdr-elist-mcloc.txt"))
	s := f.source(Options{})
	id, err := s.DeviceID(t.Context())
	if err != nil || id.Name != "node-bmc" || id.Firmware != "2.14" {
		t.Errorf("got %+v, %v", id, err)
	}

	f.says("sdr elist mcloc", "")
	f.fails("sdr elist mcloc")
	id, err = s.DeviceID(t.Context())
	if err != nil || id.Name != "" || id.Firmware != "2.14" {
		t.Errorf("without SDRs: got %+v, %v", id, err)
	}

	f.says("mc info", "")
	f.complains("mc info", "Get Device ID command failed\n")
	if _, err = s.DeviceID(t.Context()); err == nil || !strings.Contains(err.Error(), "Get Device ID command failed") {
		t.Errorf("without an ID: error %v", err)
	}
}

func TestSensorsAreAllOrNone(t *testing.T) {
	const list = "verbose sdr list"
	for name, test := range map[string]struct {
		stderr string
		fails  bool
		want   string // in the error
	}{
		"all":                  {},
		"noise":                {stderr: "IANA PEN registry open failed: No such file or directory\nWARNING: Unknown SDR repository version 0x52\nSEL has no entries\nGet HPM.x Capabilities request failed, compcode = c9\n"},
		"cut off, with code 0": {stderr: "Get SDR 0005 command failed\n", want: "Get SDR 0005 command failed"},
		"a record is missing":  {stderr: "ipmitool: ipmi_sdr_get_record() failed\n", fails: true, want: "exit status 1"},
		"no repository":        {stderr: "Unable to open SDR for reading\n", fails: true, want: "Unable to open SDR"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, fakeProgram)
			f.says(list, fixture(t, "healthy-sensors.txt"))
			f.complains(list, test.stderr)
			if test.fails {
				f.fails(list)
			}
			sensors, err := f.source(Options{}).Sensors(t.Context())
			if test.want == "" {
				if err != nil || len(sensors) != 10 {
					t.Errorf("got %d sensors, %v", len(sensors), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %d sensors, error %v, want one with %q", len(sensors), err, test.want)
			}
		})
	}
}

func TestTheSELIsOnlyReadWhenItHasChanged(t *testing.T) {
	f := newFake(t, fakeProgram)
	s := f.source(Options{})
	everything := []string{"sel info", "sel elist", "verbose sel list", "verbose sel info"}
	nothing := []string{"sel info"}
	events := func(after ipmi.Cursor, commands []string, want int) ipmi.EventLog {
		t.Helper()
		if info, err := os.ReadFile(filepath.Join(f.dir, "sel info")); err == nil {
			f.says("verbose sel info", string(info))
		}
		log, err := s.Events(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.kept("commands"); !slices.Equal(got, commands) {
			t.Errorf("it has run %q, want %q", got, commands)
		}
		if len(log.Events) != want || log.Restarted {
			t.Errorf("got %d events, want %d; restarted %t", len(log.Events), want, log.Restarted)
		}
		return log
	}
	f.sel(20)
	log := events(ipmi.Cursor{}, everything, 20)
	again := events(log.Next, nothing, 0)
	if again.Next != log.Next || again.Total != 20 {
		t.Errorf("the cursor was %+v, now it is %+v; %d records", log.Next, again.Next, again.Total)
	}
	f.sel(22)
	log = events(log.Next, append(nothing, everything...), 2)
	events(log.Next, nothing, 0)

	// Another reader's cursor.
	events(ipmi.Cursor{ID: 0x10, Timestamp: log.Next.Timestamp, Read: true}, everything, 6)
	// After a restart.
	s = f.source(Options{})
	log = events(log.Next, everything, 0)

	// When records take the place of others, nothing is told by their number.
	info, err := os.ReadFile(filepath.Join(f.dir, "sel info"))
	if err != nil {
		t.Fatal(err)
	}
	f.says("sel info", strings.Replace(string(info), "false", "true", 1))
	log = events(log.Next, append(nothing, everything...), 0)
	if !log.Full {
		t.Error("an overflow is not told")
	}
	events(log.Next, everything, 0)
}

func TestASELThatIsCutOffIsAnError(t *testing.T) {
	f := newFake(t, fakeProgram)
	f.sel(20)
	f.says("verbose sel info", fixture(t, "faults-sel-info.txt"))
	f.complains("verbose sel list", "Get SEL Entry 15 command failed: Node busy\n")
	_, err := f.source(Options{}).Events(t.Context(), ipmi.Cursor{})
	if !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), "Node busy") {
		t.Errorf("error %v", err)
	}
}

func TestFailuresTellWhatToDo(t *testing.T) {
	for name, test := range map[string]struct {
		stderr string
		want   error
		words  string
	}{
		"no device": {
			"Could not open device at /dev/ipmi0 or /dev/ipmi/0 or /dev/ipmidev/0: No such file or directory\n",
			ErrNoDevice, "modules ipmi_devintf and ipmi_si",
		},
		"no session": {
			"Error in open session response message : invalid authentication algorithm\n\nError: Unable to establish IPMI v2 / RMCP+ session\n",
			ErrNoSession, "invalid authentication algorithm; Error: Unable to establish",
		},
		"another":        {"Encrypt test failed\n", nil, "exit status 1: Encrypt test failed"},
		"long complaint": {strings.Repeat("ä", 1000), nil, "ä…"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, "#!/bin/sh\ncat \"${0%/*}/stderr\" >&2\nexit 1\n")
			f.write("stderr", test.stderr)
			for _, call := range calls(f.source(Options{})) {
				err := call(t.Context())
				if err == nil || !strings.Contains(err.Error(), test.words) || test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v with %q", err, test.want, test.words)
				}
			}
		})
	}
}

// calls returns all that read the BMC.
func calls(s *Source) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"DeviceID": func(ctx context.Context) error { _, err := s.DeviceID(ctx); return err },
		"Chassis":  func(ctx context.Context) error { _, err := s.Chassis(ctx); return err },
		"Sensors":  func(ctx context.Context) error { _, err := s.Sensors(ctx); return err },
		"Events":   func(ctx context.Context) error { _, err := s.Events(ctx, ipmi.Cursor{}); return err },
	}
}

func TestOutputThatIsNoneIsAnError(t *testing.T) {
	for name, call := range calls(newFake(t, "#!/bin/sh\necho Hello\n").source(Options{})) {
		if err := call(t.Context()); !errors.Is(err, ErrIncomplete) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestEndlessOutputIsCutOff(t *testing.T) {
	if _, err := newFake(t, "#!/bin/sh\nexec yes\n").source(Options{}).Sensors(t.Context()); err == nil || !strings.Contains(err.Error(), "longer than 64 MiB") {
		t.Errorf("error %v", err)
	}
}

// hanging starts a child that does not end by itself, and keeps its output open.
const hanging = `#!/bin/sh
sleep 1000 &
echo $! >"${0%/*}/pid"
mv "${0%/*}/pid" "${0%/*}/child"
wait
`

func TestAHangingIPMItoolIsKilledWithAllThatItHasStarted(t *testing.T) {
	for name := range calls(nil) {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, hanging)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			done := make(chan error, 1)
			go func() { done <- calls(f.source(Options{}))[name](ctx) }()
			child := waitFor(t, filepath.Join(f.dir, "child"))
			stop := errors.New("somebody else's reason")
			cancel(stop)
			select {
			case err := <-done:
				if !errors.Is(err, stop) {
					t.Errorf("error %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("it has not returned")
			}
			eventually(t, "the end of its child", func() bool { return !alive(child) })
		})
	}
}

func TestABMCThatDoesNotAnswerInTimeIsAnError(t *testing.T) {
	_, err := newFake(t, hanging).source(Options{Timeout: 100 * time.Millisecond}).Chassis(t.Context())
	if !errors.Is(err, ipmi.ErrNoAnswer) || !strings.Contains(err.Error(), "100ms") {
		t.Errorf("error %v", err)
	}
}

// waitFor returns the content of a file as soon as it exists.
func waitFor(t *testing.T, path string) string {
	t.Helper()
	var content []byte
	eventually(t, path, func() bool {
		var err error
		content, err = os.ReadFile(path)
		return err == nil
	})
	return strings.TrimSpace(string(content))
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("no sign of %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// alive reports whether a process runs; one that is dead may wait to be reaped.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"no host":        {Options{User: "root", PasswordFile: password}, "set its host"},
		"no password":    {Options{Host: "bmc"}, "no password file"},
		"host an option": {Options{Host: "-v", PasswordFile: password}, "neither a name nor an address"},
		"long user":      {Options{Host: "bmc", User: strings.Repeat("u", 17), PasswordFile: password}, "longer than IPMI allows"},
		"port":           {Options{Host: "bmc", Port: 65536, PasswordFile: password}, "UDP port"},
		"cipher suite":   {Options{Host: "bmc", CipherSuite: 256, PasswordFile: password}, "cipher suite"},
		"timeout":        {Options{Timeout: -1}, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(test.options); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestAMissingIPMItoolIsTold(t *testing.T) {
	_, err := New(Options{Path: filepath.Join(t.TempDir(), "ipmitool")})
	if !errors.Is(err, ErrNoProgram) || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

func TestAPasswordIsLookedForEachTime(t *testing.T) {
	f := newFake(t, fakeProgram)
	f.says("chassis status", fixture(t, "on-chassis-status.txt"))
	password, key := filepath.Join(f.dir, "password"), filepath.Join(f.dir, "key")
	s := f.source(Options{Host: "bmc", PasswordFile: password, KeyFile: key})
	for _, test := range []struct{ password, key, want string }{
		{"", "", "password: open"},
		{"\n", "", "is empty"},
		{strings.Repeat("p", 21), "", "longer than IPMI allows"},
		{"p", "", "key: open"},
		{"p", "k", ""},
	} {
		if test.password != "" {
			f.write("password", test.password)
		}
		if test.key != "" {
			f.write("key", test.key)
		}
		_, err := s.Chassis(t.Context())
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("password %q, key %q: error %v, want %q", test.password, test.key, err, test.want)
		}
	}
}
