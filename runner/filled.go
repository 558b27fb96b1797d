package runner

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// filledName is that of objects with all fields, which the API server of a rehearsal has.
const filledName = "filled"

// filled returns objects of all kinds that a runner reads, by their resources, with a
// value in each field: to read one may take code that other objects do not.
func filled() map[string]any {
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
		fill(reflect.ValueOf(object).Elem(), now)
	}
	return objects
}

// fill gives a value to all that can be set.
func fill(v reflect.Value, now time.Time) {
	switch value := v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *time.Time:
		*value = now
		return
	case *metav1.FieldsV1:
		value.SetRawString(`{"f:metadata":{}}`)
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.String:
		v.SetString("1")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), now)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), now)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, now)
		fill(value, now)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), now)
			}
		}
	}
}
