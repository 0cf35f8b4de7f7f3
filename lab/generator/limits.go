package generator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/lab/plan"
	"dyno/lab/protocols"
	"dyno/load/engine/config"
	"dyno/load/scenario"
)

// Limits say what a part may do on a machine that does not belong to the plan's author. A process gets
// them when it starts. It checks its plan against them before it opens a file or a connection.
type Limits struct {
	Networks    []Network // where connections may go; none: anywhere
	Files       string    // the folder whose files may be read; empty: none may be
	Connections int
	Time        time.Duration // from the plan to the result
}

// A RefusedError says what a plan asks beyond the limits.
type RefusedError struct{ error }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.error }

// A Network is addresses and, unless it is 0, the one port there.
type Network struct {
	Addresses netip.Prefix
	Port      uint16
}

// SetText reads 10.1.0.0/16, 10.0.0.1, 10.1.0.0/16:80 or [fd00::/8]:80.
func (n *Network) SetText(text, _ string) error {
	addresses := text
	if host, port, err := net.SplitHostPort(text); err == nil {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return fmt.Errorf("%q is no port; from 1 to 65535", port)
		}
		addresses, n.Port = host, uint16(number)
	}
	prefix, err := netip.ParsePrefix(addresses)
	if one, bad := netip.ParseAddr(addresses); bad == nil {
		prefix, err = netip.PrefixFrom(one, one.BitLen()), nil
	}
	if err != nil {
		return fmt.Errorf("%q is no network; such as 10.1.0.0/16, 10.1.0.0/16:80 or [fd00::/8]:80", text)
	}
	n.Addresses = prefix.Masked()
	return nil
}

func (n Network) has(address netip.Addr, port int) bool {
	return n.Addresses.Contains(address) && (n.Port == 0 || int(n.Port) == port)
}

// argument is how a process gets its limits.
func (l *Limits) argument() (string, error) {
	text, err := json.Marshal(l)
	return string(text), err
}

// limitsOf reads a process's limits. Without an argument it has none.
func limitsOf(args []string) (*Limits, error) {
	if len(args) == 0 {
		return nil, nil
	}
	l := &Limits{}
	return l, json.Unmarshal([]byte(args[0]), l)
}

// Admit refuses a load of this machine that goes beyond the limits. The target's address may become a number.
func (l *Limits) Admit(ctx context.Context, v *plan.Variant) error {
	return l.admit(ctx, &partPlan{Variant: v, Warmup: v.Load.Warmup, Window: v.Load.Window})
}

// admit refuses a plan that goes beyond the limits. The target's name is looked up once: connections go to the
// address that was found to be allowed, whatever the name means later.
func (l *Limits) admit(ctx context.Context, p *partPlan) error {
	if wanted := p.Warmup + p.Window; wanted > l.Time {
		return fmt.Errorf("the load takes %v, and the machine's owner allows %v (--max-time)", wanted, l.Time)
	}
	var faults []error
	allow := func(field, file string) {
		if err := l.admitFile(file); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", field, err))
		}
	}
	protocols.EachFile(p.Variant, allow)
	faults = append(faults, admitEnvironment(p.Variant.Load.Scenario))
	if call := p.Variant.Load.Call; call != nil {
		for _, folder := range call.ImportPaths {
			allow("load.call.import_paths", folder)
		}
	}
	return errors.Join(errors.Join(faults...), l.admitTarget(ctx, &p.Variant.Target))
}

// AdmitSecrets refuses secrets of a scenario that are the owner's: this machine reads them, also for agents that carry
// the load.
func (l *Limits) AdmitSecrets(s *scenario.Spec) error {
	if s == nil {
		return nil
	}
	faults := []error{admitEnvironment(s)}
	if s.Secrets != "" {
		if err := l.admitFile(s.Secrets); err != nil {
			faults = append(faults, fmt.Errorf("load.scenario.secrets: %w", err))
		}
	}
	return errors.Join(faults...)
}

func admitEnvironment(s *scenario.Spec) error {
	if s != nil && len(s.Env) > 0 {
		return errors.New("load.scenario.env: the environment belongs to the machine's owner")
	}
	return nil
}

// admitFile refuses a file that is not below the folder, wherever symbolic links lead.
func (l *Limits) admitFile(file string) error {
	if l.Files == "" {
		return fmt.Errorf("%s: the machine's owner allows no files to be read (--files)", file)
	}
	folder, err := filepath.EvalSymlinks(l.Files)
	if err != nil {
		return err
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(absolute)
	if err == nil {
		real, err = filepath.Rel(folder, real)
	}
	if err != nil || !filepath.IsLocal(real) {
		return fmt.Errorf("%s: the machine's owner allows files below %s to be read, and there is no such file (--files)", file, l.Files)
	}
	return nil
}

// admitTarget refuses a target, and a proxy, that is elsewhere. The proxy's own limits decide where it
// connects.
func (l *Limits) admitTarget(ctx context.Context, t *plan.Target) error {
	address, err := l.AdmitAddress(ctx, t.Address)
	if err != nil {
		field := "target.address"
		if t.URL != "" {
			field = "target.url"
		}
		return fmt.Errorf("%s: %w", field, err)
	}
	t.Address = address
	if t.Proxy == "" {
		return nil
	}
	proxy, err := url.Parse("http://" + strings.TrimPrefix(t.Proxy, "http://"))
	if err == nil {
		proxy.Host, err = l.AdmitAddress(ctx, proxy.Host)
	}
	if err != nil {
		return fmt.Errorf("target.proxy: %w", err)
	}
	t.Proxy = proxy.String()
	return nil
}

// AdmitAddress refuses an address that is elsewhere. It returns the address with the number that its name stands for.
func (l *Limits) AdmitAddress(ctx context.Context, address string) (string, error) {
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		return address, l.admitFile(path)
	}
	if len(l.Networks) == 0 {
		return address, nil
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return "", err
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", err
	}
	for _, a := range found {
		a = a.Unmap()
		if slices.ContainsFunc(l.Networks, func(n Network) bool { return n.has(a, port) }) {
			return net.JoinHostPort(a.String(), strconv.Itoa(port)), nil
		}
	}
	return "", fmt.Errorf("the machine's owner does not allow connections to %s (--network)", address)
}

// AdmitConnections refuses a part of too many connections.
func (l *Limits) AdmitConnections(c *config.Config) error {
	n := c.Connections
	if s := c.Subscribers; s != nil {
		n += s.Count
	}
	if n > l.Connections {
		return fmt.Errorf("the part has %d connections, and the machine's owner allows %d (--max-connections)", n, l.Connections)
	}
	return nil
}

// Bound ends a part that takes longer than it may. Its cause says so.
func (l *Limits) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.Time, &overtimeError{l.Time})
}

type overtimeError struct{ allowed time.Duration }

func (e *overtimeError) Error() string {
	return fmt.Sprintf("the part takes longer than the %v that the machine's owner allows (--max-time)", e.allowed)
}
