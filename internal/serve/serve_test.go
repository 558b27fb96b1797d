package serve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// patience is for what hangs.
const patience = 2 * time.Minute

// ask sends a request on a connection and returns the status line of the answer.
func ask(conn net.Conn) (string, error) {
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: node\r\n\r\n"); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

// served runs HTTP at an address of the loopback until the test ends.
func served(t *testing.T, handler http.Handler) (dial func() net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- HTTP(ctx, listener, handler) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func() net.Conn {
		t.Helper()
		conn, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
}

// closed reports whether the other side has closed the connection; it waits for that.
func closed(conn net.Conn) bool {
	_, err := conn.Read(make([]byte, 1))
	return err != nil
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })

func TestIdleConnectionsGiveWayToNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no time passes meanwhile
		listener := make(pipes)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- HTTP(ctx, listener, ok) }()
		var idle []net.Conn
		for range maxConnections + 100 {
			here, there := net.Pipe()
			idle = append(idle, here)
			listener <- there
		}
		synctest.Wait()
		for i, conn := range idle {
			_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: node\r\n\r\n")
			if closed := errors.Is(err, io.ErrClosedPipe); closed != (i < 100) {
				t.Fatalf("connection %d of %d, the first of which is the oldest: %v", i, len(idle), err)
			}
			if err == nil {
				if line, err := bufio.NewReader(conn).ReadString('\n'); line != "HTTP/1.1 200 OK\r\n" {
					t.Errorf("answered %q, %v", line, err)
				}
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestWhatIsAnsweredIsNotCutOffWhileOthersWait(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	dial := served(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusOK)
	}))
	var asking sync.WaitGroup
	conn := dial()
	asking.Go(func() {
		if status, err := ask(conn); status != "HTTP/1.1 200 OK" {
			t.Errorf("answered %q, %v", status, err)
		}
	})
	<-arrived
	var idle []net.Conn
	for range 2 * maxConnections {
		idle = append(idle, dial())
	}
	if !closed(idle[0]) {
		t.Error("the first of those that wait is still open")
	}
	close(answer)
	asking.Wait()
}

func TestWhoKeepsAllConnectionsBusyKeepsNobodyOut(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	dial := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			arrived <- struct{}{}
			<-answer
		}
		w.WriteHeader(http.StatusOK)
	}))
	defer close(answer)
	var busy []net.Conn
	for range maxConnections {
		conn := dial()
		busy = append(busy, conn)
		if _, err := io.WriteString(conn, "GET /busy HTTP/1.1\r\nHost: node\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-arrived
	}
	if status, err := ask(dial()); status != "HTTP/1.1 200 OK" {
		t.Errorf("one connection more is answered %q, %v", status, err)
	}
	if !closed(busy[0]) {
		t.Error("the one that has waited for its answer for longest is still open")
	}
}

// pipes is a listener without a network, for a bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestNobodyKeepsAConnectionByBeingSlow(t *testing.T) {
	for name, use := range map[string]func(conn net.Conn){
		"says nothing":          func(net.Conn) {},
		"never ends its header": func(conn net.Conn) { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: ") },
		"never ends its body": func(conn net.Conn) {
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: node\r\nContent-Length: 9\r\n\r\n1")
		},
		"does not read its answer": func(conn net.Conn) { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: node\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handled := make(chan struct{}, 1)
				listener := make(pipes)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					ended <- HTTP(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(io.Discard, r.Body)
						_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
						handled <- struct{}{}
					}))
				}()
				here, there := net.Pipe()
				listener <- there
				use(here)
				time.Sleep(2*requestTimeout + time.Second) // of the bubble
				if _, err := io.WriteString(here, "more"); !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("the connection is still open: %v", err)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAnAddressThatIsTakenIsServedOnceItIsFree(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := other.Addr().String()
	synctest.Test(t, func(t *testing.T) {
		logged := make(chan string, 10)
		ctx, stop := context.WithCancel(logr.NewContext(t.Context(), funcr.New(func(_, line string) { logged <- line }, funcr.Options{})))
		ended := make(chan error, 1)
		go func() { ended <- At(ctx, "--metrics-address", address, ok) }()
		time.Sleep(10*retryInterval + retryInterval/2) // of the bubble
		if len(logged) != 1 || len(ended) != 0 {
			t.Errorf("it has logged %d lines and ended %d times, want one line", len(logged), len(ended))
		}
		<-logged
		_ = other.Close()
		if line := <-logged; !strings.Contains(line, "served now") {
			t.Errorf("it logs %s", line)
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if status, err := ask(conn); status != "HTTP/1.1 200 OK" {
			t.Errorf("answered %q, %v", status, err)
		}
		_ = conn.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestWhoWaitsForAnAddressCanBeStopped(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := At(ctx, "--metrics-address", other.Addr().String(), ok); err != nil {
		t.Error(err)
	}
}

func TestAnAddressThatCanNeverBeOpenedIsAnError(t *testing.T) {
	for _, address := range []string{"9102", "127.0.0.1:-1", "127.0.0.1:65536", ":nothing"} {
		if err := At(t.Context(), "--metrics-address", address, ok); err == nil || !strings.Contains(err.Error(), "--metrics-address="+address) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := At(t.Context(), "--metrics-address", "", ok); err != nil {
		t.Errorf("no address: %v", err)
	}
}
