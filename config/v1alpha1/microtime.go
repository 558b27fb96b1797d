package v1alpha1

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MicroTime is a time that is written with microseconds. Unlike metav1.MicroTime it is read
// with any precision: the API server accepts that, and one object that could not be read would
// hide all of its kind.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:Format=date-time
type MicroTime struct {
	metav1.MicroTime `json:"-"`
}

// NewMicroTime returns the time as a MicroTime.
func NewMicroTime(t time.Time) MicroTime { return MicroTime{metav1.NewMicroTime(t)} }

// UnmarshalJSON reads a time of RFC 3339.
func (t *MicroTime) UnmarshalJSON(data []byte) error {
	var text *string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("a time is a string such as \"2026-01-02T03:04:05.123456Z\", not %s", data)
	}
	if text == nil {
		t.Time = time.Time{}
		return nil
	}
	parsed, err := time.Parse(time.RFC3339Nano, *text)
	if err != nil {
		return err
	}
	t.Time = parsed.Local()
	return nil
}
