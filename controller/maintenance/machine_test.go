package maintenance

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestAMaintenanceThatHasEndedWaitsForItsMachine(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	for name, test := range map[string]struct {
		ended  time.Duration
		light  v1alpha1.LightState
		phase  v1alpha1.PowerPhase
		since  time.Duration
		others bool
		want   time.Duration
		waits  bool
	}{
		"nothing was switched":             {ended: time.Second},
		"its light shines":                 {ended: time.Minute, light: v1alpha1.LightOn, want: 4 * time.Minute, waits: true},
		"its light may shine":              {ended: time.Minute, light: v1alpha1.LightUnknown, want: 4 * time.Minute, waits: true},
		"its light is out":                 {ended: time.Minute, light: v1alpha1.LightOff},
		"its light can't be put out":       {ended: 5 * time.Minute, light: v1alpha1.LightUnknown},
		"the machine is off":               {ended: time.Minute, phase: v1alpha1.PowerOff, since: time.Hour, want: 59 * time.Minute, waits: true},
		"it is being switched on":          {ended: 50 * time.Minute, phase: v1alpha1.PowerRestoring, since: 10 * time.Minute, want: 50 * time.Minute, waits: true},
		"off, and its light shines":        {ended: 2 * time.Minute, phase: v1alpha1.PowerOff, since: time.Hour, light: v1alpha1.LightOn, want: 58 * time.Minute, waits: true},
		"it may have been asked":           {ended: 0, phase: v1alpha1.PowerShuttingDown, want: time.Hour, waits: true},
		"it is back":                       {ended: time.Minute, phase: v1alpha1.PowerOn},
		"it was never switched":            {ended: time.Minute, phase: v1alpha1.PowerWaiting},
		"it is left to people":             {ended: time.Minute, phase: v1alpha1.PowerLeftOff},
		"nobody has switched it on":        {ended: time.Hour, phase: v1alpha1.PowerOff, since: 2 * time.Hour},
		"another one holds the node":       {ended: 9 * time.Hour, phase: v1alpha1.PowerOff, since: 9 * time.Hour, others: true, waits: true},
		"another one holds it, and is lit": {ended: time.Minute, light: v1alpha1.LightOn, others: true, want: 4 * time.Minute, waits: true},
	} {
		m := &v1alpha1.NodeMaintenance{}
		ended := ago(test.ended)
		m.DeletionTimestamp = &ended
		if test.light != "" {
			m.Status.Identify = &v1alpha1.IdentifyStatus{State: test.light}
		}
		if test.phase != "" {
			m.Status.Power = &v1alpha1.MaintenancePowerStatus{Phase: test.phase, Since: ago(test.since)}
		}
		if got, waits := awaitedFor(m, test.others, now); got != test.want || waits != test.waits {
			t.Errorf("%s: got %s, %t, want %s, %t", name, got, waits, test.want, test.waits)
		}
	}
}

func TestWhatIsSwitchedBackWakes(t *testing.T) {
	of := func(phase v1alpha1.PowerPhase, light v1alpha1.LightState) *v1alpha1.NodeMaintenance {
		return &v1alpha1.NodeMaintenance{Status: v1alpha1.NodeMaintenanceStatus{
			Power: &v1alpha1.MaintenancePowerStatus{Phase: phase}, Identify: &v1alpha1.IdentifyStatus{State: light},
		}}
	}
	for name, test := range map[string]struct {
		before, after *v1alpha1.NodeMaintenance
		want          bool
	}{
		"the machine, and no light shone":       {of(v1alpha1.PowerRestoring, v1alpha1.LightOff), of(v1alpha1.PowerOn, v1alpha1.LightOff), true},
		"the machine, whose light still shines": {of(v1alpha1.PowerRestoring, v1alpha1.LightUnknown), of(v1alpha1.PowerOn, v1alpha1.LightUnknown), true},
		"the light of a machine that is off":    {of(v1alpha1.PowerOff, v1alpha1.LightOn), of(v1alpha1.PowerOff, v1alpha1.LightOff), true},
		"both":                                  {of(v1alpha1.PowerRestoring, v1alpha1.LightOn), of(v1alpha1.PowerOn, v1alpha1.LightOff), true},
		"nothing":                               {of(v1alpha1.PowerOff, v1alpha1.LightOn), of(v1alpha1.PowerRestoring, v1alpha1.LightOn), false},
		"nothing, and a light is lit":           {of(v1alpha1.PowerOff, v1alpha1.LightOff), of(v1alpha1.PowerOff, v1alpha1.LightOn), false},
	} {
		if got := switchedBack().Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestMachinesThatAreLeftToPeopleAreCounted(t *testing.T) {
	for phase, want := range map[v1alpha1.PowerPhase]float64{
		v1alpha1.PowerLeftOff: 1, v1alpha1.PowerOff: 1, v1alpha1.PowerRestoring: 1, v1alpha1.PowerStillOn: 1, v1alpha1.PowerOn: 0, v1alpha1.PowerWasOff: 0, v1alpha1.PowerWaiting: 0,
	} {
		counter, err := NewLeftOff(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		r := &Reconciler{Events: events.NewFakeRecorder(10), LeftOff: counter}
		r.tellLeft(&v1alpha1.NodeMaintenance{Status: v1alpha1.NodeMaintenanceStatus{Power: &v1alpha1.MaintenancePowerStatus{Phase: phase}}})
		if got := testutil.ToFloat64(counter); got != want {
			t.Errorf("%s: %v, want %v", phase, got, want)
		}
	}
}
