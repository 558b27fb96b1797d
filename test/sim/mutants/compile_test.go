package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// A mutant that does not apply or compile any more shows nothing, and is told only when it is
// its turn.
func TestEveryMutantCompiles(t *testing.T) {
	mutants, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) < 40 {
		t.Errorf("%d mutants, want at least 40", len(mutants))
	}
	var dirs []string
	for _, m := range mutants {
		for _, c := range m.changes {
			dirs = append(dirs, "./"+filepath.Dir(c.file))
		}
	}
	slices.Sort(dirs)
	p, err := list(slices.Compact(dirs))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if err := p.compile(m); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// root of the module.
var root = filepath.Join("..", "..", "..")

// product is what is known of the packages that mutants change.
type product struct {
	files *token.FileSet
	// imports reads what the compiler says of a package.
	imports types.Importer
	// sources are the Go files of a directory.
	sources map[string][]string
}

// list compiles packages, unless that has been done.
func list(dirs []string) (*product, error) {
	// With -race, as the tests are compiled.
	command := exec.Command("go", append([]string{"list", "-race", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles"}, dirs...)...)
	command.Dir, command.Stderr = root, os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p, exports := &product{files: token.NewFileSet(), sources: map[string][]string{}}, map[string]string{}
	for decoder := json.NewDecoder(output); ; {
		var listed struct {
			ImportPath, Export, Dir string
			GoFiles                 []string
		}
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[listed.ImportPath], p.sources[listed.Dir] = listed.Export, listed.GoFiles
	}
	p.imports = importer.ForCompiler(p.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return p, command.Wait()
}

// compile checks the packages that a mutant changes as the compiler does.
func (p *product) compile(m mutant) error {
	changed, dirs := map[string]string{}, map[string]bool{}
	for _, c := range m.changes {
		path, err := filepath.Abs(filepath.Join(root, c.file))
		if err != nil {
			return err
		}
		if changed[path], err = c.mutate(root); err != nil {
			return err
		}
		dirs[filepath.Dir(path)] = true
	}
	for dir := range dirs {
		var files []*ast.File
		for _, name := range p.sources[dir] {
			var source any // nil: that of the file
			if text, is := changed[filepath.Join(dir, name)]; is {
				source = text
			}
			file, err := parser.ParseFile(p.files, filepath.Join(dir, name), source, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files = append(files, file)
		}
		if len(files) == 0 {
			return fmt.Errorf("no Go files in %s", dir)
		}
		if _, err := (&types.Config{Importer: p.imports}).Check(dir, p.files, files, nil); err != nil {
			return err
		}
	}
	return nil
}
