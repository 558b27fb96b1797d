package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of all kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "nodemend.dev", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package in a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&RemedyPolicy{}, &RemedyPolicyList{},
		&RemediationBudget{}, &RemediationBudgetList{},
		&Remediation{}, &RemediationList{},
		&NodeAction{}, &NodeActionList{},
		&NodeMaintenance{}, &NodeMaintenanceList{},
		&NodemendRemediation{}, &NodemendRemediationList{},
		&NodemendRemediationTemplate{}, &NodemendRemediationTemplateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
