//go:build nokubelet

package main

import (
	"fmt"
	"os"
)

// runKubelet stands in for the kubelet, which the demo does not need.
func runKubelet() int {
	fmt.Fprintln(os.Stderr, "controlplane: built without the kubelet; build it with \"make controlplane\"")
	return 2
}
