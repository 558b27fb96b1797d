package hardware

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// reportLimit is how long a run may ask where the BMC is reached, once all else is known.
const reportLimit = 5 * time.Second

// reportBMC asks the BMC where it is reached from outside, and reports that. What can't be read is told
// in the log, once, and changes nothing of the check, nor of what was reported.
func (c *Check) reportBMC(ctx context.Context, in verdict.Input) {
	source, can := c.source.(*device.Device)
	if c.options.ReportBMC == nil || !can || in.ChassisError != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	found, err := source.Reported(ctx)
	source.Rest()
	why := ""
	switch {
	case err == nil:
		c.options.ReportBMC(found)
	case errors.Is(err, context.Canceled): // the detector ends
		return
	default:
		why = err.Error()
	}
	if why != "" && why != c.unreported {
		klog.FromContext(ctx).Info("Where the BMC is reached from outside can't be reported", "annotation", power.BMCAnnotation, "why", why)
	}
	c.unreported = why
}
