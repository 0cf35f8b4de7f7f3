package channels

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"dyno/internal/fields"
	"dyno/internal/lazyregexp"
	"dyno/services/internal/serve"
)

// A Config describes the channels of a Server.
type Config struct {
	AllowRemote bool `yaml:"allow_remote" doc:"permit addresses that other machines reach"`
	serve.AdminListener
	Seed         uint64        `yaml:"seed" range:"0..9007199254740992" doc:"makes the random pauses before reconnections repeatable"`
	DrainTimeout time.Duration `yaml:"drain_timeout" range:"1ms..24h" default:"10s" doc:"how long the end may take, for records that were received"`
	Channels     []Channel     `yaml:"channels" doc:"the channels"`
}

// A Channel carries records from its source to its sink.
type Channel struct {
	Name   string `yaml:"name,required" doc:"1 to 64 letters, digits, dots, dashes or underscores"`
	Source Source `yaml:"source,required" doc:"where records come from"`
	Buffer Buffer `yaml:"buffer" doc:"its bounds, with sent but unacknowledged records"`
	Sink   Sink   `yaml:"sink,required" doc:"where they go to"`
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
	Kind           string `yaml:"kind,required" oneof:"tcp unix file stdin" doc:"tcp, unix: a listener; file: one that grows; stdin: standard input"`
	Framing        string `yaml:"framing" oneof:"lines length framed" default:"lines" doc:"how bytes are cut into records; framed, of tcp and unix: what a framed sink sends"`
	MaxRecordBytes int    `yaml:"max_record_bytes" kind:"size" range:"1..64MiB" default:"64KiB" doc:"the longest record"`

	Address        string        `yaml:"address" doc:"tcp: where it listens: host:port"`
	MaxConnections int           `yaml:"max_connections" range:"1..1048576" default:"1024" doc:"tcp, unix: connections; further ones are closed at once"`
	IdleTimeout    time.Duration `yaml:"idle_timeout" range:"0..24h" otherwise:"never" doc:"tcp, unix: a producer that is silent for so long is disconnected"`

	Path       string        `yaml:"path" kind:"path" doc:"unix, file: the socket, or the file to follow"`
	State      string        `yaml:"state" kind:"path" doc:"file: where the position in the file is kept"`
	SaveEvery  time.Duration `yaml:"save_every" range:"1ms..24h" default:"1s" doc:"file: how often the position is saved"`
	From       string        `yaml:"from" oneof:"beginning end" default:"beginning" doc:"file: where to start without a saved position"`
	RotateWait time.Duration `yaml:"rotate_wait" range:"1ms..24h" default:"1s" doc:"file: how long the old file must be quiet before the new one is read"`
	Poll       time.Duration `yaml:"poll" range:"1ms..24h" default:"1s" doc:"file: how often the file is checked for changes if the kernel reports nothing"`
}

// A Buffer bounds what a channel holds, including records that were sent and not yet
// acknowledged.
type Buffer struct {
	Records  int    `yaml:"records" range:"1..16777216" default:"4096" doc:"records"`
	Bytes    int    `yaml:"bytes" kind:"size" range:"1..4GiB" default:"16MiB" doc:"their bytes, at least those of one record"`
	WhenFull string `yaml:"when_full" oneof:"block drop-oldest drop-newest disconnect" default:"block" doc:"block: the source waits; disconnect: the producer is disconnected"`
}

