//go:build integration

package perf

import (
	"cmp"
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

// request is what a request asks for.
type request struct{ resource, verb, subresource string }

// requests returns how many requests for our kinds and for events the API server has answered,
// by what they ask for. Watches are not among them: there are always as many.
func (s *scene) requests() map[request]float64 {
	c, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		s.b.Fatal(err)
	}
	text, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(s.ctx)
	if err != nil {
		s.b.Fatal(err)
	}
	all := map[request]float64{}
	for _, line := range counter.FindAllStringSubmatch(string(text), -1) {
		of := map[string]string{}
		for _, l := range label.FindAllStringSubmatch(line[1], -1) {
			of[l[1]] = l[2]
		}
		if of["group"] != v1alpha1.GroupVersion.Group && of["resource"] != "events" || of["verb"] == "WATCH" || of["verb"] == "LIST" {
			continue
		}
		count, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			s.b.Fatal(err)
		}
		all[request{resource: of["resource"], verb: strings.ToLower(of["verb"]), subresource: of["subresource"]}] += count
	}
	return all
}

// tellRequests prints how many requests there were for each fault, a line for each resource: of a
// benchmark that logs more than ten lines the rest is not printed. The status of node actions is what
// the runners write, which are played here.
func (s *scene) tellRequests(b *testing.B, before, after map[request]float64, faults int) {
	lines := map[string][]string{}
	for _, r := range slices.SortedFunc(maps.Keys(after), func(a, b request) int {
		return cmp.Or(cmp.Compare(a.verb, b.verb), cmp.Compare(a.subresource, b.subresource))
	}) {
		if n := after[r] - before[r]; n > 0 {
			lines[r.resource] = append(lines[r.resource], strings.TrimSpace(fmt.Sprintf("%.2f %s %s", n/float64(faults), r.verb, r.subresource)))
		}
	}
	var table strings.Builder
	for _, resource := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&table, "\n%s: %s", resource, strings.Join(lines[resource], ", "))
	}
	b.Logf("requests for each fault and its recovery, of the controller and of the played runners:%s", table.String())
}
