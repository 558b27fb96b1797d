package power

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// maxSecret is how long a file with a secret may be.
const maxSecret = 4096

// Secret is where a password or a key is. It is read each time it is used, since people
// exchange it.
type Secret struct {
	// File is that of a mounted Secret, with nothing else in it. An end of line at its end
	// does not count.
	File string
	// Private refuses a file that others than its owner and group may use, or others than its
	// owner write: on a node there are others.
	Private bool
}

// Read returns the secret. The error names the file.
func (s Secret) Read() (string, error) {
	if s.Private {
		if err := s.guarded(); err != nil {
			return "", fmt.Errorf("reading a secret: %w", err)
		}
	}
	data, err := os.ReadFile(s.File)
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	switch {
	case text == "":
		err = errors.New("it is empty")
	case len(text) > maxSecret:
		err = fmt.Errorf("it is longer than %d bytes", maxSecret)
	case strings.ContainsAny(text, "\r\n\x00"):
		err = errors.New("it has several lines; only the secret may be in it")
	}
	if err != nil {
		return "", fmt.Errorf("reading a secret: %s: %w", s.File, err)
	}
	return text, nil
}

// guarded wants a file that only its owner and group may read, and only its owner write.
func (s Secret) guarded() error {
	const othersMayUse, groupMayWrite = 0o007, 0o020
	info, err := os.Stat(s.File)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", s.File)
	case info.Mode().Perm()&(othersMayUse|groupMayWrite) != 0:
		return fmt.Errorf("%s has the mode %04o: others may use it; chmod 0600, or in a pod defaultMode: 0400 of the Secret's volume", s.File, info.Mode().Perm())
	default:
		return nil
	}
}

// Hide returns the error without these secrets in its text, should somebody have repeated
// them there.
func Hide(err error, secrets ...string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return hidden{err, text}
}

type hidden struct {
	error
	text string
}

func (h hidden) Error() string { return h.text }
func (h hidden) Unwrap() error { return h.error }
