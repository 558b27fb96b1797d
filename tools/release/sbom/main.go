// Command sbom writes a CycloneDX bill of materials of Go programs, from what the
// linker has written into them: exactly the modules that are in the programs.
//
//	sbom -version v1 -o nodemend.cdx.json dist/nodemend dist/nodemend-agent
package main

import (
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run() error {
	version := flag.String("version", "", "`version` of the programs")
	output := flag.String("o", "", "`file` to write")
	flag.Parse()
	if *version == "" || *output == "" || flag.NArg() == 0 {
		return errors.New("give -version, -o and the programs")
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is the time of the bill, in seconds since 1970: %w", err)
	}
	bom, err := bill(*version, flag.Args())
	if err != nil {
		return err
	}
	bom.Metadata.Timestamp = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	file, err := os.Create(*output)
	if err != nil {
		return err
	}
	encoder := cdx.NewBOMEncoder(file, cdx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	return errors.Join(encoder.EncodeVersion(bom, cdx.SpecVersion1_6), file.Close())
}

// bill lists the programs and their modules. Programs of the same name, for several
// systems, are one.
func bill(version string, programs []string) (*cdx.BOM, error) {
	modules, uses := map[string]cdx.Component{}, map[string]map[string]bool{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, err
		}
		ref := strings.TrimSuffix(filepath.Base(program), ".exe")
		if uses[ref] == nil {
			uses[ref] = map[string]bool{}
		}
		dependencies := append([]*debug.Module{{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}}, info.Deps...)
		for _, module := range dependencies {
			if module.Replace != nil {
				module = module.Replace
			}
			component := component(module)
			modules[component.BOMRef], uses[ref][component.BOMRef] = component, true
		}
	}
	project := cdx.Component{BOMRef: "nodemend", Type: cdx.ComponentTypeApplication, Name: "nodemend", Version: version, PackageURL: "pkg:golang/github.com/nodemend/nodemend@" + version}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &project}
	components, dependencies := []cdx.Component{}, []cdx.Dependency{}
	for _, program := range slices.Sorted(maps.Keys(uses)) {
		ref := "program:" + program
		components = append(components, cdx.Component{BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: program, Version: version})
		all := slices.Sorted(maps.Keys(uses[program]))
		dependencies = append(dependencies, cdx.Dependency{Ref: ref, Dependencies: &all})
	}
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		components = append(components, modules[ref])
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	return bom, nil
}

// component describes a module, whose checksum is that of go.sum.
func component(module *debug.Module) cdx.Component {
	url := "pkg:golang/" + module.Path + "@" + strings.ReplaceAll(module.Version, "+", "%2B")
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: module.Version, PackageURL: url}
	if module.Sum != "" {
		c.Properties = &[]cdx.Property{{Name: "nodemend:go.sum", Value: module.Sum}}
	}
	return c
}
