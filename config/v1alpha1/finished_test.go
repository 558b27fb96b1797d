package v1alpha1_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// CEL can't say "all but one", so the rule names each field.
func TestAllOfAFinishedActionIsKeptButWhatItsBootHasLeft(t *testing.T) {
	source, err := os.ReadFile("nodeaction_types.go")
	if err != nil {
		t.Fatal(err)
	}
	rule := regexp.MustCompile(`(?m)^// \+kubebuilder:validation:XValidation:rule="(.*)",message="a finished action never changes"`).FindSubmatch(source)
	if rule == nil {
		t.Fatal("there is no such rule")
	}
	status := reflect.TypeFor[v1alpha1.NodeActionStatus]()
	for i := range status.NumField() {
		field, _, _ := strings.Cut(status.Field(i).Tag.Get("json"), ",")
		kept := strings.Contains(string(rule[1]), "has(self.status."+field+") == has(oldSelf.status."+field+") && (!has(self.status."+field+") || self.status."+field+" == oldSelf.status."+field+")")
		if kept == (field == "aftermath") {
			t.Errorf("status.%s is kept: %t", field, kept)
		}
	}
}
