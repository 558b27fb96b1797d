package main

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

func TestTheProgramGoesOnWithFewerPagesInMemory(t *testing.T) {
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
