package detector

import (
	"testing"

	"k8s.io/klog/v2"

	config "github.com/nodemend/nodemend/config/detector"
)

func TestARehearsalReportsEachProblemAndTouchesNothing(t *testing.T) {
	ctx := klog.NewContext(t.Context(), klog.Logger{})
	if err := rehearse(ctx, Options{NodeName: "worker-1", Config: config.Default()}); err != nil {
		t.Error(err)
	}
	off := config.Default()
	for _, kind := range Kinds() {
		kind.Settings(&off.Checks).Enabled = false
	}
	if err := rehearse(ctx, Options{NodeName: "worker-1", Config: off}); err != nil {
		t.Errorf("without checks: %v", err)
	}
	for _, names := range [][]string{{"hardware", "filesystem"}, {"runtime", "kubelet"}} {
		only := config.Default()
		only.Checks.Only = names
		if err := rehearse(ctx, Options{NodeName: "worker-1", Config: only}); err != nil {
			t.Errorf("only %v: %v", names, err)
		}
	}
}
