package customplugin

import (
	"sync/atomic"
	"time"

	"github.com/nodemend/nodemend/checks"
)

// group is what is judged together: all rules of one condition, or one temporary
// rule.
type group struct {
	// healthy is what is reported without a problem; its type is empty for a
	// temporary rule.
	healthy checks.Observation
	rules   []rule
	// labels name the rules in metrics and logs.
	labels []string
	// stuck holds, for a rule whose last run was given up, the channel on which
	// its result will come; nil for all others.
	stuck []<-chan result
	pace  pace
	// trigger asks for a round at once.
	trigger chan struct{}
	// busySince is when the round that is under way has begun.
	busySince atomic.Pointer[time.Time]
}

// newGroups returns conditions in their order, then temporary rules in theirs.
func newGroups(config Config, options Options) (groups []*group) {
	add := func(healthy checks.Observation, belongs func(int, rule) bool) {
		g := &group{
			healthy: healthy,
			pace:    pace{interval: config.interval, problemInterval: options.ProblemInterval},
			trigger: make(chan struct{}, 1),
		}
		for i, r := range config.rules {
			if belongs(i, r) {
				g.rules = append(g.rules, r)
				g.labels = append(g.labels, label(config.source, r))
			}
		}
		if len(g.rules) > 0 {
			g.stuck = make([]<-chan result, len(g.rules))
			groups = append(groups, g)
		}
	}
	for _, healthy := range config.conditions {
		add(healthy, func(_ int, r rule) bool { return !r.temporary && r.condition == healthy.Type })
	}
	for i := range config.rules {
		add(checks.Observation{}, func(j int, r rule) bool { return r.temporary && i == j })
	}
	return groups
}

func (g *group) temporary() bool { return g.rules[0].temporary }

// String names the group in errors.
func (g *group) String() string {
	if g.temporary() {
		return "the temporary rule " + g.rules[0].reason
	}
	return "condition " + g.healthy.Type
}

func label(source string, r rule) string {
	if r.temporary {
		return source + "/" + r.reason
	}
	return source + "/" + r.condition + "/" + r.reason
}
