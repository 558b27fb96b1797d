package vm

import (
	"errors"
	"slices"
	"testing"
)

func TestModulesComeAfterThoseThatTheyNeed(t *testing.T) {
	needs := map[string][]string{"net": {"ring", "failover"}, "ring": {"core"}, "failover": {"core"}, "disk": {"ring"}, "core": nil}
	errMissing := errors.New("missing")
	dependencies := func(name string) ([]string, error) {
		needed, ok := needs[name]
		if !ok {
			return nil, errMissing
		}
		return needed, nil
	}
	got, err := dependencyOrder([]string{"net", "core", "disk"}, dependencies)
	if want := []string{"core", "ring", "failover", "net", "disk"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	needs["core"] = []string{"none"}
	if got, err := dependencyOrder([]string{"net"}, dependencies); !errors.Is(err, errMissing) {
		t.Errorf("without one of them: %q, %v", got, err)
	}
}

func TestModulesAreKnownByTheirNames(t *testing.T) {
	for path, want := range map[string]string{
		"lib/modules/6.1/kernel/fs/ext4/ext4.ko":            "ext4",
		"kernel/drivers/net/virtio-net.ko.xz":               "virtio_net",
		"lib/modules/6.1/modules.builtin":                   "",
		"usr/share/doc/linux-image-6.1/changelog.Debian.xz": "",
	} {
		name, isModule := moduleName(path)
		if !isModule {
			name = ""
		}
		if name != want {
			t.Errorf("%s is %q, want %q", path, name, want)
		}
	}
}
