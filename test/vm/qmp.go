package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Event is what QEMU tells of a machine (its QMP Reference Manual).
type Event struct {
	// Name is RESET, SHUTDOWN, STOP, RESUME, or another of QEMU's.
	Name string `json:"event"`
	Data struct {
		// Reason of RESET and SHUTDOWN, such as guest-reset.
		Reason string `json:"reason"`
	} `json:"data"`
	Timestamp struct {
		Seconds      int64 `json:"seconds"`
		Microseconds int64 `json:"microseconds"`
	} `json:"timestamp"`
}

// At is when QEMU has seen it.
func (e Event) At() time.Time {
	return time.Unix(e.Timestamp.Seconds, e.Timestamp.Microseconds*int64(time.Microsecond))
}

// qmp is a connection to QEMU's monitor. One command runs at a time.
type qmp struct {
	connection net.Conn
	answers    chan message // closed when the connection has ended
	commands   sync.Mutex
}

// message is what QEMU sends.
type message struct {
	Event
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Description string `json:"desc"`
	} `json:"error"`
}

func newQMP(connection net.Conn) *qmp {
	return &qmp{connection: connection, answers: make(chan message, 1)}
}

// read reads what QEMU sends, until the connection has ended, and hands events to a
// function, in order.
func (q *qmp) read(onEvent func(Event)) {
	defer close(q.answers)
	decoder := json.NewDecoder(q.connection)
	for {
		var m message
		if err := decoder.Decode(&m); err != nil {
			return
		}
		switch {
		case m.Name != "":
			onEvent(m.Event)
		case m.Return != nil || m.Error != nil:
			q.answers <- m
		}
	}
}

// run runs a command, and returns its answer unless ctx ends before. Then the connection
// is of no more use.
func (q *qmp) run(ctx context.Context, command string, arguments any) (json.RawMessage, error) {
	q.commands.Lock()
	defer q.commands.Unlock()
	request, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
	}{command, arguments})
	if err != nil {
		return nil, err
	}
	if _, err := q.connection.Write(request); err != nil {
		return nil, fmt.Errorf("telling QEMU to %s: %w", command, err)
	}
	var answer message
	var ok bool
	select {
	case answer, ok = <-q.answers:
		switch {
		case !ok:
			err = errors.New("QEMU has ended")
		case answer.Error != nil:
			err = errors.New(answer.Error.Description)
		}
	case <-ctx.Done():
		_ = q.connection.Close()
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for QEMU to %s: %w", command, err)
	}
	return answer.Return, nil
}
