package sockdiag

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// A Conn is a netlink socket through which the kernel describes the sockets of one
// network namespace. It is used by one goroutine at a time.
type Conn struct {
	pid     int // a process of the namespace; 0 for this process's
	timeout time.Duration
	conn    *netlink.Conn // nil: closed
}

// Open opens a Conn to the namespace of a process, 0 for this one, and finds out whether the kernel answers it.
// A dump takes no longer than timeout.
func Open(pid int, timeout time.Duration) (*Conn, error) {
	c := &Conn{pid: pid, timeout: timeout}
	// No socket has no state: this is an empty answer, or the reason for none.
	if err := c.Dump(context.Background(), Request{}, nil); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Conn) open() (err error) {
	var config netlink.Config
	if c.pid != 0 {
		namespace, err := os.Open("/proc/" + strconv.Itoa(c.pid) + "/ns/net")
		if err != nil {
			return err
		}
		defer func() { _ = namespace.Close() }() // only entered
		config.NetNS = int(namespace.Fd())
	}
	c.conn, err = netlink.Dial(unix.NETLINK_SOCK_DIAG, &config)
	return err
}

// Dump calls visit for every socket asked for. After an error, also visit's, the rest of
// the answer is dropped and the next dump starts from scratch.
func (c *Conn) Dump(ctx context.Context, r Request, visit func(*Socket) error) error {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		if err := c.dump(ctx, r.marshal(family), visit); err != nil {
			c.Close()
			return err
		}
	}
	return nil
}

func (c *Conn) dump(ctx context.Context, request []byte, visit func(*Socket) error) error {
	if c.conn == nil {
		if err := c.open(); err != nil {
			return fmt.Errorf("netlink socket: %w", err)
		}
	}
	if err := c.conn.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	header := netlink.Header{Type: sockDiagByFamily, Flags: netlink.Request | netlink.Dump}
	if _, err := c.conn.Send(netlink.Message{Header: header, Data: request}); err != nil {
		return err
	}
	var s Socket
	for m, err := range c.conn.ReceiveIter() {
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

// Close closes the netlink socket; another dump opens it again.
func (c *Conn) Close() {
	if c.conn != nil {
		_ = c.conn.Close() // nothing is lost
		c.conn = nil
	}
}
