package node

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

const (
	// BusyboxImage is an image that every node has: busybox, with links for its
	// commands. It sleeps, until it is asked to end, if it is told nothing.
	BusyboxImage = "nodemend.test/busybox:1"

	busybox     = "/bin/busybox"
	snapshotter = "native"
)

// importImages makes containerd know all images.
func (n *Node) importImages(ctx context.Context) error {
	archive, err := busyboxArchive(ctx)
	if err != nil {
		return fmt.Errorf("making %s: %w", BusyboxImage, err)
	}
	if err := n.importImage(ctx, bytes.NewReader(archive)); err != nil {
		return fmt.Errorf("importing %s: %w", BusyboxImage, err)
	}
	for _, path := range n.options.Images {
		if err := n.importFile(ctx, path); err != nil {
			return fmt.Errorf("importing %s: %w", path, err)
		}
	}
	return nil
}

func (n *Node) importFile(ctx context.Context, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // was only read
	return n.importImage(ctx, file)
}

func (n *Node) importImage(ctx context.Context, archive io.Reader) error {
	_, err := n.run(ctx, archive, "ctr", "--namespace=k8s.io", "images", "import", "--snapshotter="+snapshotter, "-")
	return err
}

// busyboxArchive returns BusyboxImage as an archive of Docker's format.
func busyboxArchive(ctx context.Context) ([]byte, error) {
	if err := isStatic(busybox); err != nil {
		return nil, err
	}
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	commands, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list: %w", busybox, err)
	}
	layer := []entry{{name: "bin/", mode: 0o755}, {name: "tmp/", mode: 0o1777}, {name: "bin/busybox", mode: 0o755, content: program}}
	for _, command := range strings.Fields(string(commands)) {
		if command != "busybox" {
			layer = append(layer, entry{name: "bin/" + command, link: "busybox"})
		}
	}
	layerTar, err := archive(layer)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Cmd": []string{"sh", "-c", "trap exit TERM; sleep 2147483647 & wait"}, "Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layerTar))}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": "config.json", "RepoTags": []string{BusyboxImage}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return nil, err
	}
	return archive([]entry{
		{name: "layer.tar", mode: 0o644, content: layerTar},
		{name: "config.json", mode: 0o644, content: config},
		{name: "manifest.json", mode: 0o644, content: manifest},
	})
}

// isStatic returns an error unless the program needs no libraries.
func isStatic(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // was only read
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return fmt.Errorf("%w: %s needs libraries: apt-get install busybox-static", ErrUnavailable, path)
	}
	return nil
}

// entry of an archive: a directory if its name ends so, a link if it has one, or a file.
type entry struct {
	name, link string
	mode       int64
	content    []byte
}

func archive(entries []entry) ([]byte, error) {
	buffer := &bytes.Buffer{}
	w := tar.NewWriter(buffer)
	var errs []error
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.content)), Typeflag: tar.TypeReg}
		switch {
		case e.link != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, e.link
		case strings.HasSuffix(e.name, "/"):
			header.Typeflag = tar.TypeDir
		}
		errs = append(errs, w.WriteHeader(header))
		_, err := w.Write(e.content)
		errs = append(errs, err)
	}
	err := errors.Join(append(errs, w.Close())...)
	return buffer.Bytes(), err
}