// A Sink is the destination of a channel's records.
type Sink struct {
	Kind   string `yaml:"kind,required" oneof:"tcp file stdout" doc:"tcp: a peer; file: a file to append to; stdout: standard output"`
	Format string `yaml:"format" oneof:"raw framed" default:"raw" doc:"raw: each record and a newline; framed: with number and checksum"`

	Address     string        `yaml:"address" doc:"tcp: the peer: host:port"`
	DialTimeout time.Duration `yaml:"dial_timeout" range:"1ms..24h" default:"5s" doc:"tcp: how long a connection may take"`
	Window      int           `yaml:"window" range:"1..16777216" otherwise:"half the buffer, at most 1024" doc:"tcp, framed: records sent and not acknowledged"`
	AckTimeout  time.Duration `yaml:"ack_timeout" range:"1ms..24h" default:"10s" doc:"tcp, framed: how long without progress, up to twice that, until it connects again"`

	Path      string        `yaml:"path" kind:"path" doc:"file: the file to append to"`
	Sync      string        `yaml:"sync" oneof:"always interval never" default:"interval" doc:"file: when it is on disk"`
	SyncEvery time.Duration `yaml:"sync_every" range:"1ms..24h" default:"1s" doc:"file, interval: how often; sooner if unsynced records fill half the buffer"`

	// A failed sink is tried again after a pause that doubles from RetryMin to RetryMax, half of it random.
	RetryMin time.Duration `yaml:"retry_min" range:"1ms..24h" default:"50ms" doc:"tcp, file: the first pause after a failure"`
	RetryMax time.Duration `yaml:"retry_max" range:"1ms..24h" default:"5s" doc:"tcp, file: the longest pause after a failure"`
}

// sourceFields and sinkFields are the fields that a kind has in addition to the common ones; of a
// TCP sink, one that is raw.
var (
	sourceFields = map[string][]string{
		TCP:  {"address", "max_connections", "idle_timeout"},
		Unix: {"path", "max_connections", "idle_timeout"},
		File: {"path", "state", "save_every", "from", "rotate_wait", "poll"},
	}
	sinkFields = map[string][]string{
		TCP:  {"retry_min", "retry_max", "address", "dial_timeout"},
		File: {"retry_min", "retry_max", "path", "sync", "sync_every"},
	}
)

// withDefaults returns the configuration with defaults for every field that was left out.
func (c Config) withDefaults() Config {
	c = orDefault(c)
	c.Channels = slices.Clone(c.Channels)
	for i, ch := range c.Channels {
		ch.Source, ch.Buffer, ch.Sink = orDefault(ch.Source), orDefault(ch.Buffer), orDefault(ch.Sink)
		c.Channels[i] = ch
	}
	return c
}

// orDefault gives the fields of a struct that are zero the defaults that their tags declare.
func orDefault[T any](from T) T {
	preset := fields.Default[T]()
	into := reflect.ValueOf(&from).Elem()
	for i := range into.NumField() {
		if into.Field(i).IsZero() {
			into.Field(i).Set(reflect.ValueOf(preset).Field(i))
		}
	}
	return from
}

// window returns how many records may be sent and not acknowledged.
func (ch Channel) window() int {
	if ch.Sink.Window > 0 {
		return ch.Sink.Window
	}
	return max(1, min(ch.Buffer.Records/2, 1024))
}

var validName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Validate reports every fault at once. It expects the defaults to be filled in and changes nothing.
func (c Config) Validate() error { return fields.Validate(c, c.Check) }

// Check reports how fields have to go together, beyond what their tags say.
func (c Config) Check(r *fields.Report) {
	c.AdminListener.Check(r, c.AllowRemote)
	r.Check(len(c.Channels) > 0, "channels", "there is none", "give at least one, in a file of --config")
	v := &validation{r, map[string]string{}}
	for i, ch := range c.Channels {
		at := fmt.Sprintf("channels[%d].", i)
		if !validName().MatchString(ch.Name) {
			v.Fault(at+"name", fmt.Sprintf("%q cannot be a name", ch.Name), "1 to 64 letters, digits, dots, dashes or underscores")
		} else {
			v.once(at+"name", "name "+ch.Name)
		}
		v.source(at+"source", ch.Source, c.AllowRemote)
		v.buffer(at+"buffer", ch)
		v.sink(at+"sink", ch)
	}
}

type validation struct {
	*fields.Report
	uses map[string]string // things that may be used only once, with the field that uses them
}

func (v *validation) once(field, what string) {
	if first, ok := v.uses[what]; ok {
		v.Fault(field, what+" is used by "+first+" already", "another one")
		return
	}
	v.uses[what] = field
}

// path checks a path, and that it is used only once.
func (v *validation) path(field, path string) {
	if path == "" {
		v.Fault(field, "is missing", "a path")
		return
	}
	v.once(field, "path "+filepath.Clean(path))
}

