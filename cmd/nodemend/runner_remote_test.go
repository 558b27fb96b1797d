//go:build !agent

package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestTheRemoteRunnerTakesItsOwnFlagsOnly(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "remote.yaml")
	if err := os.WriteFile(wrong, []byte("switches: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args  []string
		want  string
		usage bool
	}{
		{[]string{"--remote"}, "--remote needs a configuration: name remote.yaml by --config=FILE", true},
		{[]string{"--maintenance-power", "--leader-election=false"}, "--leader-election, --maintenance-power: with --remote only", true},
		{[]string{"--remote", "--config=x", "--node-name=n"}, "--node-name: for the runner of a node, not for --remote", true},
		{[]string{"--remote", "--config=x", "--run-dir=/x", "--execution=Direct"}, "--execution, --run-dir: for the runner of a node", true},
		{[]string{"--remote", "--config=" + wrong, "--leader-election=false"}, "switches: has no entry", false},
		{[]string{"--remote", "--config=/does/not/exist"}, "no such file", false},
	} {
		cmd := newRootCommand(newTestLog(t, io.Discard))
		cmd.SetArgs(append([]string{"runner"}, test.args...))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		checkError(t, cmd.ExecuteContext(t.Context()), test.want, test.usage)
	}
}
