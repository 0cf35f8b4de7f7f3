package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
)

// A Front is where clients connect to a service with one address.
type Front struct {
	// Listener is nil before Listen, which keeps one that is there.
	Listener net.Listener

	host    *Host
	address string
}

// NewFront returns a Front that does not listen yet. The address is "" for a service that has only a handler.
func NewFront(h *Host, address string) Front { return Front{host: h, address: address} }

// Listen opens the listeners. After it has returned nil, the addresses are known and clients may connect; they are
// served once Serve runs.
func (f *Front) Listen() error {
	switch {
	case f.Listener != nil:
		return nil
	case f.address == "":
		return errors.New("listen: no address")
	}
	l, err := Listen(context.Background(), f.address, nil)
	if err != nil {
		return err
	}
	if err := f.host.Listen(); err != nil {
		return errors.Join(err, l.Close())
	}
	f.Listener = l
	return nil
}

// Addr is where clients connect; nil before Listen.
func (f *Front) Addr() net.Addr {
	if f.Listener == nil {
		return nil
	}
	return f.Listener.Addr()
}

// AdminAddr is where the admin listener listens; nil without one or before Listen.
func (f *Front) AdminAddr() net.Addr { return f.host.AdminAddr() }

// Protocols returns those of a server: HTTP/1.1, and HTTP/2 with and without TLS.
func Protocols(http2 bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(http2)
	p.SetUnencryptedHTTP2(http2)
	return p
}

// HTTP serves clients of l until the server is shut down or closed. A failure of one connection does not end it.
func HTTP(s *http.Server, l net.Listener) (err error) {
	if l = Patient(l); s.TLSConfig != nil {
		err = s.ServeTLS(l, "", "")
	} else {
		err = s.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
