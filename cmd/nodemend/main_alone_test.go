//go:build !integration || agent

package main

import "testing"

// runAll runs all tests. Those of the api tier need a cluster.
func runAll(m *testing.M) int { return m.Run() }
