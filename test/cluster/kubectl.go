package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Kubectl runs kubectl as an administrator and returns what it prints. The error has that, too.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	program, err := Program("kubectl")
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", c.Kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return string(out), nil
}