// only reports fields that have another value than their default, and no meaning here.
func only[T any](v *validation, at string, s T, known ...string) {
	value, preset := reflect.ValueOf(s), reflect.ValueOf(fields.Default[T]())
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("yaml"), ",")
		v.Check(value.Field(i).Equal(preset.Field(i)) || slices.Contains(known, name), at+"."+name, "has no effect here", "leave it out, or use "+strings.Join(known, ", "))
	}
}

func (v *validation) source(at string, s Source, allowRemote bool) {
	only(v, at, s, append([]string{"kind", "framing", "max_record_bytes"}, sourceFields[s.Kind]...)...)
	listens := s.Kind == TCP || s.Kind == Unix
	v.Check(listens || s.Framing != Framed, at+".framing", "framed is what a peer sends to a listener", "lines or length")
	switch s.Kind {
	case TCP:
		serve.CheckListener(v.Report, at+".address", s.Address, allowRemote)
		if !strings.HasSuffix(s.Address, ":0") {
			v.once(at+".address", "address "+s.Address)
		}
	case Unix:
		v.path(at+".path", s.Path)
		v.Check(len(s.Path) <= 107, at+".path", fmt.Sprintf("%q is too long for a socket", s.Path), "at most 107 bytes")
	case File:
		v.path(at+".path", s.Path)
		v.path(at+".state", s.State)
	case Stdin:
		v.once(at+".kind", "standard input")
	}
}

func (v *validation) buffer(at string, ch Channel) {
	b := ch.Buffer
	v.Check(b.Bytes >= ch.Source.MaxRecordBytes, at+".bytes", fmt.Sprintf("%d is too little", b.Bytes), fmt.Sprintf("at least max_record_bytes, %d", ch.Source.MaxRecordBytes))
	if b.WhenFull == Disconnect {
		v.Check(ch.Source.Kind == TCP || ch.Source.Kind == Unix, at+".when_full", "disconnect: a source of kind "+ch.Source.Kind+" has no connections", "block, drop-oldest or drop-newest")
		v.Check(ch.Source.Framing != Framed, at+".when_full", "disconnect: a framed peer would send the dropped record again", "block, drop-oldest or drop-newest")
	}
}

func (v *validation) sink(at string, ch Channel) {
	s := ch.Sink
	known := append([]string{"kind", "format"}, sinkFields[s.Kind]...)
	if s.Kind == TCP && s.Format == Framed {
		known = append(known, "window", "ack_timeout")
	}
	only(v, at, s, known...)
	v.Check(s.Format != Raw || ch.Source.Framing != Length && ch.Source.Framing != Framed, at+".format", "raw: records with a length may hold newlines, which end raw records", "framed")
	switch s.Kind {
	case TCP:
		a, err := serve.ParseAddress(s.Address)
		v.Check(err == nil && a.Network == "tcp" && !strings.HasSuffix(s.Address, ":0"), at+".address", fmt.Sprintf("%q is not the address of a peer", s.Address), "host:port")
		v.Check(s.Window <= ch.Buffer.Records, at+".window", fmt.Sprintf("%d is too much", s.Window), fmt.Sprintf("at most the buffer's records, %d", ch.Buffer.Records))
	case File:
		v.path(at+".path", s.Path)
	case Stdout:
		v.once(at+".kind", "standard output")
	}
	v.Check(s.RetryMax >= s.RetryMin, at+".retry_max", fmt.Sprintf("%v is too little", s.RetryMax), fmt.Sprintf("at least retry_min, %v", s.RetryMin))
}

// Example is a file of channels, as help and the manual show it.
const Example = `drain_timeout: 10s                 # at the end, for records under way
channels:
  - name: app-log                  # a log file that grows and is rotated, to another machine
    source: {kind: file, path: /var/log/app.log, state: /var/lib/dyno/app-log.json}
    buffer: {records: 4096, bytes: 16777216, when_full: block}
    sink: {kind: tcp, address: "192.0.2.7:7001", format: framed}
  - name: sensors                  # lines from TCP connections, to a file
    source: {kind: tcp, address: "127.0.0.1:7002", framing: lines}
    sink: {kind: file, path: /var/lib/dyno/sensors.log, sync: interval, sync_every: 1s}
`
