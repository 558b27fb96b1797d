package vm

import (
	"io"
	"net"
	"strings"
	"testing"
)

func TestADebuggerIsObeyedOrSaysWhyNot(t *testing.T) {
	const want = "$Mff,1:90#19"
	for answer, wrong := range map[string]string{"+$OK#9a": "", "+$E14#aa": "$E14", "+$#00": "$#", "": "waiting"} {
		ours, theirs := net.Pipe()
		asked := make(chan string, 1)
		go func() {
			request := make([]byte, len(want))
			_, _ = io.ReadFull(theirs, request)
			_, _ = theirs.Write([]byte(answer))
			_ = theirs.Close()
			asked <- string(request)
		}()
		err := debug(ours, "Mff,1:90")
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("answer %q: %v", answer, err)
		}
		if got := <-asked; got != want {
			t.Errorf("it was asked %q", got)
		}
	}
}
