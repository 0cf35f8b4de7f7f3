package ctl

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dyno/services/control/client"
	"dyno/services/control/ctl/handshakes"
)

// Bounds of what is counted.
const (
	maxSockets  = 1_000_000
	leastEvery  = 100 * time.Millisecond
	lookupLimit = 2 * time.Second // for all host names of instances
)

func (s *session) connectionsCommand() *cobra.Command {
	var (
		form               string
		watch, perInstance bool
		every              time.Duration
		limit              int
	)
	cmd := &cobra.Command{
		Use:   "connections [SERVICE…]",
		Short: "Show this machine's TCP connections to services, as the kernel knows them",
		Long: `Show this machine's TCP connections to services, as the kernel knows them: no program is
touched, and none has to be restarted.

The kernel (sock_diag, TCP_INFO) says of each connection where it leads, its smoothed
round-trip time, and how many segments it has sent again; the control plane says which
service is at that address. Connections of all programs in this network namespace count,
of the side that connected. A service without connections is shown, too.

RETRANSMITS are all since the connections were made, with --watch also of those that have
ended meanwhile. UNSENT are bytes that wait for the network or for the peer's window,
UNREAD those that wait for the program here.

With --watch, an eBPF program in the kernel watches TLS handshakes, too, from the first count
on: TLS are those that were completed, TLS FAILED those that were not, and TLS TIME how long they
took, from the ClientHello to the Finished that came last, without the connecting by TCP. This
needs root, or CAP_NET_RAW and CAP_BPF.`,
		Example: `  dyno ctl connections
  dyno ctl connections shop --instances
  dyno ctl connections --watch --every 5s -o json`,
		ValidArgsFunction: s.completeNames(services),
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, args []string, c *client.Client) error {
		p, err := newPrinter(cmd, form)
		switch {
		case err != nil:
			return err
		case form == asName:
			return misused("one of table, json, yaml", "--output: there are no names of connections")
		case every < leastEvery:
			return misused("such as --every 2s", "--every: %v: must be %v or more", every, leastEvery)
		case limit < 1:
			return misused("such as --limit 100", "--limit: %d: must be 1 or more", limit)
		}
		census, err := newCensus(maxSockets)
		if err != nil {
			return &Failure{codeFailed, err, "the kernel needs inet_diag: modprobe tcp_diag"}
		}
		defer func() { _ = census.conn.Close() }() // nothing was written that could be lost
		v := &connectionsView{
			getter: &getter{session: s, client: c, printer: p, limit: limit, cmd: cmd},
			census: census, services: args, perInstance: perInstance, watch: watch,
		}
		if watch {
			if v.handshakes, err = handshakes.Begin(); err != nil {
				v.note("TLS handshakes are not watched, which needs root, or CAP_NET_RAW and CAP_BPF: %v", err)
			} else {
				defer func() { _ = v.handshakes.Close() }() // the kernel drops what it has when dyno ends, at the latest
			}
		}
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			err := v.show()
			if watch && cmd.Context().Err() != nil {
				return nil // it was interrupted, as watches are
			}
			if err != nil || !watch {
				return err
			}
			select {
			case <-cmd.Context().Done():
				return nil
			case <-ticker.C:
			}
		}
	})
	formFlag(cmd, &form)
	f := cmd.Flags()
	f.BoolVar(&perInstance, "instances", false, "a line for each instance, and not for each service")
	f.BoolVarP(&watch, "watch", "w", false, "count again and again, until interrupted")
	f.DurationVar(&every, "every", 2*time.Second, "how often, with --watch")
	f.IntVar(&limit, "limit", maxEntries, "how many instances are read at most")
	return cmd
}

// A connectionsView shows connections by service.
type connectionsView struct {
	*getter
	census      *census
	services    []string // empty: all
	perInstance bool
	watch       bool
	handshakes  *handshakes.Watch // nil: they are not watched
	widths      []int
	unresolved  map[string]bool // host names that nobody knows: said once
}

// A group is what connections are counted by: a service, or one instance of it.
type group struct {
	Service  string `json:"service"`
	Instance string `json:"instance,omitempty"`
	Address  string `json:"address,omitempty"`
}

func (g group) key() string { return g.Service + "/" + g.Instance }

// A connectionStats is a group with its connections. Round-trip times are left out before the first acknowledgement.
type connectionStats struct {
	At time.Time `json:"at"`
	group
	Connections int      `json:"connections"`
	MeanRTT     *float64 `json:"rtt_mean_seconds,omitempty"`
	MaxRTT      *float64 `json:"rtt_max_seconds,omitempty"`
	Retransmits uint64   `json:"retransmits_total"`
	Busy        float64  `json:"busy_seconds"`
	Unsent      int64    `json:"unsent_bytes"`
	Unacked     int64    `json:"unacked_segments"`
	Unread      int64    `json:"unread_bytes"`

	Handshakes       *uint64  `json:"tls_handshakes_total,omitempty"`
	FailedHandshakes *uint64  `json:"tls_handshakes_failed_total,omitempty"`
	MeanHandshake    *float64 `json:"tls_handshake_mean_seconds,omitempty"`
	MaxHandshake     *float64 `json:"tls_handshake_max_seconds,omitempty"`
}

