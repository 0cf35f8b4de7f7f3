package pipes

import (
	"net"
	"sync"
)

// A Wire passes bytes on between its TCP clients and an address. When it is cut, its connections pass
// nothing more, and their ends get no notice. Connections that are made after it was mended pass again.
type Wire struct {
	listener net.Listener
	to       string
	open     sync.WaitGroup // connections
	over     chan struct{}

	mu  sync.Mutex    // guards cut
	cut chan struct{} // closed: it is
}

// Lay lays a wire to an address.
func Lay(to string) (*Wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &Wire{listener: l, to: to, over: make(chan struct{}), cut: make(chan struct{})}
	w.open.Go(w.accept)
	return w, nil
}

// Addr is where the wire begins.
func (w *Wire) Addr() string { return w.listener.Addr().String() }

// Cut cuts the wire, which must not be cut.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.cut)
}

// Mend mends the wire, which must be cut.
func (w *Wire) Mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = make(chan struct{})
}

// Close ends all connections, and waits for that.
func (w *Wire) Close() error {
	err := w.listener.Close()
	close(w.over)
	w.open.Wait()
	return err
}

func (w *Wire) accept() {
	for {
		from, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.mu.Lock()
		cut := w.cut
		w.mu.Unlock()
		w.open.Go(func() { w.carry(from, cut) })
	}
}

// carry passes on what a connection brings, and the answers, until both ends have closed. If the wire is cut, that is
// never.
func (w *Wire) carry(from net.Conn, cut <-chan struct{}) {
	defer func() { _ = from.Close() }()
	select {
	case <-cut:
		<-w.over
		return
	default:
	}
	to, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	ended := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		defer func() { ended <- struct{}{} }()
		piece := make([]byte, 64<<10)
		for {
			n, err := from.Read(piece)
			select {
			case <-cut:
				<-w.over
				return
			default:
			}
			if err == nil {
				_, err = to.Write(piece[:n])
			}
			if err != nil {
				_ = to.(*net.TCPConn).CloseWrite() // if this fails, it is closed
				return
			}
		}
	}
	w.open.Go(func() { pass(to, from) })
	w.open.Go(func() { pass(from, to) })
	for range 2 {
		select {
		case <-ended:
		case <-w.over:
			return
		}
	}
}
