package vm

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// tree is a root directory in the making. After its first error nothing is done any
// more.
type tree struct {
	root *os.Root
	err  error
}

// newTree makes a directory with what Debian's has.
func newTree(dir string) *tree {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return &tree{err: err}
	}
	root, err := os.OpenRoot(dir)
	t := &tree{root: root, err: err}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		t.mkdir("usr/" + dir)
		t.symlink("usr/"+dir, dir)
	}
	return t
}

// close returns the first error.
func (t *tree) close() error {
	if t.root != nil {
		_ = t.root.Close() // nothing was written through it
	}
	return t.err
}

func (t *tree) do(f func() error) {
	if t.err == nil {
		t.err = f()
	}
}

func (t *tree) mkdir(names ...string) {
	for _, name := range names {
		t.do(func() error { return t.root.MkdirAll(inside(name), 0o755) })
	}
}

func (t *tree) symlink(target, name string) {
	t.mkdir(filepath.Dir(name))
	t.do(func() error { return t.root.Symlink(target, inside(name)) })
}

func (t *tree) write(name, content string, mode fs.FileMode) {
	t.copy(name, strings.NewReader(content), mode)
}

// copy makes a file, or replaces one.
func (t *tree) copy(name string, content io.Reader, mode fs.FileMode) {
	t.mkdir(filepath.Dir(name))
	t.do(func() error {
		file, err := t.root.Create(inside(name))
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // again
		if _, err := io.Copy(file, content); err != nil {
			return err
		}
		if err := file.Chmod(mode); err != nil {
			return err
		}
		return file.Close()
	})
}

// host copies a file of this machine, also if from is a link.
func (t *tree) host(from, name string, mode fs.FileMode) {
	t.do(func() error {
		file, err := os.Open(from)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // was only read
		t.copy(name, file, mode)
		return t.err
	})
}

// programs copies programs of this machine and the libraries that they need.
func (t *tree) programs(ctx context.Context, paths ...string) {
	t.do(func() error {
		list, err := output(ctx, "", "ldd", paths...)
		if err != nil {
			return err
		}
		for _, match := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllSubmatch(list, -1) {
			paths = append(paths, string(match[1]))
		}
		slices.Sort(paths)
		for _, path := range slices.Compact(paths) {
			t.host(path, path, 0o755)
		}
		return t.err
	})
}

// busybox copies busybox, and makes links for all that it can do but this machine's own
// programs do not.
func (t *tree) busybox(ctx context.Context) {
	t.do(func() error {
		path, err := exec.LookPath("busybox")
		if err != nil {
			return err
		}
		t.host(path, "/bin/busybox", 0o755)
		applets, err := output(ctx, "", path, "--list")
		if err != nil {
			return err
		}
		for applet := range strings.FieldsSeq(string(applets)) {
			if _, err := t.root.Lstat("usr/bin/" + applet); os.IsNotExist(err) {
				t.symlink("busybox", "/bin/"+applet)
			}
		}
		return t.err
	})
}

// inside returns a path as os.Root takes it.
func inside(name string) string {
	return filepath.Join(".", name)
}

// disk makes an image with an ext4 file system of what is in dir.
func disk(ctx context.Context, dir, image string) error {
	const size = "2G" // of which only what is written takes space
	_, err := output(ctx, "", "mkfs.ext4", "-q", "-E", "lazy_itable_init=1,lazy_journal_init=1", "-d", dir, image, size)
	if err != nil {
		return fmt.Errorf("making the disk: %w", err)
	}
	return nil
}

// cpio packs what is in dir as the kernel wants its first file system.
func cpio(ctx context.Context, dir, archive string) error {
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(dir, path); name != "." {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "busybox", "cpio", "-o", "-H", "newc", "-F", archive)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(strings.Join(names, "\n"))
	_, err = finish(cmd)
	return err
}
