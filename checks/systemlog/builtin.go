package systemlog

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// BuiltinPrefix begins the path of a configuration file that is part of the program.
const BuiltinPrefix = "builtin:"

//go:embed builtin/*.json
var builtin embed.FS

// Builtin returns the configuration file of this name that is part of the program. The error
// names those that there are.
func Builtin(name string) ([]byte, error) {
	data, err := builtin.ReadFile("builtin/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("no rules for logs are called %q; there are %s", name, strings.Join(Builtins(), " and "))
	}
	return data, nil
}

// Builtins returns the names of all of them, sorted.
func Builtins() (names []string) {
	files, _ := fs.Glob(builtin, "builtin/*.json") // fails for bad patterns only
	for _, file := range files {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(file, "builtin/"), ".json"))
	}
	return names
}
