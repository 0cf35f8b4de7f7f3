//go:build linux

package sockets

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// A diag is a netlink socket through which the kernel describes the sockets of one
// network namespace (sock_diag(7)). It is used by one goroutine at a time.
type diag struct {
	pid     int // a process of the namespace; 0 for this process's
	timeout time.Duration
	conn    *netlink.Conn // nil: closed
}

// newDiag opens a diag and finds out whether the kernel answers it.
func newDiag(pid int, timeout time.Duration) (*diag, error) {
	d := &diag{pid: pid, timeout: timeout}
	// No socket has no state: this is an empty answer, or the reason for none.
	if err := d.dump(context.Background(), request{family: unix.AF_INET, states: 0}, nil); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *diag) open() (err error) {
	var config netlink.Config
	if d.pid != 0 {
		namespace, err := os.Open("/proc/" + strconv.Itoa(d.pid) + "/ns/net")
		if err != nil {
			return err
		}
		defer func() { _ = namespace.Close() }() // only entered
		config.NetNS = int(namespace.Fd())
	}
	d.conn, err = netlink.Dial(unix.NETLINK_SOCK_DIAG, &config)
	return err
}

// dump calls visit for every socket asked for. After an error, also visit's, the rest of
// the answer is dropped and the next dump starts from scratch.
func (d *diag) dump(ctx context.Context, r request, visit func(*socket) error) (err error) {
	if d.conn == nil {
		if err := d.open(); err != nil {
			return fmt.Errorf("netlink socket: %w", err)
		}
	}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if err := d.conn.SetDeadline(time.Now().Add(d.timeout)); err != nil {
		return err
	}
	header := netlink.Header{Type: sockDiagByFamily, Flags: netlink.Request | netlink.Dump}
	if _, err := d.conn.Send(netlink.Message{Header: header, Data: r.marshal()}); err != nil {
		return err
	}
	var s socket
	for m, err := range d.conn.ReceiveIter() {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.parse(m.Data); err != nil {
			return err
		}
		if err := visit(&s); err != nil {
			return err
		}
	}
	return nil
}

func (d *diag) close() {
	if d.conn != nil {
		_ = d.conn.Close() // nothing is lost
		d.conn = nil
	}
}
