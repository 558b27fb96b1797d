package program

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodemend/nodemend/internal/power"
)

const (
	ours   = "4c4c4544-0032-3810-8052-b4c04f4a5731"
	theirs = "4c4c4544-0044-4a10-8031-c4c04f4b4832"
)

// agent keeps the power in a file, and what it was told in another one.
const agent = `#!/bin/sh
dir="${0%/*}"
input=$(cat)
printf '%s | %s\n' "$*" "$(printf '%s' "$input" | tr '\n' ' ')" >>"$dir/told"
echo "something else: $input" >&2
case "$input" in
*action=status)
	cat "$dir/uuid"
	read -r power <"$dir/power"
	[ "$power" = on ] || { echo Status: OFF; exit 2; }
	echo Status: ON ;;
*action=off) echo off >"$dir/power" ;;
*action=on) echo on >"$dir/power" ;;
*) exit 1 ;;
esac
`

type fixture struct {
	t   *testing.T
	dir string
}

func newFixture(t *testing.T, script string) fixture {
	t.Helper()
	f := fixture{t, t.TempDir()}
	f.write("agent", script)
	f.write("power", "on\n")
	f.write("uuid", "uuid="+ours+"\n")
	f.write("password", "s3cret word\n")
	return f
}

func (f fixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f fixture) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), []byte(text), 0o700); err != nil {
		f.t.Fatal(err)
	}
}

func (f fixture) read(name string) string {
	f.t.Helper()
	text, err := os.ReadFile(f.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	return string(text)
}

func (f fixture) start() *Switch {
	f.t.Helper()
	s, err := New(Options{
		Path: f.path("agent"), Name: "plug 7", Options: map[string]string{"plug": "7", "ip": "10.0.0.1"},
		Secrets: map[string]power.Secret{"password": {File: f.path("password")}},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func uuid(t *testing.T, text string) power.UUID {
	t.Helper()
	u, err := power.ParseUUID(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestAProgramSwitchesTheMachineThatItNames(t *testing.T) {
	f := newFixture(t, agent)
	s := f.start()
	for _, test := range []struct {
		do   func(context.Context, power.UUID, power.Still) error
		want power.State
	}{{s.Off, power.Off}, {s.Off, power.Off}, {s.On, power.On}, {s.On, power.On}} {
		if err := test.do(t.Context(), uuid(t, ours), nil); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Read(t.Context(), uuid(t, ours)); err != nil || r.Power != test.want || r.GUID.String() != ours {
			t.Errorf("got %+v, %v, want %s", r, err, test.want)
		}
	}
	first, _, _ := strings.Cut(f.read("told"), "\n")
	if want := " | ip=10.0.0.1 plug=7 password=s3cret word action=status"; first != want {
		t.Errorf("it was told %q, want no arguments, and %q", first, want)
	}
	if _, err := s.Identify(t.Context(), uuid(t, ours), true); !errors.Is(err, power.ErrUnsupported) {
		t.Errorf("identify: %v", err)
	}
}

func TestAProgramThatDoesNotNameTheMachineSwitchesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		says string
		want error
	}{
		"none, as all of fence-agents": {"", power.ErrNoIdentity},
		"another":                      {"uuid=" + theirs + "\n", power.ErrOtherMachine},
		"two":                          {"uuid=" + ours + "\nuuid=" + ours + "\n", power.ErrNoIdentity},
		"no UUID":                      {"uuid=plug 7\n", power.ErrNoIdentity},
		"that of many":                 {"uuid=00000000-0000-0000-0000-000000000000\n", power.ErrNoIdentity},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, agent)
			f.write("uuid", test.says)
			s := f.start()
			_, err := s.Read(t.Context(), uuid(t, ours))
			for _, err := range []error{err, s.Off(t.Context(), uuid(t, ours), nil), s.On(t.Context(), uuid(t, ours), nil)} {
				if !errors.Is(err, test.want) || !strings.Contains(err.Error(), "plug 7") {
					t.Errorf("got %v", err)
				}
			}
			if told := f.read("told"); strings.Contains(told, "action=off") || strings.Contains(told, "action=on") {
				t.Errorf("it was told %s", told)
			}
		})
	}
}

func TestAProgramIsNotToldWhatIsNotToBeAnyMore(t *testing.T) {
	f := newFixture(t, agent)
	s := f.start()
	for _, do := range []func(context.Context, power.UUID, power.Still) error{s.Off, s.On} {
		err := do(t.Context(), uuid(t, ours), func(context.Context) error {
			if !strings.Contains(f.read("told"), "action=status") {
				t.Error("it is asked before the program has said which machine it switches")
			}
			return errors.New("held by people")
		})
		if !errors.Is(err, power.ErrNotSent) || !strings.Contains(err.Error(), "plug 7: nothing was sent: held by people") {
			t.Errorf("got %v", err)
		}
	}
	if told := f.read("told"); strings.Contains(told, "action=off") || strings.Contains(told, "action=on") {
		t.Errorf("it was told %s", told)
	}
}

func TestAProgramThatFailsSaysOnlyThat(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   string
	}{
		"it can not tell":    {"#!/bin/sh\ncat >&2\nexit 1\n", "status ended with 1"},
		"it was killed":      {"#!/bin/sh\nkill -9 $$\n", "signal: killed"},
		"it is no program":   {"", "exec format error"},
		"off does not work":  {strings.Replace(agent, `echo off >"$dir/power"`, "cat >&2; exit 3", 1), "off ended with 3"},
		"it reads no input":  {"#!/bin/sh\nexit 7\n", "status ended with 7"},
		"it writes too much": {"#!/bin/sh\nhead -c 1000000 /dev/zero; cat \"${0%/*}/uuid\"; echo Status: ON\n", "0 lines that begin with Status:"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.script)
			err := f.start().Off(t.Context(), uuid(t, ours), nil)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("a secret is in it: %v", err)
			}
		})
	}
	f := newFixture(t, agent)
	s := f.start()
	if err := os.Remove(f.path("password")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context(), uuid(t, ours)); !errors.Is(err, os.ErrNotExist) || f.read("told") != "" {
		t.Errorf("without the secret: %v", err)
	}
	if err := os.Remove(f.path("agent")); err != nil {
		t.Fatal(err)
	}
	f.write("password", "s3cret")
	if _, err := s.Read(t.Context(), uuid(t, ours)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the program: %v", err)
	}
}

