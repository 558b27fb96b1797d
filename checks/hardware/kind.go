package hardware

import (
	"errors"
	"io/fs"

	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/smbios"
	"github.com/nodemend/nodemend/ipmi"
)

// Machine returns what the firmware tells of this machine; nothing where it tells nothing.
func Machine(c config.Hardware) (smbios.Machine, error) {
	if c.SMBIOS == "" {
		return smbios.Machine{}, nil
	}
	machine, err := smbios.Read(c.SMBIOS)
	if errors.Is(err, fs.ErrNotExist) {
		return smbios.Machine{}, nil
	}
	return machine, err
}

// Kind is this kind of check.
func Kind() checks.Kind {
	return checks.Kind{
		Name:          "hardware",
		ConditionType: ConditionType,
		Help:          "the BMC reports that the server has failed; off where there never was one",
		Settings:      func(c *config.Checks) *config.Run { return &c.Hardware.Run },
		New: func(n *checks.Node) (checks.Check, error) {
			c := n.Config.Checks.Hardware
			store := Store{Path: c.StateFile, LookOnly: n.LookOnly}
			if !Present(c) && !store.used(n.Clock) {
				return nil, checks.Off{Why: "no BMC was found; name its source if there is one"}
			}
			metrics, err := NewMetrics(n.Registerer)
			if err != nil {
				return nil, err
			}
			machine, err := Machine(c)
			if err != nil { // a name or a proof less
				klog.Background().Error(err, "What the firmware tells of the server can't be read")
			}
			report := n.ReportBMC
			switch {
			case !c.ReportBMC:
				report = nil
			case !InBand(c):
				report = nil
				klog.Background().Info("Where the BMC is reached is not reported: it is asked over the network. checks.hardware.reportBMC is for the source device, and ipmitool without a host")
			}
			return New(Options{
				Open:  func() (ipmi.Source, error) { return Open(c, n.NodeName) },
				Rules: c.Rules, Store: store, BootID: n.BootID, Machine: machine,
				Timeout: c.Timeout.Duration, Clock: n.Clock, Metrics: metrics, ReportBMC: report,
			}), nil
		},
	}
}
