package v1alpha1_test

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Actions under way carry the hash of their step, and owners of nodes pin steps by it: a version
// that had another hash for the same step would execute nothing of what an earlier one has ordered.
func TestTheHashOfAStepIsThatOfEarlierVersions(t *testing.T) {
	for step, want := range map[string]string{ // of 2026-11-21
		`{command: {argv: [/usr/local/bin/clean, --all]}, timeout: 1m0s, verifyTimeout: 2m0s, attempts: 2}`:           "17ed59b6ad32f3ab3b7224b7ade1bd7c25b418ec98cbbf5b4691a031f669c37b",
		`{command: {script: "exit 0\n"}, timeout: 10s, verifyTimeout: 1m0s, attempts: 1}`:                             "4d4820326bc4d3cb23c135f40a80d17312f2fd2cdbf89ae4969365e004f4b202",
		`{restartUnit: {name: containerd.service}, timeout: 1m30s, verifyTimeout: 2m0s, attempts: 1}`:                 "410793e902fba4e2c99a39b556c0277ac7b35085033b5809a9bc2f467286316f",
		`{reboot: {method: SysRq, drain: {timeout: 10m0s}}, timeout: 10m0s, verifyTimeout: 5m0s, attempts: 1}`:        "c00dbd4aaf9ed7289914d57cca5c6080a1217bcbb64920d0c40c53cd49744517",
		`{reboot: {method: Systemd}, timeout: 10m0s, verifyTimeout: 5m0s, attempts: 3, requireApproval: true}`:        "a87c9fecebae8a291dc8b36c72f74d35d03e69b46131703bd40ec7a4f9092716",
		`{maintenance: {reason: broken, drain: {timeout: 1h0m0s, force: true}}, verifyTimeout: 24h0m0s, attempts: 1}`: "b75ebe056413d0e1126401f320d0ceed085469e0da945aea0d3943ada88efbdc",
	} {
		var s v1alpha1.Step
		if err := yaml.UnmarshalStrict([]byte(step), &s); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Hash(); err != nil || got != want {
			t.Errorf("%s has the hash %s, %v; want %s", step, got, err, want)
		}
	}
}
