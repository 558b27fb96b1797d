//go:build integration

package v1alpha1_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestAPolicyIsCarefulIfNothingIsSaid(t *testing.T) {
	var got v1alpha1.RemedyPolicy
	accept(t, createPolicy(t, newClient(t), `{"steps": [{"reboot": {}}]}`, &got))
	spec := got.Spec
	if spec.Mode != v1alpha1.ModeEnforce || spec.Steps[0].RequireApproval {
		t.Errorf("mode %q, approval required %v", spec.Mode, spec.Steps[0].RequireApproval)
	}
	if spec.Cooldown == nil || spec.Cooldown.Duration != 10*time.Minute {
		t.Errorf("cooldown %v, want 10m", spec.Cooldown)
	}
	if spec.DelayAfterJoin == nil || spec.DelayAfterJoin.Duration != 10*time.Minute {
		t.Errorf("delayAfterJoin %v, want 10m", spec.DelayAfterJoin)
	}
	if r := spec.MaxRemediations; r == nil || r.Count != 3 || r.Per.Duration != 24*time.Hour {
		t.Errorf("maxRemediations %v, want 3 per 24h", r)
	}
}

func TestAZeroIsNotTakenForNothing(t *testing.T) {
	var got v1alpha1.RemedyPolicy
	accept(t, createPolicy(t, newClient(t),
		`{"steps": [{"reboot": {}}], "cooldown": "0s", "delayAfterJoin": "0s", "maxRemediations": {"count": 0, "per": "1m"}}`, &got))
	spec := got.Spec
	if spec.Cooldown == nil || !spec.Cooldown.IsZero() || spec.DelayAfterJoin == nil || !spec.DelayAfterJoin.IsZero() {
		t.Errorf("cooldown %v, delayAfterJoin %v, want 0s", spec.Cooldown, spec.DelayAfterJoin)
	}
	if r := spec.MaxRemediations; r == nil || r.Count != 0 || r.Per.Duration != time.Minute {
		t.Errorf("maxRemediations %v, want 0 per 1m", r)
	}
}

func TestThePacesOfAPolicyHaveBounds(t *testing.T) {
	c := newClient(t)
	const number, per = "must be a duration: numbers with the units", "must be from 1m to 720h"
	for field, message := range map[string]string{
		`"cooldown": "720h"`:                              "",
		`"cooldown": "1d"`:                                number,
		`"cooldown": "-1m"`:                               number,
		`"cooldown": 60`:                                  "must be of type string",
		`"delayAfterJoin": "1h30m"`:                       "",
		`"delayAfterJoin": "soon"`:                        number,
		`"maxRemediations": {"count": 1000, "per": "1m"}`: "",
		`"maxRemediations": {"count": 0, "per": "720h"}`:  "",
		`"maxRemediations": {"count": -1, "per": "1h"}`:   "greater than or equal to 0",
		`"maxRemediations": {"count": 1001, "per": "1h"}`: "less than or equal to 1000",
		`"maxRemediations": {"count": 1}`:                 "per: Required value",
		`"maxRemediations": {"per": "1h"}`:                "count: Required value",
		`"maxRemediations": {"count": 1, "per": "59s"}`:   per,
		`"maxRemediations": {"count": 1, "per": "0s"}`:    per,
		`"maxRemediations": {"count": 1, "per": "721h"}`:  per,
		`"maxRemediations": {"count": 1, "per": "30d"}`:   number,
		`"mode": "Enforce"`:                               "",
		`"mode": "DryRun"`:                                "",
		`"mode": "dryrun"`:                                `supported values: "Enforce", "DryRun"`,
		`"mode": ""`:                                      `supported values: "Enforce", "DryRun"`,
	} {
		judge(t, field, createPolicy(t, c, `{"steps": [{"reboot": {}}], `+field+`}`, &v1alpha1.RemedyPolicy{}), message)
	}
}

func TestAMatchMayNameReasons(t *testing.T) {
	c := newClient(t)
	list := func(reasons ...string) string { return `["` + strings.Join(reasons, `", "`) + `"]` }
	sixteen := strings.Split("abcdefghijklmnop", "")
	for reasons, message := range map[string]string{
		list("Timeout", "NotReady"):    "",
		list(sixteen...):               "",
		list(strings.Repeat("a", 128)): "",
		`[]`:                           "",
		list(append(sixteen, "q")...):  "must have at most 16 items",
		list(strings.Repeat("a", 129)): "may not be more than 128",
		list(""):                       "at least 1 chars long",
		list("Timeout", "Timeout"):     "Duplicate value",
		`"Timeout"`:                    "must be of type array",
	} {
		judge(t, reasons, createPolicy(t, c, `{"match": [{"type": "Ready", "status": "False", "reasons": `+reasons+`}], "steps": [{"reboot": {}}]}`,
			&v1alpha1.RemedyPolicy{}), message)
	}
}

