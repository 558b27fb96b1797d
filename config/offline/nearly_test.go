package offline

import "testing"

func TestAWordIsNearlyAnother(t *testing.T) {
	for _, tc := range []struct {
		written, meant string
		want           bool
	}{
		{"ContainerRuntimeUnhealthy", "ContainerRuntimeUnhealthy", true},
		{"ContainerRuntimeUnheathly", "ContainerRuntimeUnhealthy", true},
		{"containerruntimeunhealthy", "ContainerRuntimeUnhealthy", true},
		{"ContainerRuntime", "ContainerRuntimeUnhealthy", true},
		{"ContainerRuntimeBroken", "ContainerRuntimeUnhealthy", false},
		{"ready", "Ready", true},
		{"Redy", "Ready", true},
		{"Rady2", "Ready", false},
		{"PlegUnhealty", "PLEGUnhealthy", true},
		{"FanBroken", "PLEGUnhealthy", false},
		{"", "Ready", false},
		{"for", "per", false},
	} {
		if got := nearly(tc.written, tc.meant); got != tc.want {
			t.Errorf("%q is nearly %q: %t, want %t", tc.written, tc.meant, got, tc.want)
		}
	}
}
