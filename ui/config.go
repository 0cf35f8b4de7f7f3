package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"dyno/results/rundir"
)

// Config says what is shown, and where. Start from Defaults.
type Config struct {
	// Listen is a loopback address and a port; port 0 picks one.
	Listen string
	// Runs is the folder of run folders. New runs are created in it.
	Runs string
	// Experiments is the folder whose experiments may be started; "" for none.
	Experiments string
	// Runner starts runs; nil if Experiments is "".
	Runner Runner
	// Answer sums up a run for the page. If it is nil, pages have no summary.
	Answer func(*rundir.Run) any
	// Fleet says which agents and tasks a control plane knows, for the page. If it is nil, no control plane
	// was named.
	Fleet func(ctx context.Context) (any, error)
	// Report writes the report of a run as an HTML page that makes no requests; nil:
	// there are no reports.
	Report func(w io.Writer, f *rundir.Folder) error
	// StopTimeout bounds how long Serve, at its end, waits for a run to end in order;
	// after that the run ends at once.
	StopTimeout time.Duration
	// Logger receives errors outside of requests; nil discards them.
	Logger *slog.Logger
}

// Defaults returns a Config with every default; it has no Runner.
func Defaults() Config {
	return Config{Listen: "127.0.0.1:7070", Runs: "runs", StopTimeout: time.Minute}
}

// Validate reports every fault at once: the field, its value, and what would be right. It
// reads no files.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, field string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %v: %s", field, value, want))
		}
	}
	_, err := parseListen(c.Listen)
	check(err == nil, "listen", strconv.Quote(c.Listen), "must be a loopback address with a port, such as 127.0.0.1:7070")
	check(c.Runs != "", "runs", `""`, "must name a folder")
	check(c.Experiments == "" || c.Runner != nil, "runner", "none", "must be set to run experiments")
	check(c.StopTimeout > 0, "stop timeout", c.StopTimeout, "must be more than 0")
	return errors.Join(errs...)
}

// parseListen returns an address that only this machine can reach. The name localhost is
// 127.0.0.1, whatever a resolver says.
func parseListen(text string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if !a.IsLoopback() || a.Zone() != "" {
		return netip.AddrPort{}, fmt.Errorf("%s is not a loopback address", a)
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), nil
}

// openRoot opens a folder as a root: no path leads outside of it.
func openRoot(field, dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return root, nil
}
