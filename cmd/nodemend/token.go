package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// mirrorInterval is how often a file is looked at that is renewed while the program runs.
const mirrorInterval = 10 * time.Second

// mirrored lets requests to the API server take token, CA and client certificate from copies in memory,
// which are kept up to date until ctx ends. client-go reads these files again and again, and
// while one of them is on a disk that has died, no request goes on.
func mirrored(ctx context.Context, cfg *rest.Config) (*rest.Config, error) {
	cfg = rest.CopyConfig(cfg)
	for _, path := range []*string{&cfg.BearerTokenFile, &cfg.CAFile, &cfg.CertFile, &cfg.KeyFile} {
		if *path == "" {
			continue
		}
		copied, err := mirror(ctx, *path)
		if err != nil {
			return nil, err
		}
		*path = copied
	}
	return cfg, nil
}

// mirror returns the path of a copy of a file. What keeps it up to date outlives ctx if
// the file can't be read any more: it waits in the kernel then.
func mirror(ctx context.Context, path string) (string, error) {
	var content []byte
	copied, err := inMemory(content)
	if err != nil {
		return "", err
	}
	// As later, when what it takes could not be read from the disk any more.
	if err := renew(copied, path, &content); err != nil {
		return "", errors.Join(err, unix.Close(copied))
	}
	go func() {
		ticker := time.NewTicker(mirrorInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := renew(copied, path, &content); err != nil {
				klog.FromContext(ctx).Info("A file is used as it was before", "err", err.Error())
			}
		}
	}()
	return pathOf(copied), nil
}

// pathOf is a path by which this process reads a file descriptor from its beginning.
func pathOf(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// renew replaces a copy at once if the file has another content, unless it has none.
func renew(copied int, path string, content *[]byte) error {
	now, err := os.ReadFile(path)
	if err != nil || bytes.Equal(now, *content) || len(bytes.TrimSpace(now)) == 0 {
		return err
	}
	next, err := inMemory(now)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(next) }() // the copy has it
	if err := unix.Dup3(next, copied, unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("replacing the copy of %s: %w", path, err)
	}
	*content = now
	return nil
}

// inMemory returns a file descriptor with this content.
func inMemory(content []byte) (int, error) {
	fd, err := unix.MemfdCreate("nodemend", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("memfd_create: %w", err)
	}
	for len(content) > 0 {
		n, err := unix.Write(fd, content)
		if err != nil {
			_ = unix.Close(fd)
			return 0, fmt.Errorf("writing to memory: %w", err)
		}
		content = content[n:]
	}
	return fd, nil
}
