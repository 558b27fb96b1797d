package runner

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/filled"
)

// filledName is that of objects with all fields, which the API server of a rehearsal has.
const filledName = "filled"

// filledObjects returns objects of all kinds that a runner reads, by their resources, with a
// value in each field: to read one may take code that other objects do not.
func filledObjects() map[string]any {
	objects := map[string]any{
		actionResource:       &v1alpha1.NodeAction{TypeMeta: own("NodeAction")},
		"remediations":       &v1alpha1.Remediation{TypeMeta: own("Remediation")},
		"remedypolicies":     &v1alpha1.RemedyPolicy{TypeMeta: own("RemedyPolicy")},
		"remediationbudgets": &v1alpha1.RemediationBudget{TypeMeta: own("RemediationBudget")},
		requestResource:      &v1alpha1.NodemendRemediation{TypeMeta: own("NodemendRemediation")},
		"nodes":              &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}},
	}
	now := time.Now()
	for _, object := range objects {
		filled.Fill(object, now)
	}
	return objects
}
