package main

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTheProgramGoesOnWithFewerPagesInMemory(t *testing.T) {
	program := fixedProgram(t)
	before := fileBacked(t)
	if err := releaseProgram(program); err != nil {
		t.Fatal(err)
	}
	if after := fileBacked(t); after >= before {
		t.Errorf("file-backed memory was %d kB and is %d kB", before, after)
	}
}

func TestWhatALockedProgramHasUsedCanNotBeTakenFromIt(t *testing.T) {
	program := fixedProgram(t)
	if err := unlimited(); err != nil {
		t.Skip(err)
	}
	if err := lockMemory(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munlockall(); err != nil {
			t.Error(err)
		}
	})
	if err := layoutOf(program).fetch(); err != nil {
		t.Fatal(err)
	}
	before := fileBacked(t)
	if err := releaseProgram(program); !errors.Is(err, unix.EINVAL) {
		t.Errorf("got the error %v of what is locked, want %v", err, unix.EINVAL)
	}
	debug.FreeOSMemory() // which Go can still do
	if after := fileBacked(t); after < before {
		t.Errorf("file-backed memory was %d kB and is %d kB", before, after)
	}
}

// fixedProgram is this program, if it lies in memory as in its file.
func fixedProgram(t *testing.T) *elf.File {
	t.Helper()
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() }) // was only read
	if program.Type != elf.ET_EXEC {
		t.Skip("this program is position independent")
	}
	return program
}

func TestALimitOfLockedMemoryIsAReasonNotToLock(t *testing.T) {
	if os.Getenv(limitedEnv) != "" {
		if err := unlimited(); err == nil {
			t.Error("without the right to lock memory nothing limits it")
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("it takes root to give up a right")
	}
	limited := exec.CommandContext(t.Context(), "setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", os.Args[0], "-test.run=^"+t.Name()+"$")
	limited.Env = append(os.Environ(), limitedEnv+"=1")
	if output, err := limited.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}

// limitedEnv is set for a process without the right to lock memory.
const limitedEnv = "NODEMEND_TEST_LIMITED"

// fileBacked is the resident memory of this process that is pages of files.
func fileBacked(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Skip("this kernel does not tell file-backed memory")
	}
	kilobytes, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes
}

func TestOnlyAProgramThatLiesInMemoryAsInItsFileIsReleased(t *testing.T) {
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { println(\"hello\") }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[string]bool{"exe": true, "pie": false} {
		t.Run(mode, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "program")
			build := exec.CommandContext(t.Context(), "go", "build", "-buildmode="+mode, "-o", program, source)
			build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
			if output, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			file, err := elf.Open(program)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = file.Close() }() // was only read
			clean := cleanSegments(file)
			if released := len(clean) > 0; released != want {
				t.Errorf("released are %x", clean)
			}
			for _, p := range file.Progs {
				for _, s := range clean {
					if p.Flags&elf.PF_W != 0 && uintptr(p.Vaddr) < s.to && s.from < uintptr(p.Vaddr+p.Memsz) {
						t.Errorf("released are %x, and in them what is written to: %+v", s, p.ProgHeader)
					}
				}
			}
		})
	}
}

// To register all API groups of Kubernetes touches 13 MiB of the program at each start.
func TestTheAgentKnowsOnlyTheAPIGroupsThatItNeeds(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags=agent", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(strings.Fields(string(out)), "k8s.io/client-go/kubernetes/scheme") {
		t.Error("it is linked with all: use internal/coreapi in the place of client-go/kubernetes")
	}
	// Nothing that runs on a node switches power from outside.
	if strings.Contains(string(out), "gophercloud") {
		t.Error("it is linked with what asks OpenStack")
	}
}
