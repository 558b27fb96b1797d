package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Hash identifies the step by all that it says: SHA-256 of its JSON form, as
// 64 hexadecimal digits. Two ways to write the same duration hash alike. A
// field that this version does not know is left out, so that a runner and a
// controller of different versions disagree instead of guessing.
func (s *Step) Hash() (string, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("hashing a step: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// StepWithHash returns the policy's first step with this hash, or nil.
func (p *RemedyPolicy) StepWithHash(hash string) *Step {
	for i := range p.Spec.Steps {
		if h, err := p.Spec.Steps[i].Hash(); err == nil && h == hash {
			return &p.Spec.Steps[i]
		}
	}
	return nil
}
