package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// variable of the environment that names the mutant which a simulation is to be.
const variable = "NODEMEND_MUTANT"

// switched is the product with the code of many mutants in it: a function that some of
// them change is there once as it is and once for each of them, and by its name one
// reaches that of the mutant which variable names. So all of them take one build.
type switched struct {
	// read returns a file of the module.
	read func(file string) (string, error)
	// files are those that some mutant changes, by their path in the module.
	files map[string]*switchedFile
}

// switchedFile is a file of the product.
type switchedFile struct {
	source   string
	variants []variant
}

// variant is a function as a mutant has it.
type variant struct {
	// function is its name with that of its receiver's type, text all of it.
	function, text string
	mutant         string
}

// add adds a mutant. It returns false if that changes more than bodies of functions: it
// has to be built alone.
func (s *switched) add(m mutant) (bool, error) {
	var all [][]variant
	for _, c := range m.changes {
		if s.files[c.file] == nil {
			source, err := s.read(c.file)
			if err != nil {
				return false, err
			}
			s.files[c.file] = &switchedFile{source: source}
		}
		source := s.files[c.file].source
		changed, err := c.apply(source)
		if err != nil {
			return false, err
		}
		variants, only, err := changedFunctions(source, changed)
		if err != nil || !only {
			return false, err
		}
		for i := range variants {
			variants[i].mutant = m.name
		}
		all = append(all, variants)
	}
	for i, c := range m.changes {
		s.files[c.file].variants = append(s.files[c.file].variants, all[i]...)
	}
	return true, nil
}

// overlay returns what files of the module have to be for the build.
func (s *switched) overlay() (map[string]string, error) {
	replace := map[string]string{}
	for file, f := range s.files {
		if f.variants == nil {
			continue
		}
		text, name, err := f.text()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		replace[file] = text
		replace[filepath.Join(filepath.Dir(file), "zz_mutant.go")] = fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar mutantʹ = os.Getenv(%q)\n", name, variable)
	}
	return replace, nil
}

// text returns the file with all of its variants, and its package.
func (f *switchedFile) text() (text, name string, err error) {
	file, err := parsed(f.source)
	if err != nil {
		return "", "", err
	}
	var out, more bytes.Buffer
	last := 0
	for _, function := range functions(file) {
		of := slices.DeleteFunc(slices.Clone(f.variants), func(v variant) bool { return v.function != nameOf(f.source, function) })
		if len(of) == 0 {
			continue
		}
		at := offset(function.Name.End())
		out.WriteString(f.source[last:at] + "ʹ")
		last = at
		more.WriteString(dispatcher(f.source, function, of))
		for i, v := range of {
			renamed, err := rename(v.text, fmt.Sprintf("ʹ%d", i))
			if err != nil {
				return "", "", err
			}
			more.WriteString("\n" + renamed + "\n")
		}
	}
	out.WriteString(f.source[last:])
	out.Write(more.Bytes())
	return out.String(), file.Name.Name, nil
}

// dispatcher has the name of the function and calls that of the mutant.
func dispatcher(source string, function *ast.FuncDecl, variants []variant) string {
	text := func(n ast.Node) string { return source[offset(n.Pos()):offset(n.End())] }
	var parameters, arguments []string
	for _, field := range function.Type.Params.List {
		for range max(1, len(field.Names)) {
			name := fmt.Sprintf("pʹ%d", len(parameters))
			parameters = append(parameters, name+" "+text(field.Type))
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				name += "..."
			}
			arguments = append(arguments, name)
		}
	}
	receiver, call := "", ""
	if function.Recv != nil {
		receiver, call = "(rʹ "+text(function.Recv.List[0].Type)+") ", "rʹ."
	}
	types, instance := "", ""
	if list := function.Type.TypeParams; list != nil {
		var names []string
		for _, field := range list.List {
			for _, name := range field.Names {
				names = append(names, name.Name)
			}
		}
		types, instance = text(list), "["+strings.Join(names, ", ")+"]"
	}
	results, give := "", ""
	if function.Type.Results != nil {
		results, give = " "+text(function.Type.Results), "return "
	}
	call = give + call + function.Name.Name + "ʹ%s" + instance + "(" + strings.Join(arguments, ", ") + ")\n"
	var b strings.Builder
	fmt.Fprintf(&b, "\nfunc %s%s%s(%s)%s {\n\tswitch mutantʹ {\n", receiver, function.Name.Name, types, strings.Join(parameters, ", "), results)
	for i, v := range variants {
		fmt.Fprintf(&b, "\tcase %q:\n\t\t"+call, v.mutant, fmt.Sprint(i))
	}
	fmt.Fprintf(&b, "\tdefault:\n\t\t"+call+"\t}\n}\n", "")
	return b.String()
}

// changedFunctions returns the functions that are not the same in both files, and whether
// these, with the same parameters and results, are all that is not the same.
func changedFunctions(source, changed string) (variants []variant, only bool, err error) {
	before, err := parsed(source)
	if err != nil {
		return nil, false, err
	}
	after, err := parsed(changed)
	if err != nil {
		return nil, false, err
	}
	old, mutated := functions(before), functions(after)
	if len(old) != len(mutated) {
		return nil, false, nil
	}
	from, to := 0, 0
	for i, function := range old {
		was, is := source[offset(function.Pos()):offset(function.End())], changed[offset(mutated[i].Pos()):offset(mutated[i].End())]
		between := source[from:offset(function.Pos())] == changed[to:offset(mutated[i].Pos())]
		from, to = offset(function.End()), offset(mutated[i].End())
		switch {
		case !between:
			return nil, false, nil
		case was == is:
		case header(source, function) != header(changed, mutated[i]):
			return nil, false, nil
		default:
			variants = append(variants, variant{function: nameOf(source, function), text: is})
		}
	}
	return variants, source[from:] == changed[to:], nil
}

// rename appends to the name of a function.
func rename(text, suffix string) (string, error) {
	const head = "package p\n"
	file, err := parsed(head + text)
	if err != nil {
		return "", err
	}
	at := offset(functions(file)[0].Name.End()) - len(head)
	return text[:at] + suffix + text[at:], nil
}

func parsed(source string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
}

func functions(file *ast.File) (all []*ast.FuncDecl) {
	for _, d := range file.Decls {
		if f, is := d.(*ast.FuncDecl); is {
			all = append(all, f)
		}
	}
	return all
}

// offset of a position in a file that was parsed alone.
func offset(p token.Pos) int { return int(p) - 1 }

// header is what a function is without its body.
func header(source string, f *ast.FuncDecl) string {
	return source[offset(f.Pos()):offset(f.Type.End())]
}

// nameOf returns the name of a function with that of its receiver's type.
func nameOf(source string, f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	return source[offset(t.Pos()):offset(t.End())] + "." + f.Name.Name
}
