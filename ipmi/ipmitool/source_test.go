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
	"github.com/nodemend/nodemend/ipmi/device"
)

func TestSecretsAreNotOnTheCommandLine(t *testing.T) {
	f := newFake(t, fakeProgram)
	f.says(chassisStatus, on)
	f.write("password", "pass word\n")
	f.write("key", "the key\nnot this\n")
	password, key := filepath.Join(f.dir, "password"), filepath.Join(f.dir, "key")
	s := f.source(Options{Host: "bmc.example", Port: 6230, User: "reader", PasswordFile: password, KeyFile: key, CipherSuite: 17})
	if _, err := s.Chassis(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "-I lanplus -C 17 -H bmc.example -p 6230 -U reader -f " + password + " -K exec /dev/stdin"
	if got := f.kept("arguments"); !slices.Equal(got, []string{want}) {
		t.Errorf("arguments %q, want %q", got, want)
	}
	environment := f.kept("environment")
	for _, want := range []string{"LC_ALL=C", "IPMI_KGKEY=the key"} {
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
	f.says(chassisStatus, on)
	s := f.source(Options{})
	if _, err := s.Chassis(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.kept("arguments"); !slices.Equal(got, []string{"-I open exec /dev/stdin"}) {
		t.Errorf("arguments %q", got)
	}
	if s.String() != "ipmitool" {
		t.Errorf("it is named %q", s)
	}
}

func TestOneProgramIsRunUntilTheSourceRests(t *testing.T) {
	f := newFake(t, fakeProgram)
	f.says(chassisStatus, on)
	f.says(restartCause, " 04 00\n")
	s := f.source(Options{})
	for run := range 2 {
		for range 2 {
			if chassis, err := s.Chassis(t.Context()); err != nil || !chassis.PowerOn || chassis.RestartCause != ipmi.RestartWatchdog {
				t.Fatalf("the chassis is %+v, %v", chassis, err)
			}
		}
		if got := f.kept("commands"); !slices.Equal(got, []string{chassisStatus, restartCause, chassisStatus, restartCause}) {
			t.Errorf("commands %q", got)
		}
		s.Rest()
		s.Rest()
		if got := f.kept("arguments"); len(got) != 1 {
			t.Errorf("run %d: it was started %d times", run, len(got))
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := f.kept("ends"); len(got) != 2 {
		t.Errorf("it has ended by itself %d times, not 2", len(got))
	}
	if _, err := s.Chassis(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestAProgramThatDiesIsStartedAnew(t *testing.T) {
	f := newFake(t, fakeProgram)
	f.says(chassisStatus, on)
	f.write(restartCause+".dies", "")
	s := f.source(Options{})
	if chassis, err := s.Chassis(t.Context()); err == nil || !strings.Contains(err.Error(), "ipmitool: exit status 1") {
		t.Errorf("the chassis is %+v, %v", chassis, err)
	}
	if _, err := s.Chassis(t.Context()); err != nil {
		t.Error(err)
	}
	if got := f.kept("arguments"); len(got) != 2 {
		t.Errorf("it was started %d times", len(got))
	}
}

func TestOtherControllersAreBridgedTo(t *testing.T) {
	f := newFake(t, fakeProgram)
	f.says("raw 0x04 0x2d 0x07", " 2d c0 00 00\n")
	transport := &transport{options: Options{Timeout: time.Minute}, path: f.path}
	for _, test := range []struct {
		to   device.Target
		args string // "": not reached
	}{
		{device.Target{Owner: ipmi.BMCAddress}, "-I open exec /dev/stdin"},
		{device.Target{Owner: ipmi.BMCAddress, LUN: 1}, "-I open -l 1 exec /dev/stdin"},
		{device.Target{Owner: 0x2c}, "-I open -t 0x2c exec /dev/stdin"},
		{device.Target{Owner: 0x2c, Channel: 6, LUN: 3}, "-I open -t 0x2c -b 6 -l 3 exec /dev/stdin"},
		{device.Target{Owner: 0x41}, ""}, // software
		{device.Target{}, ""},
	} {
		if got := transport.Reaches(test.to); got != (test.args != "") {
			t.Errorf("%+v: reaches %t", test.to, got)
		}
		if test.args == "" {
			continue
		}
		for range 2 {
			answer, err := transport.SendRecvTo(t.Context(), test.to, 0x04, 0x2d, []byte{7})
			if err != nil || !slices.Equal(answer, []byte{0, 0x2d, 0xc0, 0, 0}) {
				t.Errorf("%+v: %x, %v", test.to, answer, err)
			}
		}
		if got := f.kept("arguments"); !slices.Equal(got, []string{test.args}) {
			t.Errorf("%+v: arguments %q", test.to, got)
		}
	}
	if err := transport.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnswersAreTheBytesAndCodesThatIPMItoolWrites(t *testing.T) {
	const send = "Unable to send RAW command (channel=0x0 netfn=0xa lun=0x0 cmd=0x43"
	for name, test := range map[string]struct {
		lines string
		want  []byte
		err   error
		says  string
	}{
		"bytes":                     {lines: "20 01 02", want: []byte{0, 0x20, 1, 2}},
		"several lines":             {lines: "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f\n10", want: []byte{0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
		"no bytes":                  {want: []byte{0}},
		"a completion code":         {lines: send + " rsp=0xcb): Requested sensor, data, or record not found", want: []byte{0xcb}},
		"one of a digit":            {lines: send + " rsp=0x1): Unknown (0x1)", want: []byte{0x01}},
		"noise before the bytes":    {lines: "IANA PEN registry open failed: No such file or directory\nGet Device ID failed\n2d c0", want: []byte{0, 0x2d, 0xc0}},
		"noise before a code":       {lines: "Received a response with unexpected ID 3 vs. 4\n" + send + " rsp=0xc3): Timeout", want: []byte{0xc3}},
		"no answer":                 {lines: send + ")", err: os.ErrDeadlineExceeded, says: "cmd=0x43"},
		"no answer, and why":        {lines: "Close Session command failed\n" + send + ")", err: os.ErrDeadlineExceeded, says: "Close Session"},
		"something else":            {lines: "Invalid command: raw", says: "Invalid command: raw"},
		"bytes that are none":       {lines: "0x20 0x01", says: "0x20"},
		"noise that ends in a code": {lines: "Get SEL failed rsp=0xcb", says: "rsp=0xcb"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			if test.lines != "" {
				lines = strings.Split(test.lines, "\n")
			}
			got, err := parse(lines)
			if !slices.Equal(got, test.want) || (err != nil) != (test.says != "") {
				t.Fatalf("%x, %v", got, err)
			}
			if err != nil && (!strings.Contains(err.Error(), test.says) || test.err != nil && !errors.Is(err, test.err)) {
				t.Errorf("error %v, want %v with %q", err, test.err, test.says)
			}
		})
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
		"nothing":        {"", nil, "exit status 1"},
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
func calls(s *device.Device) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"DeviceID": func(ctx context.Context) error { _, err := s.DeviceID(ctx); return err },
		"Chassis":  func(ctx context.Context) error { _, err := s.Chassis(ctx); return err },
		"Sensors":  func(ctx context.Context) error { _, err := s.Sensors(ctx); return err },
		"Events":   func(ctx context.Context) error { _, err := s.Events(ctx, ipmi.Cursor{}); return err },
	}
}

func TestOutputThatIsNoneIsAnError(t *testing.T) {
	for name, call := range calls(newFake(t, "#!/bin/sh\necho Hello\n").source(Options{})) {
		if err := call(t.Context()); err == nil || !strings.Contains(err.Error(), "it has ended: Hello") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestEndlessOutputIsCutOff(t *testing.T) {
	for name, program := range map[string]string{"lines": "exec yes", "one line": "exec cat /dev/zero"} {
		if _, err := newFake(t, "#!/bin/sh\n"+program+"\n").source(Options{}).Sensors(t.Context()); err == nil || !strings.Contains(err.Error(), "longer than 64 KiB") {
			t.Errorf("%s: error %v", name, err)
		}
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
			s := f.source(Options{})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			done := make(chan error, 1)
			go func() { done <- calls(s)[name](ctx) }()
			child := waitFor(t, filepath.Join(f.dir, "child"))
			cancel(errors.New("somebody else's reason"))
			select {
			case err := <-done:
				if !errors.Is(err, context.Canceled) || !errors.Is(err, ipmi.ErrNoAnswer) {
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

func TestAProgramThatDoesNotWantToEndIsKilled(t *testing.T) {
	f := newFake(t, strings.Replace(fakeProgram, "echo ended", "echo $$ >\"$dir/child\"; exec sleep 1000; echo ended", 1))
	f.says(chassisStatus, on)
	s := f.source(Options{})
	if _, err := s.Chassis(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Rest()
	child := waitFor(t, filepath.Join(f.dir, "child"))
	eventually(t, "its end", func() bool { return !alive(child) })
	if _, err := s.Chassis(t.Context()); err != nil {
		t.Error(err)
	}
}

// waitFor returns the content of a file as soon as it has any.
func waitFor(t *testing.T, path string) string {
	t.Helper()
	var content []byte
	eventually(t, path, func() bool {
		var err error
		content, err = os.ReadFile(path)
		return err == nil && len(content) > 0
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

func TestAPasswordIsLookedForAtEachStart(t *testing.T) {
	f := newFake(t, fakeProgram)
	f.says(chassisStatus, on)
	password, key := filepath.Join(f.dir, "password"), filepath.Join(f.dir, "key")
	s := f.source(Options{Host: "bmc", PasswordFile: password, KeyFile: key})
	for _, test := range []struct{ password, key, want string }{
		{"", "", "password: open"},
		{"\n", "", "is empty"},
		{strings.Repeat("p", 21), "", "longer than IPMI allows"},
		{"p", "", "key: open"},
		{"p", "k", ""},
		{"\n", "k", "is empty"},
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
		s.Rest()
	}
}
