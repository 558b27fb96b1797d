package v1alpha1

// Kind returns the step's remedy, or one without a name if this version knows none of what
// the step asks for.
func (s *Step) Kind() *Remedy {
	for _, r := range Remedies() {
		if r.asked(s) {
			return r
		}
	}
	return &unknownRemedy
}

// Remedy returns the name of the step's remedy, or "" if this version knows none
// of what the step asks for.
func (s *Step) Remedy() string { return s.Kind().Name }

// Step returns the remediation's step of this number, counted from 1; nil if there is
// none.
func (r *Remediation) Step(number int32) *Step {
	if number < 1 || int(number) > len(r.Spec.Steps) {
		return nil
	}
	return &r.Spec.Steps[number-1]
}

// Disruptive reports whether the step's remedy takes the node out of service.
func (s *Step) Disruptive() bool { return s.Kind().Disruptive }

// Executor returns who carries out the step's attempts.
func (s *Step) Executor() Executor {
	if kind := s.Kind(); kind.executor != nil {
		return kind.executor(s)
	}
	return s.Kind().Executor
}

// NeedsRunner reports whether the step's remedy is executed on the node.
func (s *Step) NeedsRunner() bool { return s.Executor() == ExecutorRunner }

// NeedsMatch reports whether the step's remedy is executed only while the node has a
// condition that the policy matches: a runner asks for one, here or elsewhere.
func (s *Step) NeedsMatch() bool { return s.Executor() != ExecutorMaintenance }

// Reboots reports whether the step's remedy boots the node anew.
func (s *Step) Reboots() bool { return s.Kind().Reboots }

// Final reports whether the step's remedy keeps the node out of service until it has
// recovered.
func (s *Step) Final() bool { return s.Kind().Final }

// Replaces reports whether the step's remedy deletes the machine under the node.
func (s *Step) Replaces() bool { return s.Kind().Replaces }

// Drain returns how the node is drained for the step, nil if it is not.
func (s *Step) Drain() *Drain {
	if kind := s.Kind(); kind.drain != nil {
		return kind.drain(s)
	}
	return nil
}

// Power returns what the step wants of the power of the machine once the node is out of service.
func (s *Step) Power() PowerRequest {
	if s.Maintenance != nil {
		return s.Maintenance.Power
	}
	return ""
}

// OutOfService reports whether pods and volumes of the node are freed once its machine is off for
// the maintenance of the step.
func (s *Step) OutOfService() bool { return s.Maintenance != nil && s.Maintenance.OutOfService }

// Identify reports whether the lamp of the machine shines while the node is out of service.
func (s *Step) Identify() bool { return s.Maintenance != nil && s.Maintenance.Identify }

// Describe says what the step does, after "would": "restart containerd.service".
func (s *Step) Describe() string { return s.Kind().describe(s) }

// Why says why the node is out of service for the step: "BMC reports a hardware failure".
func (s *Step) Why() string {
	if kind := s.Kind(); kind.why != nil {
		return kind.why(s)
	}
	return s.Remedy()
}
