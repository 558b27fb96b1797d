package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/test/stalled"
)

func TestCredentialsAndCAAreKnownWhileTheirDiskIsDead(t *testing.T) {
	content, mountpoint := t.TempDir(), t.TempDir()
	for _, name := range []string{"token", "ca.crt", "client.pem"} {
		write(t, filepath.Join(content, name), "content of "+name)
	}
	disk, err := stalled.Mount(content, mountpoint)
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
	cfg, err := mirrored(t.Context(), &rest.Config{
		BearerTokenFile: filepath.Join(mountpoint, "token"),
		TLSClientConfig: rest.TLSClientConfig{
			CAFile:   filepath.Join(mountpoint, "ca.crt"),
			CertFile: filepath.Join(mountpoint, "client.pem"), KeyFile: filepath.Join(mountpoint, "client.pem"), // as a kubelet's
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	disk.Stall()
	for path, name := range map[string]string{cfg.BearerTokenFile: "token", cfg.CAFile: "ca.crt", cfg.CertFile: "client.pem", cfg.KeyFile: "client.pem"} {
		if strings.HasPrefix(path, mountpoint) {
			t.Fatalf("%s is on the disk, and would be waited for without an end", path)
		}
		expect(t, path, "content of "+name)
	}
}

func TestACopyBecomesWhatItsFileHasBecome(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write(t, path, "a long one")
	cfg, err := mirrored(t.Context(), &rest.Config{BearerTokenFile: path})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, cfg.BearerTokenFile, "a long one")
	content := []byte("a long one")
	copied, err := inMemory(content)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(copied), "copy")
	t.Cleanup(func() { _ = file.Close() })
	for _, step := range []struct{ file, copied string }{
		{"short", "short"}, {" \n", "short"}, {"another", "another"},
	} {
		write(t, path, step.file)
		if err := renew(copied, path, &content); err != nil {
			t.Fatal(err)
		}
		expect(t, pathOf(copied), step.copied)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := renew(copied, path, &content); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got the error %v", err)
	}
	expect(t, pathOf(copied), "another")
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s has %q, error %v, want %q", path, got, err, want)
	}
}
