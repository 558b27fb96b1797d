//go:build integration

package verdict_test

import (
	"testing"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/ipmitool"
	double "github.com/nodemend/nodemend/test/bmc"
	"github.com/nodemend/nodemend/test/bmc/bmctest"
)

func init() {
	others = func(t testing.TB, b *double.BMC) map[string]func() (ipmi.Source, error) {
		program := bmctest.Program(t, b)
		return map[string]func() (ipmi.Source, error){
			"ipmitool": func() (ipmi.Source, error) { return ipmitool.New(ipmitool.Options{Path: program}) },
		}
	}
}
