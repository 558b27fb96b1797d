package hardware

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nodemend/nodemend/internal/smbios"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// note returns what a technician has to know of the failures; nil if there are none. The
// firmware of the BMC is asked for once, when they begin.
func (c *Check) note(ctx context.Context, found verdict.Verdict, in verdict.Input) []string {
	failures := found.Evidence()
	if len(failures) == 0 {
		c.bmc = nil
		return nil
	}
	if in.BMC != nil {
		c.bmc = in.BMC
	}
	if c.bmc == nil {
		if id, err := identify(ctx, c.source); err == nil {
			c.bmc = &id
		}
		c.source.Rest()
	}
	return slices.Concat(about(c.options.Machine, c.bmc), failures, exchangeable(c.options.Machine, found))
}

// about tells which server it is, and its firmware. bmc is nil if it is not known.
func about(machine smbios.Machine, bmc *ipmi.DeviceID) (lines []string) {
	if server := machine.String(); server != "" {
		lines = append(lines, "server: "+server)
	}
	if bmc == nil {
		return lines
	}
	if bmc.IPMIVersion == "" { // it was asked by Redfish
		return append(lines, "BMC: "+strings.TrimSpace(fmt.Sprintf("%s firmware %s", bmc.Name, bmc.Firmware)))
	}
	return append(lines, "BMC: "+strings.TrimSpace(fmt.Sprintf("%s firmware %s, IPMI %s, manufacturer %d, product %d",
		bmc.Name, bmc.Firmware, bmc.IPMIVersion, bmc.Manufacturer, bmc.Product)))
}

// exchangeable lists the parts of the kinds that have failed, with their serial numbers. Which of
// them has, the failure's name tells: the firmware may call their places otherwise.
func exchangeable(machine smbios.Machine, found verdict.Verdict) (lines []string) {
	for _, of := range []struct {
		kind  verdict.Kind
		parts []smbios.Part
	}{{"Processor", machine.Processors}, {"PowerSupply", machine.Supplies}} {
		if !slices.ContainsFunc(found.Failures, func(f verdict.Failure) bool { return f.Kind == of.kind && f.Counts() }) {
			continue
		}
		for _, p := range of.parts {
			lines = append(lines, fmt.Sprintf("there is %s: %s", of.kind, p))
		}
	}
	return lines
}
