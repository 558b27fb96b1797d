package power

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASecretIsOneLineOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	for content, want := range map[string]string{
		"secret": "secret", "secret\n": "secret", "secret\r\n": "secret", "of two words": "of two words",
		"": "is empty", "\n": "is empty", "user\nsecret": "several lines", "nul\x00": "several lines", strings.Repeat("s", 5000): "longer than 4096",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Secret{File: file}.Read()
		if err == nil && got != want {
			t.Errorf("%q: got %q", content, got)
		}
		if err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "user")) {
			t.Errorf("%.20q: %v", content, err)
		}
	}
	if _, err := (Secret{File: file + "-missing"}).Read(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestSecretsAreHiddenInErrors(t *testing.T) {
	err := Hide(fmt.Errorf("%w: they said s3cret and s3cret, key k", ErrLogin), "s3cret", "")
	if err.Error() != "login refused: they said *** and ***, key k" || !errors.Is(err, ErrLogin) {
		t.Errorf("got %v", err)
	}
	if Hide(nil, "s") != nil {
		t.Error("no error has become one")
	}
}
