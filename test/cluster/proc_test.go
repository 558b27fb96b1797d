//go:build integration

package cluster_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// programsIn returns the names of the running programs with dir in their
// arguments, as all programs of a cluster in dir have it.
func programsIn(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	for _, args := range processes(t, dir) {
		names = append(names, args[0])
	}
	return names
}

// killPrograms kills the named programs that have dir in their arguments.
func killPrograms(t *testing.T, dir string, names ...string) error {
	t.Helper()
	var errs []error
	for pid, args := range processes(t, dir) {
		if slices.Contains(names, args[0]) {
			errs = append(errs, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	return errors.Join(errs...)
}

func processes(t *testing.T, dir string) map[int][]string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int][]string{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && pid != os.Getpid() && strings.Contains(string(data), dir+"/") {
			found[pid] = strings.Split(string(data), "\x00")
		}
	}
	return found
}
