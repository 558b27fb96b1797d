//go:build !nokubelet

package main

import (
	"context"

	"k8s.io/component-base/cli"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func runKubelet() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) }
