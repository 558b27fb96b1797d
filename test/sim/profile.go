package sim

// profile is how wild a run is: numbers out of a thousand.
type profile struct {
	name string
	// steps that the chaos lasts.
	steps int
	// events is how often something befalls a node or somebody does something; disorder
	// how often it is not the oldest request that is served next.
	events, disorder int
	// stalls and relists are of watches.
	stalls, relists int
	// writes and reads are the weights of the fates of requests.
	writes, reads []int
	// crashes is how often a runner dies at a point between two side effects.
	crashes int
	// hangs is how often a remedy lasts until its timeout, deadReboots how often a
	// reboot does not happen.
	hangs, deadReboots int
	// failures is how often a remedy ends in failure.
	failures int
	// stateFiles: detectors keep their state in a file.
	stateFiles   bool
	historyLimit int
	// steady: nothing befalls the controllers, of which most can be asked then.
	steady bool
	// crowd: there are more nodes, most steps take theirs out of service, and most budgets
	// limit that.
	crowd bool
}

// profiles: some faults are found only where there are few others.
func profiles() []profile {
	return []profile{
		{
			name: "calm", steps: 500, events: 25, disorder: 0, writes: []int{1000}, reads: []int{1000},
			hangs: 50, failures: 50, historyLimit: 1, steady: true,
		},
		{
			name: "disorder", steps: 500, events: 25, disorder: 300, stalls: 10, relists: 2,
			writes: []int{970, 10, 0, 20}, reads: []int{990, 5, 0, 5}, hangs: 50, failures: 50, historyLimit: 10,
		},
		{
			name: "losses", steps: 500, events: 25, disorder: 100, stalls: 5, relists: 5,
			writes: []int{900, 30, 20, 10, 20, 0, 0, 20}, reads: []int{970, 5, 10, 5, 0, 0, 0, 10},
			hangs: 50, failures: 50, deadReboots: 50, stateFiles: true, historyLimit: 10,
		},
		{
			name: "crashes", steps: 500, events: 30, disorder: 100, stalls: 5, relists: 2,
			writes: []int{940, 10, 0, 0, 10, 20, 20}, reads: []int{1000}, crashes: 50, hangs: 100, failures: 50,
			deadReboots: 50, stateFiles: true, historyLimit: 0,
		},
		{
			name: "stale", steps: 500, events: 30, disorder: 200, stalls: 60, relists: 2,
			writes: []int{950, 20, 0, 20, 10}, reads: []int{1000}, crashes: 10, hangs: 50, failures: 50, historyLimit: 10,
		},
		{
			name: "crowd", steps: 1500, events: 10, disorder: 100,
			writes: []int{1000}, reads: []int{1000}, hangs: 50, failures: 50, historyLimit: 10, crowd: true,
		},
		{
			name: "stale crowd", steps: 1500, events: 12, disorder: 200, stalls: 30, relists: 2,
			writes: []int{950, 20, 0, 20, 10}, reads: []int{1000}, hangs: 50, failures: 50, historyLimit: 10, crowd: true,
		},
	}
}
