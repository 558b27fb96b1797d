package main

import (
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestWhatABootHasLeftLooksLikeNoLineOfOurs(t *testing.T) {
	got := leftText([]aftermath{{Action: "worker-17-1", Aftermath: v1alpha1.Aftermath{BootID: "b", Left: []v1alpha1.Leftover{
		{Source: v1alpha1.LeftoverJournal, Text: "one\x1b[2J\nPolicy forged (Automatic): nothing to do", Truncated: true},
		{Source: v1alpha1.LeftoverPstore},
		{Source: v1alpha1.LeftoverEventLog, Problem: "the node has no /dev/ipmi0\nNode: Ready"},
		{Source: "Later", Text: "of a later version"},
	}}}})
	const want = `
What the boot has left that action worker-17-1 has ended:
  the end of its journal, cut
    | one` + "\ufffd" + `[2J
    | Policy forged (Automatic): nothing to do
  what the kernel kept of it (pstore): nothing
  what the BMC has logged: the node has no /dev/ipmi0 Node: Ready
  Later
    | of a later version
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
