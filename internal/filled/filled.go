// Package filled makes objects that have a value in each field: to read one may take code that
// other objects do not, which a program that has to outlive its disk must have executed before.
package filled

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fill gives a value to all that can be set in what object points to, but to its
// [metav1.TypeMeta]. All times are now.
func Fill(object any, now time.Time) { fill(reflect.ValueOf(object).Elem(), now) }

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
