package vm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// kernelPackage depends on the newest kernel. The one for clouds has no IPMI.
const kernelPackage = "linux-image-amd64"

// kernel is a directory with Linux as a boot needs it: the file vmlinux, which boots
// faster than the packed one that Debian has, and those in modules, of which the file
// order has the names.
type kernel struct{ dir string }

func (k kernel) image() string   { return filepath.Join(k.dir, "vmlinux") }
func (k kernel) modules() string { return filepath.Join(k.dir, "modules") }

// newestKernel returns the kernel that apt-get would install, with these modules, from the
// user's cache directory if it is there.
func newestKernel(ctx context.Context, wanted []string) (kernel, error) {
	caches, err := os.UserCacheDir()
	if err != nil {
		return kernel{}, err
	}
	name, file, err := kernelVersion(ctx)
	if err != nil {
		return kernel{}, fmt.Errorf("%w: apt-get does not know a kernel, try apt-get update: %w", ErrUnavailable, err)
	}
	parent := filepath.Join(caches, "nodemend-e2e")
	modules := sha256.Sum256([]byte(strings.Join(wanted, " ")))
	k := kernel{dir: filepath.Join(parent, fmt.Sprintf("%s-%x", strings.TrimSuffix(file, ".deb"), modules[:4]))}
	if _, err := os.Stat(k.dir); err == nil {
		return k, nil
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return kernel{}, err
	}
	// One at a time: the package is large.
	lock, err := os.Create(filepath.Join(parent, ".lock"))
	if err != nil {
		return kernel{}, err
	}
	defer func() { _ = lock.Close() }() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return kernel{}, fmt.Errorf("waiting for another download of a kernel: %w", err)
	}
	if _, err := os.Stat(k.dir); err == nil {
		return k, nil
	}
	work, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		return kernel{}, err
	}
	defer func() { _ = os.RemoveAll(work) }() // at worst a few megabytes are left
	if _, err := output(ctx, work, "apt-get", "download", name); err != nil {
		return kernel{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err := unpackKernel(ctx, work, file, wanted); err != nil {
		return kernel{}, fmt.Errorf("unpacking %s: %w", file, err)
	}
	if err := os.Rename(filepath.Join(work, "kernel"), k.dir); err != nil {
		return kernel{}, err
	}
	return k, nil
}

// kernelVersion returns the name of the kernel's package and that of its file.
func kernelVersion(ctx context.Context) (name, file string, err error) {
	depends, err := output(ctx, "", "apt-cache", "depends", kernelPackage)
	if err != nil {
		return "", "", err
	}
	match := regexp.MustCompile(`Depends: (linux-image-\S+)`).FindSubmatch(depends)
	if match == nil {
		return "", "", fmt.Errorf("%s depends on no kernel: %s", kernelPackage, depends)
	}
	name = string(match[1])
	// A line is: 'URL' file size hash
	uris, err := output(ctx, "", "apt-get", "--print-uris", "download", name)
	if err != nil {
		return "", "", err
	}
	fields := strings.Fields(string(uris))
	if len(fields) < 2 {
		return "", "", fmt.Errorf("there is no %s to download: %s", name, uris)
	}
	return name, fields[1], nil
}

// unpackKernel makes the directory kernel in dir from the package there.
func unpackKernel(ctx context.Context, dir, file string, wanted []string) error {
	all, k := filepath.Join(dir, "all"), kernel{dir: filepath.Join(dir, "kernel")}
	if _, err := output(ctx, dir, "dpkg-deb", "-x", file, all); err != nil {
		return err
	}
	if err := os.MkdirAll(k.modules(), 0o755); err != nil {
		return err
	}
	packed, err := filepath.Glob(filepath.Join(all, "boot", "vmlinuz-*"))
	if err != nil || len(packed) != 1 {
		return fmt.Errorf("one boot/vmlinuz- is expected, there are %q", packed)
	}
	image, err := os.ReadFile(packed[0])
	if err != nil {
		return err
	}
	if image, err = vmlinux(ctx, image); err != nil {
		return fmt.Errorf("%s: %w", packed[0], err)
	}
	if err := os.WriteFile(k.image(), image, 0o644); err != nil {
		return err
	}
	return collectModules(ctx, all, k.modules(), wanted)
}

// vmlinux returns the ELF file in a bzImage (the kernel's Documentation/arch/x86/boot.rst).
func vmlinux(ctx context.Context, image []byte) ([]byte, error) {
	const setupSectors, payloadOffset, payloadLength, sector = 0x1f1, 0x248, 0x24c, 512
	if len(image) < payloadLength+4 {
		return nil, fmt.Errorf("it has only %d bytes", len(image))
	}
	start := (int(image[setupSectors])+1)*sector + int(binary.LittleEndian.Uint32(image[payloadOffset:]))
	end := start + int(binary.LittleEndian.Uint32(image[payloadLength:]))
	if end > len(image) {
		return nil, fmt.Errorf("its kernel ends at %d of %d bytes", end, len(image))
	}
	return unxz(ctx, image[start:end])
}

// unxz ignores what follows the first stream: after a kernel comes its size.
func unxz(ctx context.Context, packed []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "xz", "--decompress", "--stdout", "--single-stream")
	cmd.Stdin = bytes.NewReader(packed)
	return finish(cmd)
}

// output runs a program in a directory and returns what it writes to stdout.
func output(ctx context.Context, dir, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	return finish(cmd)
}

func finish(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%q: %w: %s", cmd.Args, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
