package command

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/nodemend/nodemend/internal/bounded"
	"github.com/nodemend/nodemend/test/stalled"
)

func TestWhetherAPipeIsOnTheHostIsKnownOrAnError(t *testing.T) {
	dir, mountpoint := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "pipe")
	write(t, path, "", 0o600)
	disk, err := stalled.Mount(t.TempDir(), mountpoint)
	if errors.Is(err, stalled.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Unmount(); err != nil {
			t.Error(err)
		}
	})
	disk.Stall()
	for name, test := range map[string]struct {
		root    string
		want    bool
		wantErr error
	}{
		"it is there":        {root: "/", want: true},
		"it is not":          {root: t.TempDir()},
		"the host is silent": {root: mountpoint, wantErr: bounded.ErrLate},
	} {
		if got, err := sameOnHost(hostProc(t, test.root), path); got != test.want || !errors.Is(err, test.wantErr) {
			t.Errorf("%s: got %t, %v, want %t, %v", name, got, err, test.want, test.wantErr)
		}
	}
}
