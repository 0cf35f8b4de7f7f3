package channels

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A Config describes the channels of a Server.
type Config struct {
	// Seed makes the random pauses before reconnections repeatable.
	Seed uint64 `yaml:"seed"`
	// DrainTimeout bounds the time between the end of Serve's context and its return
	// (default 10s). In that time, the received records are delivered.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// AllowRemote lets listeners bind to addresses other than loopback.
	AllowRemote bool `yaml:"allow_remote"`

	Channels []Channel `yaml:"channels"`
}

// A Channel carries records from its source to its sink.
type Channel struct {
	Name   string `yaml:"name"`
	Source Source `yaml:"source"`
	Buffer Buffer `yaml:"buffer"`
	Sink   Sink   `yaml:"sink"`
}

// The kinds of sources and sinks.
const (
	TCP    = "tcp"    // source: a listener; sink: a peer to dial
	Unix   = "unix"   // source: a listener
	File   = "file"   // source: a file to follow; sink: a file to append to
	Stdin  = "stdin"  // source
	Stdout = "stdout" // sink
)

// How a source is cut into records, which format a sink gets, and when a file is synced.
const (
	Lines  = "lines"
	Length = "length"

	Raw    = "raw"
	Framed = "framed"

	SyncAlways   = "always"
	SyncInterval = "interval"
	SyncNever    = "never"

	FromBeginning = "beginning"
	FromEnd       = "end"
)

// What happens if a channel's buffer is full; see the package comment.
const (
	Block      = "block"
	DropOldest = "drop-oldest"
	DropNewest = "drop-newest"
	Disconnect = "disconnect"
)

// A Source is the origin of a channel's records.
type Source struct {
	Kind           string `yaml:"kind"`
	Framing        string `yaml:"framing"`          // lines (default) or length; tcp, unix: also framed, the format of a framed sink
	MaxRecordBytes int    `yaml:"max_record_bytes"` // default 64 KiB

	Address        string        `yaml:"address"`         // tcp: host:port
	MaxConnections int           `yaml:"max_connections"` // tcp, unix: connections beyond this are closed at once (default 1024)
	IdleTimeout    time.Duration `yaml:"idle_timeout"`    // tcp, unix: a producer that is silent for so long is disconnected (default 0: never)

	Path       string        `yaml:"path"`        // unix, file
	State      string        `yaml:"state"`       // file: where the position in it is kept
	SaveEvery  time.Duration `yaml:"save_every"`  // file: how often the position is saved (default 1s)
	From       string        `yaml:"from"`        // file without a saved position: start at its beginning (default) or end
	RotateWait time.Duration `yaml:"rotate_wait"` // file: how long the old file must be quiet before the new one is read (default 1s)
	Poll       time.Duration `yaml:"poll"`        // file: how often to check it if the kernel reports nothing (default 1s)
}

// A Buffer bounds what a channel holds, including records that were sent and not yet
// acknowledged.
type Buffer struct {
	Records  int    `yaml:"records"`   // default 4096
	Bytes    int    `yaml:"bytes"`     // of payload (default 16 MiB)
	WhenFull string `yaml:"when_full"` // block (default), drop-oldest, drop-newest or disconnect
}

// A Sink is the destination of a channel's records.
type Sink struct {
	Kind   string `yaml:"kind"`
	Format string `yaml:"format"` // raw (default) or framed

	Address     string        `yaml:"address"`      // tcp: host:port
	DialTimeout time.Duration `yaml:"dial_timeout"` // tcp (default 5s)
	Window      int           `yaml:"window"`       // tcp, framed: records sent and not acknowledged (default half the buffer, at most 1024)
	AckTimeout  time.Duration `yaml:"ack_timeout"`  // tcp, framed: reconnect after so long without progress, up to twice that (default 10s)

	Path      string        `yaml:"path"`       // file
	Sync      string        `yaml:"sync"`       // file: always, interval (default) or never
	SyncEvery time.Duration `yaml:"sync_every"` // file with sync interval (default 1s); sooner if unsynced records fill half the buffer

	// A failed tcp or file sink is tried again after a pause that doubles from
	// RetryMin (default 50ms) to RetryMax (default 5s), half of it random.
	RetryMin time.Duration `yaml:"retry_min"`
	RetryMax time.Duration `yaml:"retry_max"`
}

