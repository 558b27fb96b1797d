package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// installCRDs creates or updates the CustomResourceDefinitions in files and
// waits until the API server lists their kinds.
func installCRDs(ctx context.Context, config *rest.Config, files fs.FS) error {
	if files == nil {
		return nil
	}
	crds, err := readCRDs(files)
	if err != nil {
		return err
	}
	patience := startTimeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: crds, MaxTime: patience}); err != nil {
		return fmt.Errorf("installing CRDs: %w", err)
	}
	return nil
}

func readCRDs(files fs.FS) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return fmt.Errorf("%s is not one CustomResourceDefinition: %w", name, err)
		}
		crds = append(crds, crd)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading CRDs: %w", err)
	}
	if len(crds) == 0 {
		return nil, fmt.Errorf("reading CRDs: no *.yaml file found, leave Options.CRDs nil to install none")
	}
	return crds, nil
}
