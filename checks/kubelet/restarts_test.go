package kubelet

import (
	"testing"
	"time"
)

func TestAutomaticRestartsAreCountedWithinTheWindow(t *testing.T) {
	type look struct {
		at       time.Duration
		unit     string
		restarts uint32
		want     int
	}
	const kubelet = "kubelet.service"
	for name, looks := range map[string][]look{
		"those before the first look are not known": {
			{0, kubelet, 17, 0}, {10 * time.Second, kubelet, 17, 0},
		},
		"each is counted": {
			{0, kubelet, 0, 0}, {10 * time.Second, kubelet, 1, 1}, {20 * time.Second, kubelet, 3, 3},
		},
		"they leave the window one by one": {
			{0, kubelet, 0, 0}, {time.Minute, kubelet, 1, 1}, {5 * time.Minute, kubelet, 2, 2},
			{11 * time.Minute, kubelet, 2, 2}, {11*time.Minute + 1, kubelet, 2, 1}, {15*time.Minute + 1, kubelet, 2, 0},
		},
		"a start by somebody resets the counter and is not counted": {
			{0, kubelet, 2, 0}, {10 * time.Second, kubelet, 3, 1}, {20 * time.Second, kubelet, 0, 1}, {30 * time.Second, kubelet, 1, 2},
		},
		"what follows a start by somebody is counted": {
			{0, kubelet, 5, 0}, {10 * time.Second, kubelet, 2, 2},
		},
		"no more are counted than matter": {
			{0, kubelet, 0, 0}, {10 * time.Second, kubelet, 1<<32 - 1, 5}, {20 * time.Second, kubelet, 1<<32 - 1, 5},
		},
		"the newest matter": {
			{0, kubelet, 0, 0}, {time.Minute, kubelet, 4, 4}, {9 * time.Minute, kubelet, 7, 5}, {12 * time.Minute, kubelet, 7, 3},
		},
		"those during a long blindness are not": {
			{0, kubelet, 0, 0}, {window, kubelet, 2, 2}, {2*window + time.Second, kubelet, 9, 0}, {2*window + 2*time.Second, kubelet, 10, 1},
		},
		"another unit has a counter of its own": {
			{0, kubelet, 0, 0}, {10 * time.Second, kubelet, 2, 2}, {20 * time.Second, "k3s.service", 9, 0}, {30 * time.Second, "k3s.service", 10, 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Unix(1_700_000_000, 0)
			r := restarts{window: window, limit: 5}
			for i, look := range looks {
				r.see(unit{name: look.unit, restarts: look.restarts}, begun.Add(look.at))
				if got := r.count(); got != look.want {
					t.Errorf("look %d: counted %d, want %d", i, got, look.want)
				}
			}
		})
	}
}
