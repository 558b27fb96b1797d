package vm

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// wantedModules are for the disk, the network, the agent's port, systemd, and
// /dev/ipmi0. Those that they depend on are not named, except where they look for them
// by themselves.
func wantedModules() []string {
	return []string{
		"virtio_pci", "virtio_blk", "crc32c_generic", "ext4", "virtio_net", "virtio_console", "autofs4", "ipmi_devintf", "ipmi_si",
	}
}

// modules are those beside that.
func (o Options) modules() []string {
	if o.PowerButton {
		return append(slices.Clone(o.Modules), "button", "evdev")
	}
	return o.Modules
}

// collectModules copies the wanted modules of an unpacked kernel, and those that they
// depend on, to a directory, with the file order.
func collectModules(ctx context.Context, unpacked, to string, wanted []string) error {
	found := map[string]string{}
	builtIn := map[string]bool{}
	err := filepath.WalkDir(unpacked, func(path string, _ fs.DirEntry, err error) error {
		switch name, isModule := moduleName(path); {
		case err != nil:
			return err
		case isModule:
			found[name] = path
		case filepath.Base(path) == "modules.builtin":
			list, err := os.ReadFile(path)
			for line := range strings.FieldsSeq(string(list)) {
				name, _ := moduleName(line)
				builtIn[name] = true
			}
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	content := map[string][]byte{}
	order, err := dependencyOrder(wanted, func(name string) ([]string, error) {
		path, ok := found[name]
		if !ok && builtIn[name] {
			return nil, nil
		}
		if !ok {
			return nil, fmt.Errorf("the kernel has no module %s", name)
		}
		module, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(path, ".xz") {
			module, err = unxz(ctx, module)
		}
		if err != nil {
			return nil, err
		}
		content[name] = module
		return dependencies(module)
	})
	if err != nil {
		return err
	}
	order = slices.DeleteFunc(order, func(name string) bool { return content[name] == nil })
	for _, name := range order {
		if err := os.WriteFile(filepath.Join(to, name), content[name], 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(to, "order"), []byte(strings.Join(order, "\n")+"\n"), 0o644)
}

// moduleName returns the name of a file if that is a module.
func moduleName(path string) (name string, isModule bool) {
	name, isModule = strings.CutSuffix(strings.TrimSuffix(filepath.Base(path), ".xz"), ".ko")
	return strings.ReplaceAll(name, "-", "_"), isModule
}

// dependencyOrder returns the names and all that they depend on, each after those.
func dependencyOrder(names []string, dependencies func(string) ([]string, error)) ([]string, error) {
	var order []string
	seen := map[string]bool{}
	var visit func(names []string) error
	visit = func(names []string) error {
		for _, name := range names {
			if seen[name] {
				continue
			}
			seen[name] = true
			needed, err := dependencies(name)
			if err != nil {
				return err
			}
			if err := visit(needed); err != nil {
				return err
			}
			order = append(order, name)
		}
		return nil
	}
	err := visit(names)
	return order, err
}

// dependencies returns the names of the modules that a module says it needs.
func dependencies(module []byte) ([]string, error) {
	file, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	section := file.Section(".modinfo")
	if section == nil {
		return nil, errors.New("a module without .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := bytes.CutPrefix(entry, []byte("depends=")); ok && len(list) > 0 {
			return strings.Split(strings.ReplaceAll(string(list), "-", "_"), ","), nil
		}
	}
	return nil, nil
}
