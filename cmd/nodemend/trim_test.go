package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

func TestTheProgramGoesOnWithFewerPagesInMemory(t *testing.T) {
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }() // was only read
	if program.Type != elf.ET_EXEC {
		t.Skip("this program is position independent")
	}
	before := fileBacked(t)
	if err := releaseProgram(); err != nil {
		t.Fatal(err)
	}
	if after := fileBacked(t); after >= before {
		t.Errorf("file-backed memory was %d kB and is %d kB", before, after)
	}
}

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
