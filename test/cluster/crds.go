package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
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

// remindEvery is how often the API server is reminded of what it has forgotten.
const remindEvery = 2 * time.Second

// RemindOfCRDs edits the CustomResourceDefinitions that are being deleted until it is
// stopped. The API server forgets one whose objects it could not list at once ("storage is
// (re)initializing") until it looks at all of them, five minutes later
// (operator-framework/operator-controller#1437), but looks at one that is edited.
func (c *Cluster) RemindOfCRDs(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- c.remindOfCRDs(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

func (c *Cluster) remindOfCRDs(ctx context.Context) error {
	clients, err := apiextensions.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	crds, number := clients.CustomResourceDefinitions(), 0
	err = wait.PollUntilContextCancel(ctx, remindEvery, true, func(ctx context.Context) (bool, error) {
		all, err := crds.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range all.Items {
			if all.Items[i].DeletionTimestamp.IsZero() {
				continue
			}
			number++
			reminder := fmt.Appendf(nil, `{"metadata":{"annotations":{"test/reminder":"%d"}}}`, number)
			if _, err := crds.Patch(ctx, all.Items[i].Name, types.MergePatchType, reminder, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		return false, nil
	})
	if ctx.Err() == nil { // it was not stopped
		return fmt.Errorf("reminding the API server of CRDs: %w", err)
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
