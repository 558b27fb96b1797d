package command

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/internal/systemd"
)

func TestSystemdIsNotAskedForEver(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "bus")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	l := newLink(systemd.Dialer{Bus: socket}, "x.service")
	defer l.close()
	l.deadline = time.Now().Add(50*time.Millisecond - lastAnswer)
	began := time.Now()
	if _, err := l.look(t.Context()); err == nil || time.Since(began) > answerTime/2 {
		t.Errorf("got %v after %s, want an error soon", err, time.Since(began))
	}
	if latest := endGrace + lastAnswer + goneWithin + 2*hostTime; latest > deadline.EndGrace {
		t.Errorf("an outcome may come %s after the timeout", latest)
	}
	if l.conn != nil {
		t.Error("the connection is kept")
	}
}
