package runner

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/runner/remedy"
)

// goodReplaceInput is one for which every check lets a replacement pass.
func goodReplaceInput(t *testing.T) input {
	t.Helper()
	in := goodInput(t)
	in.policy.Spec.Steps[1] = v1alpha1.Step{Replace: &v1alpha1.ReplaceRemedy{}}
	in.remediation.Spec.Steps, in.remediation.Status.BootID = in.policy.Spec.Steps, "boot-1"
	in.action.Spec.StepHash, in.action.Spec.Executor = hashOf(t, &in.policy.Spec.Steps[1]), v1alpha1.ExecutorRemote
	in.action.Spec.Timeout.Duration = time.Hour
	in.action.Finalizers = []string{v1alpha1.PowerFinalizer}
	in.remote, in.remedies = true, []string{v1alpha1.RemedyReplace}
	in.node.Status.NodeInfo.BootID, in.node.Spec.Unschedulable = "boot-1", true
	return in
}

// bootedLater has the controller have seen a boot so long after a check has reported.
func bootedLater(by time.Duration) func(*input) {
	return func(in *input) {
		in.node.Status.Conditions[1].LastHeartbeatTime = metav1.NewTime(testNow)
		in.remediation.Status.BootedAt = &metav1.Time{Time: testNow.Add(by)}
	}
}

func TestDecideReplace(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*input)
		reason  string // "": executed
		message string
	}{
		"a good action":    {change: func(*input) {}},
		"a node that runs": {change: func(in *input) { in.lease = leaseOf(time.Second) }},
		"a claim, however old": {change: func(in *input) {
			in.action.Status.Claim, in.now = claimBy("other", "boot-1"), testNow.Add(time.Hour)
		}},
		"no boot ID":                           {change: func(in *input) { in.node.Status.NodeInfo.BootID = "" }},
		"one that has expired":                 {func(in *input) { in.now = testNow.Add(time.Hour) }, v1alpha1.ReasonExpired, ""},
		"one that nothing would keep":          {func(in *input) { in.action.Finalizers = nil }, v1alpha1.ReasonRefused, "no finalizer nodemend.dev/power"},
		"one that is deleted":                  {func(in *input) { in.action.DeletionTimestamp = &metav1.Time{Time: testNow} }, v1alpha1.ReasonCancelled, "deleted"},
		"another node of the name":             {func(in *input) { in.node.UID = "node-2" }, v1alpha1.ReasonRefused, "UID"},
		"no node":                              {func(in *input) { in.node = nil }, v1alpha1.ReasonRefused, "there is no Node"},
		"a node that is back in service":       {func(in *input) { in.node.Spec.Unschedulable = false }, v1alpha1.ReasonRefused, "is not cordoned"},
		"an excluded node":                     {func(in *input) { in.node.Labels[v1alpha1.ExcludeLabel] = "true" }, v1alpha1.ReasonRefused, v1alpha1.ExcludeLabel},
		"a paused cluster":                     {func(in *input) { in.pause = clusterPause() }, v1alpha1.ReasonRefused, "rack move"},
		"a paused budget":                      {func(in *input) { in.holds.Budgets = pausedBudgets() }, v1alpha1.ReasonRefused, "nothing was deleted: RemediationBudget rack-7"},
		"a maintenance of a person":            {func(in *input) { in.holds.Maintenances = maintenances("") }, v1alpha1.ReasonRefused, "nothing was deleted: node worker-1 is in maintenance m"},
		"its own maintenance":                  {change: func(in *input) { in.holds.Maintenances = maintenances("remediation-1") }},
		"a step without its approval":          {func(in *input) { in.remediation.Spec.Steps[1].RequireApproval = true }, v1alpha1.ReasonRefused, "requires approval"},
		"a policy in dry run":                  {func(in *input) { in.policy.Spec.Mode = v1alpha1.ModeDryRun }, v1alpha1.ReasonRefused, "DryRun"},
		"a node that is well":                  {func(in *input) { in.node.Status.Conditions[1].Status = "False" }, v1alpha1.ReasonNotNeeded, "no condition matched"},
		"another boot than that was judged":    {func(in *input) { in.node.Status.NodeInfo.BootID = "boot-2" }, v1alpha1.ReasonRefused, "its boot ID is boot-2, and was boot-1"},
		"a boot in which no check has seen it": {bootedLater(time.Second), v1alpha1.ReasonNotNeeded, "no check has reported RuntimeUnhealthy"},
		"one in which a check has":             {change: bootedLater(-time.Second)},
		"a remediation that has gone on":       {func(in *input) { in.remediation.Status.Action = "next" }, v1alpha1.ReasonSuperseded, ""},
		"a step that switches power": {func(in *input) {
			in.policy.Spec.Steps[1] = v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}}
			in.action.Spec.StepHash = hashOf(t, &in.policy.Spec.Steps[1])
		}, v1alpha1.ReasonUnsupported, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := goodReplaceInput(t)
			test.change(&in)
			d := decideReplace(in)
			if test.reason == "" && d.verb != execute || test.reason != "" && (d.verb != finish || d.outcome.Reason != test.reason || !strings.Contains(d.outcome.Message, test.message)) {
				t.Errorf("got %+v", d)
			}
		})
	}
	in := goodReplaceInput(t) // a power cycle cuts nothing for it
	in.remedies = []string{v1alpha1.RemedyReboot}
	if d := decideRemote(in); d.verb != finish {
		t.Errorf("a power cycle does %+v", d)
	}
}

