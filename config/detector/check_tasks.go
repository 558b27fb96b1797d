package detector

import "time"

// Tasks is the check that owns the condition TasksBlocked.
type Tasks struct {
	Run `yaml:",inline"`
	// MaxBlocked is how long a task may wait in the kernel without being woken up once.
	MaxBlocked Duration `yaml:"maxBlocked"`
	// StateFile keeps since when tasks wait.
	StateFile string `yaml:"stateFile"`
}

func (s *Tasks) setDefaults() {
	*s = Tasks{
		Run: Run{
			Interval: Duration{30 * time.Second}, Timeout: Duration{20 * time.Second},
			FailureThreshold: 2, SuccessThreshold: 2, StartupGrace: Duration{2 * time.Minute},
		},
		MaxBlocked: Duration{3 * time.Minute}, StateFile: "/var/lib/nodemend/tasks.json",
	}
}

func (s *Tasks) problems(found *problems, at func(field ...string) []string) {
	s.problemsWithin(maxHeartbeat, found, at)
	found.within(s.MaxBlocked, 2*s.Interval.Duration, maxWindow, ": it takes two runs to see that a task waits", at("maxBlocked")...)
	found.stateFile(s.StateFile, "a restarted detector would have to watch a blocked task for maxBlocked again", at("stateFile")...)
}