func TestAMatchMaySayWhatIsHealthy(t *testing.T) {
	c := newClient(t)
	const differ, ready = "healthy must differ from the status of each entry of its type", `healthy must be "True" for Ready`
	for match, message := range map[string]string{
		`{"type": "GPUReady", "status": "Unknown", "healthy": "True"}`:                                                                "",
		`{"type": "GPUReady", "status": "False", "healthy": "True"}`:                                                                  "",
		`{"type": "GPUReady", "status": "Unknown", "healthy": "True"}, {"type": "GPUReady", "status": "False"}`:                       "",
		`{"type": "GPUReady", "status": "Unknown", "healthy": "True"}, {"type": "Sick", "status": "True", "healthy": "False"}`:        "",
		`{"type": "Ready", "status": "Unknown", "healthy": "True"}`:                                                                   "",
		`{"type": "GPUReady", "status": "True", "healthy": "True"}`:                                                                   differ,
		`{"type": "GPUReady", "status": "Unknown", "healthy": "True"}, {"type": "GPUReady", "status": "True"}`:                        differ,
		`{"type": "GPUReady", "status": "Unknown", "healthy": "True"}, {"type": "GPUReady", "status": "Unknown", "healthy": "False"}`: differ,
		`{"type": "Ready", "status": "Unknown", "healthy": "False"}`:                                                                  ready,
		`{"type": "GPUReady", "status": "False", "healthy": "Unknown"}`:                                                               `supported values: "True", "False"`,
	} {
		judge(t, match, createPolicy(t, c, `{"match": [`+match+`], "steps": [{"reboot": {}}]}`, &v1alpha1.RemedyPolicy{}), message)
	}
}

func TestAMatchMayIgnoreWhatIsOld(t *testing.T) {
	c := newClient(t)
	const short, never = "must be at least 1h", "ignoreAfter must be longer than for, or nothing ever starts"
	for fields, message := range map[string]string{
		`"ignoreAfter": "1h"`:                "",
		`"for": "90m", "ignoreAfter": "91m"`: "",
		`"ignoreAfter": "59m"`:               short,
		`"ignoreAfter": "0s"`:                "must be at least 1h",
		`"for": "2h", "ignoreAfter": "2h"`:   never,
		`"for": "3h", "ignoreAfter": "2h"`:   never,
		`"ignoreAfter": "1d"`:                "must be a duration: numbers with the units",
		`"for": "1d", "ignoreAfter": "2h"`:   "must be a duration: numbers with the units",
		`"ignoreAfter": 3600`:                "must be of type string",
	} {
		judge(t, fields, createPolicy(t, c, `{"match": [{"type": "Sick", "status": "True", `+fields+`}], "steps": [{"reboot": {}}]}`,
			&v1alpha1.RemedyPolicy{}), message)
	}
}

func TestAMatchMayDebounceWhatOthersReport(t *testing.T) {
	c := newClient(t)
	const fromTo = "must be from 1m to 1h"
	for entry, message := range map[string]string{
		`"type": "Sick", "debounce": "1m"`:               "",
		`"type": "Sick", "debounce": "1h"`:               "",
		`"type": "Sick", "debounce": "59s"`:              fromTo,
		`"type": "Sick", "debounce": "61m"`:              fromTo,
		`"type": "Sick", "debounce": "0s"`:               fromTo,
		`"type": "Sick", "debounce": "1d"`:               "must be a duration: numbers with the units",
		`"type": "Ready", "debounce": "2m"`:              "debounce needs a condition that is reported again and again",
		`"type": "NetworkUnavailable", "debounce": "2m"`: "debounce needs a condition that is reported again and again",
	} {
		judge(t, entry, createPolicy(t, c, `{"match": [{"status": "True", `+entry+`}], "steps": [{"reboot": {}}]}`,
			&v1alpha1.RemedyPolicy{}), message)
	}
}

func TestAnApprovalIsRequiredOrNot(t *testing.T) {
	c := newClient(t)
	for value, message := range map[string]string{"true": "", "false": "", `"yes"`: "must be of type boolean"} {
		judge(t, value, createPolicy(t, c, `{"steps": [{"reboot": {}, "requireApproval": `+value+`}]}`, &v1alpha1.RemedyPolicy{}), message)
	}
}
