//go:build integration

package perf

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// counter is a line of the API server's metrics that counts requests, label that of one of its labels.
var (
	counter = regexp.MustCompile(`(?m)^apiserver_request_total\{(.*)\} (\S+)$`)
	label   = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// requests returns how many requests for our kinds and for events the API server has answered,
// by what they ask for. Watches are not among them: there are always as many.
func (s *scene) requests() map[string]float64 {
	c, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		s.b.Fatal(err)
	}
	text, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(s.ctx)
	if err != nil {
		s.b.Fatal(err)
	}
	all := map[string]float64{}
	for _, line := range counter.FindAllStringSubmatch(string(text), -1) {
		of := map[string]string{}
		for _, l := range label.FindAllStringSubmatch(line[1], -1) {
			of[l[1]] = l[2]
		}
		if of["group"] != v1alpha1.GroupVersion.Group && of["resource"] != "events" || of["verb"] == "WATCH" || of["verb"] == "LIST" {
			continue
		}
		what := strings.ToLower(of["verb"]) + " " + of["resource"]
		if of["subresource"] != "" {
			what += "/" + of["subresource"]
		}
		count, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			s.b.Fatal(err)
		}
		all[what] += count
	}
	return all
}

// tellRequests prints how many requests there were for each fault. The status of node actions
// is what the runners write, which are played here.
func (s *scene) tellRequests(b *testing.B, before, after map[string]float64, faults int) {
	var table strings.Builder
	for _, what := range slices.Sorted(maps.Keys(after)) {
		if n := after[what] - before[what]; n > 0 {
			fmt.Fprintf(&table, "\n%8.2f  %s", n/float64(faults), what)
		}
	}
	b.Logf("requests for each fault and its recovery, of the controller and of the played runners:%s", table.String())
}