// Shells, Python, Go and agents without their key end with 2, too.
func TestAnExitStatusAloneTellsNothingOfThePower(t *testing.T) {
	for script, want := range map[string]string{
		"exit 2":                      "ended with 2, and wrote 0 lines",
		"exit 0":                      "ended with 0, and wrote 0 lines",
		"if then":                     "ended with 2, and wrote 0 lines", // no sh
		"exec /bin/sh /missing-agent": "wrote 0 lines",
		"echo Status: ON; exit 2":     "another Status:",
		"echo Status: OFF; exit 0":    "another Status:",
		"echo Status: off; exit 2":    "another Status:",
		"echo Status: OFF; echo Status: ON; exit 2": "wrote 2 lines",
		"echo Status: OFF >&2; exit 2":              "wrote 0 lines",
		"echo Status: OFF; exit 1":                  "ended with 1",
	} {
		f := newFixture(t, "#!/bin/sh\ncat >\"${0%/*}/told\"; cat \"${0%/*}/uuid\"\n"+script+"\n")
		if r, err := f.start().Read(t.Context(), uuid(t, ours)); err == nil || !strings.Contains(err.Error(), want) || r.Power != "" {
			t.Errorf("%s: got %+v, %v, want %q", script, r, err, want)
		}
		if err := f.start().Off(t.Context(), uuid(t, ours), nil); err == nil || strings.Contains(f.read("told"), "action=off") {
			t.Errorf("%s: it was told %s: %v", script, f.read("told"), err)
		}
	}
}

func TestAProgramThatHangsIsEnded(t *testing.T) {
	f := newFixture(t, "#!/bin/sh\necho >\"${0%/*}/begun\"\nexec sleep 1000\n")
	if err := syscall.Mkfifo(f.path("begun"), 0o600); err != nil {
		t.Fatal(err)
	}
	reason := errors.New("it has taken too long")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	s, machine := f.start(), uuid(t, ours)
	go func() { _, err := s.Read(ctx, machine); done <- err }()
	f.read("begun") // which waits for it
	cancel(reason)
	if err := <-done; !errors.Is(err, power.ErrNoAnswer) || !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
}

func TestAProgramThatNotEvenAKillEndsIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		hangs := make(chan struct{})
		defer close(hangs)
		if err := await(ctx, func() error { <-hangs; return nil }); !errors.Is(err, errHangs) {
			t.Errorf("got %v", err)
		}
	})
}

func TestOptionsThatCanNotWorkAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"a name":            {Options{Path: "fence_ipmilan"}, "not an absolute path"},
		"an action":         {Options{Path: "/a", Options: map[string]string{"action": "reboot"}}, "action is ours"},
		"no name":           {Options{Path: "/a", Options: map[string]string{"a b": ""}}, `"a b" is no name`},
		"two lines":         {Options{Path: "/a", Options: map[string]string{"a": "1\naction=reboot"}}, "several lines"},
		"twice":             {Options{Path: "/a", Options: map[string]string{"a": ""}, Secrets: map[string]power.Secret{"a": {}}}, "also one"},
		"a secret's action": {Options{Path: "/a", Secrets: map[string]power.Secret{"action": {}}}, "action is ours"},
	} {
		if _, err := New(test.options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