// sourceFields and sinkFields list the fields that a kind has in addition to the common
// ones.
func sourceFields(kind string) []string {
	switch kind {
	case TCP:
		return []string{"address", "max_connections", "idle_timeout"}
	case Unix:
		return []string{"path", "max_connections", "idle_timeout"}
	case File:
		return []string{"path", "state", "save_every", "from", "rotate_wait", "poll"}
	}
	return nil
}

func sinkFields(kind, format, sync string) []string {
	retry := []string{"retry_min", "retry_max"}
	switch kind {
	case TCP:
		if format == Framed {
			return append(retry, "address", "dial_timeout", "window", "ack_timeout")
		}
		return append(retry, "address", "dial_timeout")
	case File:
		if sync == SyncInterval {
			return append(retry, "path", "sync", "sync_every")
		}
		return append(retry, "path", "sync")
	}
	return nil
}

// WithDefaults returns the configuration with defaults for every field that was left out
// and has a meaning here.
func (c Config) WithDefaults() Config {
	or(&c.DrainTimeout, 10*time.Second)
	c.Channels = slices.Clone(c.Channels)
	for i := range c.Channels {
		c.Channels[i].setDefaults()
	}
	return c
}

func (ch *Channel) setDefaults() {
	src, buf, snk := &ch.Source, &ch.Buffer, &ch.Sink
	or(&src.Framing, Lines)
	or(&src.MaxRecordBytes, 64<<10)
	switch src.Kind {
	case TCP, Unix:
		or(&src.MaxConnections, 1024)
	case File:
		or(&src.SaveEvery, time.Second)
		or(&src.From, FromBeginning)
		or(&src.RotateWait, time.Second)
		or(&src.Poll, time.Second)
	}
	or(&buf.Records, 4096)
	or(&buf.Bytes, 16<<20)
	or(&buf.WhenFull, Block)
	or(&snk.Format, Raw)
	if snk.Kind == TCP {
		or(&snk.DialTimeout, 5*time.Second)
		if snk.Format == Framed {
			or(&snk.Window, max(1, min(buf.Records/2, 1024)))
			or(&snk.AckTimeout, 10*time.Second)
		}
	}
	if snk.Kind == File {
		or(&snk.Sync, SyncInterval)
		if snk.Sync == SyncInterval {
			or(&snk.SyncEvery, time.Second)
		}
	}
	if snk.Kind == TCP || snk.Kind == File {
		or(&snk.RetryMin, 50*time.Millisecond)
		or(&snk.RetryMax, max(5*time.Second, snk.RetryMin))
	}
}

