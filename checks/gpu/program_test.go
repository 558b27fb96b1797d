package gpu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// smi writes a script in the place of nvidia-smi, which notes its arguments.
func smi(t *testing.T, script string) *program {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho \"$1\" >>"+path+".asked\n"+script), 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	return &program{path: path, limit: time.Minute}
}

// asked are the first arguments of all calls.
func (p *program) asked(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(p.path + ".asked")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func TestNvidiaSMIIsRun(t *testing.T) {
	p := smi(t, "[ $# = 2 -a \"$2\" = --format=csv,noheader,nounits ] || exit 2\ncat <<'E'\n"+realRow+"E\n")
	a := p.ask(t.Context(), "580")
	if a.err != nil || a.rows["0000:00:06.0"][fieldSerial] != "1650000000001" || len(a.untold) > 0 {
		t.Errorf("got %+v", a)
	}
	if got := p.asked(t); len(got) != 1 || got[0] != "--query-gpu="+strings.Join(fields(), ",") {
		t.Errorf("asked %q", got)
	}
}

// An old one knows neither the recovery action nor remapped rows as fields of a GPU.
func TestFieldsThatAreNotKnownAreLeftOutUntilTheDriverIsAnotherOne(t *testing.T) {
	p := smi(t, `
case "$1" in
*query-gpu=*gpu_recovery_action*) echo 'Field "gpu_recovery_action" is not a valid field to query.'; exit 2 ;;
*query-gpu=*remapped_rows.pending*) echo 'Field "remapped_rows.pending" is not a valid field to query.'; exit 2 ;;
*query-gpu=*remapped_rows.failure*) echo 'Field "remapped_rows.failure" is not a valid field to query.'; exit 2 ;;
*remapped-rows=*) echo 00000000:00:06.0, Yes, No ;;
*) echo 00000000:00:06.0, A100, GPU-1, 165, 0, '[N/A]', Not Active, Not Active ;;
esac`)
	for _, want := range []int{5, 7} {
		a := p.ask(t.Context(), "470")
		row := a.rows["0000:00:06.0"]
		if a.err != nil || row[fieldPending] != "Yes" || row[fieldFailed] != "No" || row[fieldPower] != "Not Active" || strings.Join(a.untold, " ") != fieldRecovery {
			t.Errorf("got %+v", a)
		}
		if got := len(p.asked(t)); got != want {
			t.Errorf("%d calls, want %d", got, want)
		}
	}
	p.ask(t.Context(), "580")
	if got := len(p.asked(t)); got != 12 {
		t.Errorf("%d calls, want 12: another driver may know more", got)
	}
}

func TestNvidiaSMIThatDoesNotAnswerIsKilled(t *testing.T) {
	p := smi(t, "sleep 1000 & wait")
	p.limit = 0
	if a := p.ask(t.Context(), ""); !a.late {
		t.Errorf("got %+v", a)
	}
}

func TestNvidiaSMIThatFailsSaysWhy(t *testing.T) {
	for script, want := range map[string]string{
		"echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18": "Failed to initialize NVML: Driver/library version mismatch",
		"echo 'Unable to open it' >&2; exit 4":                                       "Unable to open it",
	} {
		if a := smi(t, script).ask(t.Context(), ""); a.err != nil || a.rest != want {
			t.Errorf("got %+v", a)
		}
	}
	if a := smi(t, "exit 3").ask(t.Context(), ""); a.err == nil || !strings.Contains(a.err.Error(), "exit status 3") {
		t.Errorf("got %+v", a)
	}
	if a := (&program{path: "/no/such/nvidia-smi", limit: time.Minute}).ask(t.Context(), ""); a.err == nil || !strings.Contains(a.err.Error(), "nvidiaSMI is set") {
		t.Errorf("got %+v", a)
	}
}

func TestNvidiaSMIRunsBelowItsRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to change the root of a program")
	}
	a := (&program{path: "/nvidia-smi", root: statically(t), limit: time.Minute}).ask(t.Context(), "")
	if a.err != nil || a.rest != "in /" {
		t.Errorf("got %+v", a)
	}
}

// statically returns a folder with a program that needs no other file, and says where it is.
func statically(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	self, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Skipf("needs a static busybox: %v", err)
	}
	if err := os.WriteFile(filepath.Join(root, "sh"), self, 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "nvidia-smi"), []byte("#!/sh\necho in $PWD; [ ! -e /etc ]\n"), 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	return root
}