// setConnections sets what the kernel says of connections.
func (s *connectionStats) setConnections(t *tally) {
	s.Connections, s.Retransmits, s.Busy = t.connections, t.retransmits, t.busy.Seconds()
	s.Unsent, s.Unacked, s.Unread = t.unsent, t.unacked, t.unread
	if t.measured > 0 {
		mean, longest := t.rtt.Seconds()/float64(t.measured), t.maxRTT.Seconds()
		s.MeanRTT, s.MaxRTT = &mean, &longest
	}
}

// setHandshakes sets what is known of handshakes.
func (s *connectionStats) setHandshakes(t handshakes.Tally) {
	s.Handshakes, s.FailedHandshakes = &t.Completed, &t.Failed
	if t.Completed > 0 {
		mean, longest := t.Mean().Seconds(), t.Max.Seconds()
		s.MeanHandshake, s.MaxHandshake = &mean, &longest
	}
}

// show counts once.
func (v *connectionsView) show() error {
	groups, at, err := v.groups()
	if err != nil {
		return err
	}
	counted, err := v.census.count(at)
	if err != nil {
		return err
	}
	var tls map[string]handshakes.Tally
	if v.handshakes != nil {
		if tls, err = v.handshakes.Count(at); err != nil {
			return err
		}
	}
	now := v.now()
	list := make([]connectionStats, len(groups))
	for i, g := range groups {
		list[i] = connectionStats{At: now, group: g}
		if t := counted[g.key()]; t != nil {
			list[i].setConnections(t)
		}
		if v.handshakes != nil {
			list[i].setHandshakes(tls[g.key()])
		}
	}
	if v.form == asTable {
		return v.table(list)
	}
	return v.documents(list)
}

// groups are what is shown, in the order of names, and what is at which address.
func (v *connectionsView) groups() (groups []group, at map[netip.AddrPort]string, err error) {
	var entries []entry
	if len(v.services) == 0 {
		entries, err = v.everyInstance()
	}
	for _, service := range v.services {
		var some []entry
		if some, err = v.pages(instances, instancePath(service, "")); err != nil {
			break
		}
		entries = append(entries, some...)
	}
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(v.ctx(), lookupLimit)
	defer cancel()
	at = map[netip.AddrPort]string{}
	seen := map[string]bool{}
	for _, e := range entries {
		i := e.doc.(*instanceView)
		g := group{Service: i.Service}
		if v.perInstance {
			g.Instance, g.Address = i.ID, hostPort(i.Address, i.Port)
		}
		if !seen[g.key()] {
			seen[g.key()] = true
			groups = append(groups, g)
		}
		for _, a := range v.resolve(ctx, i.Address) {
			place := netip.AddrPortFrom(a, uint16(i.Port)) //nolint:gosec // the control plane has checked it
			if _, taken := at[place]; !taken {
				at[place] = g.key()
			}
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return strings.Compare(a.key(), b.key()) })
	return groups, at, nil
}

// resolve returns an instance's addresses, as connections have them.
func (v *connectionsView) resolve(ctx context.Context, host string) []netip.Addr {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap().WithZone("")}
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil && !v.unresolved[host] {
		if v.unresolved == nil {
			v.unresolved = map[string]bool{}
		}
		v.unresolved[host] = true
		v.note("%s: connections to it are not counted: %v", printable(host), err)
	}
	for i := range found {
		found[i] = found[i].Unmap().WithZone("")
	}
	return found
}

// table writes a line for each group, and above the first ones what they are.
func (v *connectionsView) table(list []connectionStats) error {
	names := []string{"SERVICE"}
	if v.perInstance {
		names = append(names, "INSTANCE", "ADDRESS")
	}
	head := append(names, "CONNECTIONS", "RTT", "MAX RTT", "RETRANSMITS", "UNSENT", "UNACKED", "UNREAD")
	if v.handshakes != nil {
		head = append(head, "TLS", "TLS FAILED", "TLS TIME", "MAX TLS TIME")
	}
	if v.widths == nil {
		v.widths = make([]int, len(head))
	} else {
		head = nil
	}
	rows := make([][]string, len(list))
	for i, s := range list {
		row := []string{s.Service}
		if v.perInstance {
			row = append(row, s.Instance, s.Address)
		}
		rows[i] = append(row, strconv.Itoa(s.Connections), seconds(s.MeanRTT), seconds(s.MaxRTT), strconv.FormatUint(s.Retransmits, 10),
			strconv.FormatInt(s.Unsent, 10), strconv.FormatInt(s.Unacked, 10), strconv.FormatInt(s.Unread, 10))
		if v.handshakes != nil {
			rows[i] = append(rows[i], strconv.FormatUint(*s.Handshakes, 10), strconv.FormatUint(*s.FailedHandshakes, 10), seconds(s.MeanHandshake), seconds(s.MaxHandshake))
		}
	}
	_, err := io.WriteString(v.out, layOut(head, rows, v.widths))
	return err
}

// seconds is a time as a table has it.
func seconds(s *float64) string {
	if s == nil {
		return "-"
	}
	return time.Duration(*s * float64(time.Second)).Round(time.Microsecond).String()
}

// documents writes JSON or YAML: one document, or one a line where it goes on.
func (v *connectionsView) documents(list []connectionStats) error {
	raw, err := json.Marshal(map[string]any{"items": list})
	if err != nil {
		return err
	}
	if !v.watch {
		return v.text(raw)
	}
	if v.form == asYAML {
		if raw, err = toYAML(raw); err != nil {
			return err
		}
		raw = append([]byte("---\n"), raw...)
	} else {
		raw = append(raw, '\n')
	}
	_, err = v.out.Write(raw)
	return err
}