// or sets v to a default if it is zero.
func or[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// A Fault is something wrong with a field of a configuration.
type Fault struct {
	Field string // its path, such as channels[0].source.kind
	Text  string // the value and what would be right
}

func (f *Fault) Error() string { return f.Field + ": " + f.Text }

const maxWait = 24 * time.Hour

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Validate reports every fault at once, as joined *Fault. It expects the
// defaults to be filled in and changes nothing.
func (c Config) Validate() error {
	var faults []error
	for _, f := range c.faults() {
		faults = append(faults, f)
	}
	return errors.Join(faults...)
}

func (c Config) faults() []*Fault {
	v := &validation{uses: map[string]string{}}
	v.duration("drain_timeout", c.DrainTimeout, time.Millisecond)
	if len(c.Channels) == 0 {
		v.fault("channels", "none: want at least one")
	}
	for i, ch := range c.Channels {
		at := fmt.Sprintf("channels[%d].", i)
		if !validName.MatchString(ch.Name) {
			v.fault(at+"name", "%s: want 1 to 64 letters, digits, dots, dashes or underscores", given(ch.Name))
		} else {
			v.once(at+"name", "name "+ch.Name)
		}
		v.source(at+"source", ch.Source, c.AllowRemote)
		v.buffer(at+"buffer", ch)
		v.sink(at+"sink", ch)
	}
	return v.faults
}

type validation struct {
	faults []*Fault
	uses   map[string]string // things that may be used only once, with the field that uses them
}

func (v *validation) fault(field, format string, args ...any) {
	v.faults = append(v.faults, &Fault{field, fmt.Sprintf(format, args...)})
}

// given is a value in a message.
func given(value string) string {
	if value == "" {
		return "is missing"
	}
	return fmt.Sprintf("%q", value)
}

func (v *validation) once(field, what string) {
	if first, ok := v.uses[what]; ok {
		v.fault(field, "%s is used by %s already: want another", what, first)
		return
	}
	v.uses[what] = field
}

func (v *validation) oneOf(field, value string, choices ...string) bool {
	if slices.Contains(choices, value) {
		return true
	}
	v.fault(field, "%s: want %s", given(value), strings.Join(choices, ", "))
	return false
}

func (v *validation) number(field string, n, low, high int) {
	if n < low || n > high {
		v.fault(field, "%d: want %d to %d", n, low, high)
	}
}

func (v *validation) duration(field string, d, low time.Duration) {
	if d < low || d > maxWait {
		v.fault(field, "%v: want %v to %v", d, low, maxWait)
	}
}

// path checks a path, and that it is used only once.
func (v *validation) path(field, path string) {
	if path == "" || strings.ContainsRune(path, 0) {
		v.fault(field, "%s: want a path", given(path))
		return
	}
	v.once(field, "path "+filepath.Clean(path))
}

// only reports fields that are set but have no meaning here.
func (v *validation) only(at string, s any, common, fields []string) {
	value := reflect.ValueOf(s)
	for i := range value.NumField() {
		name := value.Type().Field(i).Tag.Get("yaml")
		if !value.Field(i).IsZero() && !slices.Contains(common, name) && !slices.Contains(fields, name) {
			v.fault(at+"."+name, "%v: has no effect here: leave it out, or use %s", value.Field(i), strings.Join(slices.Concat(common, fields), ", "))
		}
	}
}

func (v *validation) source(at string, s Source, allowRemote bool) {
	if !v.oneOf(at+".kind", s.Kind, TCP, Unix, File, Stdin) {
		return
	}
	v.only(at, s, []string{"kind", "framing", "max_record_bytes"}, sourceFields(s.Kind))
	framings := []string{Lines, Length}
	if s.Kind == TCP || s.Kind == Unix {
		framings = append(framings, Framed)
	}
	v.oneOf(at+".framing", s.Framing, framings...)
	v.number(at+".max_record_bytes", s.MaxRecordBytes, 1, 64<<20)
	switch s.Kind {
	case TCP:
		host, port := v.address(at+".address", s.Address)
		if host != "" || port != "" {
			if !allowRemote && !loopback(host) {
				v.fault(at+".address", "%q: want a loopback address, such as 127.0.0.1, unless allow_remote is set", s.Address)
			}
			if port != "0" {
				v.once(at+".address", "address "+s.Address)
			}
		}
	case Unix:
		v.path(at+".path", s.Path)
		if len(s.Path) > 107 {
			v.fault(at+".path", "%q: want at most 107 bytes, the limit of a socket's path", s.Path)
		}
	case File:
		v.path(at+".path", s.Path)
		v.path(at+".state", s.State)
		v.oneOf(at+".from", s.From, FromBeginning, FromEnd)
		v.duration(at+".save_every", s.SaveEvery, time.Millisecond)
		v.duration(at+".rotate_wait", s.RotateWait, time.Millisecond)
		v.duration(at+".poll", s.Poll, time.Millisecond)
	case Stdin:
		v.once(at+".kind", "standard input")
	}
	if s.Kind == TCP || s.Kind == Unix {
		v.number(at+".max_connections", s.MaxConnections, 1, 1<<20)
		v.duration(at+".idle_timeout", s.IdleTimeout, 0)
	}
}

func (v *validation) buffer(at string, ch Channel) {
	b := ch.Buffer
	v.number(at+".records", b.Records, 1, 1<<24)
	v.number(at+".bytes", b.Bytes, max(1, ch.Source.MaxRecordBytes), 1<<32)
	if v.oneOf(at+".when_full", b.WhenFull, Block, DropOldest, DropNewest, Disconnect) &&
		b.WhenFull == Disconnect && ch.Source.Kind != TCP && ch.Source.Kind != Unix {
		v.fault(at+".when_full", "disconnect: a source of kind %s has no connections: want block, drop-oldest or drop-newest", ch.Source.Kind)
	}
	if b.WhenFull == Disconnect && ch.Source.Framing == Framed {
		v.fault(at+".when_full", "disconnect: a framed peer would send the dropped record again: want block, drop-oldest or drop-newest")
	}
}

func (v *validation) sink(at string, ch Channel) {
	s := ch.Sink
	if !v.oneOf(at+".kind", s.Kind, TCP, File, Stdout) {
		return
	}
	v.only(at, s, []string{"kind", "format"}, sinkFields(s.Kind, s.Format, s.Sync))
	v.oneOf(at+".format", s.Format, Raw, Framed)
	if s.Format == Raw && (ch.Source.Framing == Length || ch.Source.Framing == Framed) {
		v.fault(at+".format", "raw: records with a length may hold newlines, which end raw records: want framed")
	}
	switch s.Kind {
	case TCP:
		if _, port := v.address(at+".address", s.Address); port == "0" {
			v.fault(at+".address", "%q: want the port of the peer", s.Address)
		}
		v.duration(at+".dial_timeout", s.DialTimeout, time.Millisecond)
		if s.Format == Framed {
			v.number(at+".window", s.Window, 1, max(1, ch.Buffer.Records))
			v.duration(at+".ack_timeout", s.AckTimeout, time.Millisecond)
		}
	case File:
		v.path(at+".path", s.Path)
		if v.oneOf(at+".sync", s.Sync, SyncAlways, SyncInterval, SyncNever) && s.Sync == SyncInterval {
			v.duration(at+".sync_every", s.SyncEvery, time.Millisecond)
		}
	case Stdout:
		v.once(at+".kind", "standard output")
	}
	if s.Kind != Stdout {
		v.duration(at+".retry_min", s.RetryMin, time.Millisecond)
		v.duration(at+".retry_max", s.RetryMax, s.RetryMin)
	}
}

func (v *validation) address(field, address string) (host, port string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		v.fault(field, "%s: want host:port", given(address))
		return "", ""
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		v.fault(field, "%q: want a port from 0 to 65535", address)
	}
	return host, port
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// ParseConfig reads a configuration in YAML, fills in the defaults and validates it. Each
// fault has its place, as file:line:column, and its field. Unknown fields are faults.
func ParseConfig(name string, src []byte) (Config, error) {
	if file, err := parser.ParseBytes(src, 0); err == nil {
		s := shape{name: name}
		for _, document := range file.Docs {
			s.check("", document.Body, reflect.TypeFor[Config]())
		}
		if len(s.faults) > 0 {
			return Config{}, errors.Join(s.faults...)
		}
	}
	var c Config
	if err := yaml.UnmarshalWithOptions(src, &c, yaml.Strict()); err != nil {
		var located yaml.Error
		if errors.As(err, &located) && located.GetToken() != nil {
			p := located.GetToken().Position
			return Config{}, fmt.Errorf("%s:%d:%d: %s", name, p.Line, p.Column, located.GetMessage())
		}
		return Config{}, fmt.Errorf("%s: %w", name, err)
	}
	c = c.WithDefaults()
	faults := c.faults()
	if len(faults) == 0 {
		return c, nil
	}
	file, err := parser.ParseBytes(src, 0)
	if err != nil { // cannot happen: it was parsed above
		return Config{}, fmt.Errorf("%s: %w", name, c.Validate())
	}
	var located []error
	for _, fault := range faults {
		line, column := locate(file, fault.Field)
		located = append(located, fmt.Errorf("%s:%d:%d: %w", name, line, column, fault))
	}
	return Config{}, errors.Join(located...)
}

// locate returns the place of a field or, if it is missing, of the mapping that should
// hold it.
func locate(file *ast.File, field string) (line, column int) {
	for field != "" {
		if path, err := yaml.PathString("$." + field); err == nil {
			if node, err := path.FilterFile(file); err == nil && node.GetToken() != nil {
				p := node.GetToken().Position
				return p.Line, p.Column
			}
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return 1, 1
}
