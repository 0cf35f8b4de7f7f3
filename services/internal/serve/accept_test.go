package serve

import (
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
)

// failing is a listener that returns errors in turn, and then connections.
type failing struct {
	net.Listener
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	}
	return f.Listener.Accept()
}

// A server outlives connections that failed before they were accepted, and shortages.
func TestPatientListener(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	faults := &failing{l, []error{syscall.EPROTO, syscall.ECONNABORTED, syscall.ENOMEM, syscall.EPERM, syscall.EMFILE}}
	server := &http.Server{Handler: http.NotFoundHandler()}
	ended := make(chan error, 1)
	go func() { ended <- HTTP(server, faults) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil || len(faults.errs) > 0 {
		t.Errorf("%v, %d faults left", err, len(faults.errs))
	}
	var temporary interface{ Temporary() bool }
	for _, passing := range []error{syscall.EMFILE, syscall.ENOMEM, syscall.EPERM} {
		if OfConnection(passing) || !Passing(passing) {
			t.Errorf("%v: who accepts again at once meets it again", passing)
		}
		if _, err := Patient(&failing{l, []error{passing}}).Accept(); !errors.Is(err, passing) || !errors.As(err, &temporary) || !temporary.Temporary() {
			t.Errorf("%v became %v", passing, err)
		}
	}
	for _, fatal := range []error{syscall.EBADF, syscall.EINVAL, net.ErrClosed} {
		if OfConnection(fatal) || Passing(fatal) {
			t.Errorf("%v passes", fatal)
		}
		if _, err := Patient(&failing{l, []error{fatal}}).Accept(); !errors.Is(err, fatal) || errors.As(err, &temporary) && temporary.Temporary() {
			t.Errorf("%v became %v", fatal, err)
		}
	}
}
