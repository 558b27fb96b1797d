package v1alpha1

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Signed is the value of an annotation by which a user says to have done something:
// approved-by, retried-by or paused-by. It holds what it is about, so that it names nobody
// any more once somebody else writes that anew, by hand, and leaves the name where it is.
// The admission policy nodemend-names lets only the user itself write it.
func Signed(what, user string) string { return what + " " + user }

// signer returns the user who has signed this, "" if nobody has.
func signer(value, what string) string {
	user, ok := strings.CutPrefix(value, Signed(what, ""))
	if !ok {
		return ""
	}
	return user
}

// ApprovedBy returns who has approved what is approved now, "" if no name is recorded.
func (r *Remediation) ApprovedBy() string {
	return signer(r.Annotations[ApprovedByAnnotation], r.Annotations[ApprovedStepAnnotation])
}

// RetriedBy returns who has asked to start over by the present value of the annotation, ""
// if no name is recorded.
func (r *Remediation) RetriedBy() string {
	return signer(r.Annotations[RetriedByAnnotation], r.Annotations[RetryAnnotation])
}

// Paused is what the name of who has paused a policy or a budget is about: the object as it
// is since its spec was last written, by whomever.
func Paused(obj metav1.Object) string { return fmt.Sprintf("%s.%d", obj.GetUID(), obj.GetGeneration()) }

// PausedBy returns who has paused a policy or a budget, "" if no name is recorded, or its
// spec was written since.
func PausedBy(obj metav1.Object) string {
	return signer(obj.GetAnnotations()[PausedByAnnotation], Paused(obj))
}