func TestFollowReplace(t *testing.T) {
	there := MachineSeen{There: true, Said: "it is there", Version: "7"}
	leaving, marked := there, there
	leaving.Leaving, leaving.Said = true, "it is being deleted"
	marked.Marked, marked.Said = true, "it is marked"
	both := marked
	both.Leaving = true
	said := func(text string) func(*replaceLook) {
		return func(l *replaceLook) { l.action.Status.Replace.Said = text }
	}
	sent := func(l *replaceLook) { l.action.Status.Replace.SentAt = &metav1.Time{Time: testNow} }
	remediated := func(l *replaceLook) { l.action.Status.Replace.Method = v1alpha1.ReplaceRemediate }
	withdrawn := func(l *replaceLook) {
		l.action.Status.Replace.Withdrawn, l.action.Status.Replace.Said = v1alpha1.ReasonNotNeeded, "well"
	}
	forbidden := func(l *replaceLook) {
		l.stands = &decision{verb: finish, outcome: remedy.Outcome{Reason: v1alpha1.ReasonRefused, Message: "paused"}}
	}
	after := func(d time.Duration) func(*replaceLook) {
		return func(l *replaceLook) { l.now = testNow.Add(d) }
	}
	bare := func(l *replaceLook) { l.nodeGone = true }
	ready := func(n int32) func(*replaceLook) { return func(l *replaceLook) { l.ready = n } }
	const gone = "it is gone, and its Node is still there"
	count := func(n string) func(*replaceLook) {
		return said("it is gone, and its Node; " + n + " nodes of MachineSet fleet/workers are Ready")
	}
	for name, test := range map[string]struct {
		seen   MachineSeen
		change []func(*replaceLook)
		verb   replaceVerb
		reason string
		says   string
		wait   time.Duration
	}{
		"nothing was sent":               {there, []func(*replaceLook){said("it is there")}, replaceSend, "", "", 0},
		"what is seen is kept first":     {there, nil, replaceWrite, "", "it is there", 0},
		"it is forbidden by now":         {there, []func(*replaceLook){said("it is there"), forbidden}, replaceFinish, v1alpha1.ReasonRefused, "paused", 0},
		"it is too late to begin":        {there, []func(*replaceLook){said("it is there"), after(6 * time.Minute)}, replaceFinish, v1alpha1.ReasonNotStarted, "not begun later than 5m0s", 0},
		"it goes":                        {leaving, []func(*replaceLook){said("it is being deleted"), sent}, replaceWait, "", "", replacePoll},
		"it goes since now":              {leaving, []func(*replaceLook){said("it is being deleted")}, replaceWrite, "", "", 0},
		"it goes, and that is forbidden": {leaving, []func(*replaceLook){said("it is being deleted"), sent, forbidden}, replaceWait, "", "", replacePoll},
		"it goes for a day":              {leaving, []func(*replaceLook){said("it is being deleted"), sent, after(24 * time.Hour)}, replaceWait, "", "", replacePoll},
		"it goes, and its Node is gone":  {leaving, []func(*replaceLook){said("it is being deleted"), sent, after(24 * time.Hour), bare}, replaceWait, "", "", replacePoll},
		"it was restored":                {there, []func(*replaceLook){said("it is there"), sent}, replaceFinish, v1alpha1.ReasonInterrupted, "restored from a backup", 0},
		"it is gone":                     {MachineSeen{}, []func(*replaceLook){said(gone), sent}, replaceWait, "", "", replacePoll},
		"its Node stays":                 {MachineSeen{}, []func(*replaceLook){said(gone), sent, after(time.Hour)}, replaceFinish, v1alpha1.ReasonTimedOut, "Node worker-1 is still there", 0},
		"both are gone":                  {MachineSeen{}, []func(*replaceLook){count("2 of 3"), sent, bare, ready(2)}, replaceWait, "", "", groupPoll},
		"both are gone, near the end":    {MachineSeen{}, []func(*replaceLook){count("2 of 3"), sent, bare, ready(2), after(time.Hour - time.Second)}, replaceWait, "", "", time.Second},
		"the new one is Ready":           {MachineSeen{}, []func(*replaceLook){count("3 of 3"), sent, bare, ready(3)}, replaceFinish, v1alpha1.ReasonReplaced, "has 3 Ready nodes", 0},
		"it is Ready late":               {MachineSeen{}, []func(*replaceLook){count("3 of 3"), sent, bare, ready(3), after(2 * time.Hour)}, replaceFinish, v1alpha1.ReasonReplaced, "", 0},
		"it is not Ready in time":        {MachineSeen{}, []func(*replaceLook){count("2 of 3"), sent, bare, ready(2), after(time.Hour)}, replaceFinish, v1alpha1.ReasonNotReplaced, "has 2 Ready nodes, not 3", 0},
		"fewer are wanted by then":       {MachineSeen{}, []func(*replaceLook){count("2 of 2"), sent, bare, ready(2), func(l *replaceLook) { l.group.Wants = 2 }}, replaceFinish, v1alpha1.ReasonReplaced, "", 0},
		"its owner is gone":              {MachineSeen{}, []func(*replaceLook){count("0 of 3"), sent, bare, func(l *replaceLook) { l.group.Gone = "it is gone" }}, replaceFinish, v1alpha1.ReasonNotReplaced, "nobody makes a new one: it is gone", 0},

		"it is marked":                         {marked, []func(*replaceLook){remediated, said("it is marked"), sent}, replaceWait, "", "", replacePoll},
		"it is marked, and the answer is lost": {marked, []func(*replaceLook){remediated, said("it is marked")}, replaceWrite, "", "", 0},
		"it is marked, and forbidden by now":   {marked, []func(*replaceLook){remediated, said("it is marked"), sent, forbidden}, replaceWrite, "", "paused", 0},
		"it is marked in vain":                 {marked, []func(*replaceLook){remediated, said("it is marked"), sent, after(time.Hour)}, replaceWrite, "", "has not begun with it within 1h0m0s", 0},
		"why it is taken back is kept":         {marked, []func(*replaceLook){remediated, withdrawn, sent}, replaceTakeBack, "", "", 0},
		"it was taken back":                    {there, []func(*replaceLook){remediated, withdrawn, sent}, replaceFinish, v1alpha1.ReasonNotNeeded, "well", 0},
		"somebody has taken it back":           {there, []func(*replaceLook){remediated, said("it is there"), sent}, replaceFinish, v1alpha1.ReasonFailed, "somebody has taken the mark", 0},
		"its owner was faster":                 {both, []func(*replaceLook){remediated, withdrawn, sent}, replaceWait, "", "", replacePoll},
	} {
		t.Run(name, func(t *testing.T) {
			l := replaceLook{
				action: &v1alpha1.NodeAction{
					Spec: v1alpha1.NodeActionSpec{NodeName: "worker-1", Executor: v1alpha1.ExecutorRemote, Timeout: v1alpha1.Duration{Duration: time.Hour}},
					Status: v1alpha1.NodeActionStatus{
						Claim: &v1alpha1.Claim{RunnerID: "r", Time: metav1.NewTime(testNow)},
						Replace: &v1alpha1.ReplaceStatus{
							RunnerID: "remote",
							Machine:  v1alpha1.ExternalObject{Kind: "Machine", Namespace: "fleet", Name: "m", UID: "u"},
							Owner:    v1alpha1.ExternalObject{Kind: "MachineSet", Namespace: "fleet", Name: "workers"},
							Method:   v1alpha1.ReplaceDelete, Wanted: 3,
						},
					},
				},
				machine: test.seen, group: MachineGroup{Wants: -1}, stands: &decision{verb: execute}, now: testNow,
			}
			for _, change := range test.change {
				change(&l)
			}
			before := l.action.DeepCopy()
			d := followReplace(l)
			if d.verb != test.verb || d.outcome.Reason != test.reason || d.wait != test.wait {
				t.Errorf("got %+v", d)
			}
			if text := d.outcome.Message + d.progress.Said; !strings.Contains(text, test.says) {
				t.Errorf("it says %q", text)
			}
			if d.verb == replaceFinish && d.executed != v1alpha1.Executed(d.outcome.Reason) {
				t.Errorf("executed: %t, as %s", d.executed, d.outcome.Reason)
			}
			if d.verb == replaceWrite { // what is decided next is another thing
				l.action.Status.Replace = &d.progress
				if again := followReplace(l); again.verb == replaceWrite {
					t.Errorf("it writes again: %+v", again)
				}
				l.action = before
			}
			if !sameJSON(t, before, l.action) {
				t.Error("it has changed the action")
			}
		})
	}
	if replaceStart >= deadline.RestoreTime {
		t.Error("it may begin an hour late")
	}
}
