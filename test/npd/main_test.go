//go:build integration

// Package npd compares the detector with node-problem-detector v1.36: both
// programs run with the same command line, against a real API server.
//
// For everything that node-problem-detector gets wrong and the detector must
// not, a scenario observes one program. That node-problem-detector shows the
// defect proves that the scenario can show it.
package npd

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Scenarios wait for programs that wait: the number of processors says
	// nothing about how many can do so at once.
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := clustertest.RunTogether(m)
	if err := os.RemoveAll(programsDir()); err != nil {
		fmt.Fprintln(os.Stderr, "removing the programs:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}
