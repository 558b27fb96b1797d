package hostunits

import (
	"embed"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// units holds the unit files, in which the command is still missing.
//
//go:embed units/*.service
var units embed.FS

const execStart = "@ExecStart@"

// unitFile returns the content of the role's unit file with this command.
func unitFile(role Role, argv []string) ([]byte, error) {
	text, err := units.ReadFile(path.Join("units", string(role)+".service"))
	if err != nil {
		return nil, err
	}
	command, err := commandLine(argv)
	if err != nil {
		return nil, err
	}
	return []byte(strings.Replace(string(text), execStart, command, 1)), nil
}

// commandLine writes a command so that systemd reads it back as it is
// (systemd.service(5), "Command lines"; systemd.syntax(7), "Quoting").
func commandLine(argv []string) (string, error) {
	words := make([]string, 0, len(argv))
	for _, arg := range argv {
		if strings.ContainsRune(arg, 0) || !utf8.ValidString(arg) {
			return "", fmt.Errorf("the argument %q can't be written to a unit file: it must be UTF-8 without zero bytes", arg)
		}
		words = append(words, word(arg))
	}
	return strings.Join(words, " "), nil
}

func word(arg string) string {
	arg = strings.NewReplacer("%", "%%", "$", "$$").Replace(arg)
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("%$-_./:=,@+", c)
	}
	if arg != "" && strings.TrimFunc(arg, plain) == "" {
		return arg
	}
	var quoted strings.Builder
	for _, c := range arg {
		switch {
		case c == '"' || c == '\\':
			quoted.WriteByte('\\')
			quoted.WriteRune(c)
		case c < ' ':
			fmt.Fprintf(&quoted, `\x%02x`, c)
		default:
			quoted.WriteRune(c)
		}
	}
	return `"` + quoted.String() + `"`
}
