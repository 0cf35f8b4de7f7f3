// Package options declares options of a load that a plan and the engine share. Both embed these structs. So each bound and
// each default is stated once, in the tags that package fields explains.
package options

import (
	"fmt"
	"reflect"
	"time"

	"dyno/internal/fields"
)

// Timeouts bound how long a target may take.
type Timeouts struct {
	// Timeout is from the write to the complete response, of each in a row of redirects.
	Timeout time.Duration `yaml:"timeout" range:"1ms..1h" default:"30s" flag:"timeout" doc:"of a response, from the actual write"`
	// ConnectTimeout is until a connection can carry a request, TLS included.
	ConnectTimeout time.Duration `yaml:"connect_timeout" range:"1ms..1h" default:"5s" doc:"of opening a connection"`
}

// A Keepalive says when peers from which nothing comes are pinged, and given up (PING of HTTP/2; gRPC's proposal A8,
// client-side keepalive). Servers may refuse clients that ping too often (GOAWAY, too_many_pings).
type Keepalive struct {
	Time         time.Duration `yaml:"time,required" range:"1ms..24h" flag:"keepalive" doc:"gRPC: how long nothing may come on a connection before it is pinged"`
	Timeout      time.Duration `yaml:"timeout" range:"1ms..1h" default:"20s" flag:"keepalive-timeout" doc:"gRPC: how long nothing may come after a ping before the connection is given up; its calls fail with kind keepalive"`
	WithoutCalls bool          `yaml:"without_calls" flag:"keepalive-without-calls" doc:"gRPC: connections on which no call is under way are pinged, too"`
}

// Threads are those that carry a load.
type Threads struct {
	CPUs    []int `yaml:"cpus" flag:"cpus" otherwise:"all" doc:"the generator's CPUs, such as 1 or 4-7"` // CPU of worker i is CPUs[i mod len]
	Workers int   `yaml:"workers" range:"1..1024" flag:"workers" otherwise:"one per CPU in cpus, else 1" doc:"event loops, each a thread"`
}

// Waiting bounds the requests of an open loop that wait for a connection.
type Waiting struct {
	MaxWaiting int `yaml:"max_waiting" range:"1..10000000" default:"65536" doc:"requests due but without a connection; one more is dropped and counted"`
}

// Backoff says how a lost connection is opened again: at once, and after failures in a row with growing pauses. A
// subscriber, whose connection its server ended, pauses before the first attempt too.
type Backoff struct {
	MinBackoff time.Duration `yaml:"min_backoff" for:"sse" range:"1ms..1h" default:"1s" doc:"a subscriber's first pause, unless the target says another (its retry field)"`
	MaxBackoff time.Duration `yaml:"max_backoff,required" range:"1ms..1h" default:"1s; 64s of sse" doc:"the longest pause after failures in a row"`
}

// WithDefaults returns options whose empty fields have their defaults.
func WithDefaults[T Timeouts | Keepalive | Waiting](given T) T {
	return fill(given, fields.Default[T]())
}

// WithDefaults returns the back-off of requests, or of subscribers, whose empty fields have their defaults.
func (b Backoff) WithDefaults(subscribers bool) Backoff {
	const protocol = "sse"
	spec := (&fields.Grammar{Protocols: []fields.ProtocolGroups{{Name: protocol}}}).Mapping("", reflect.TypeFor[Backoff]())
	var d Backoff
	fields.Preset(reflect.ValueOf(&d).Elem(), spec, protocol, map[string]bool{"of " + protocol: subscribers})
	d.MaxBackoff = max(d.MaxBackoff, b.MinBackoff)
	return fill(b, d)
}

// Validate holds options against the bounds that their tags declare.
func Validate[T Timeouts | Keepalive | Waiting | Threads](given T) error {
	if err := fields.Validate(&given, func(*fields.Report) {}); err != nil {
		return fmt.Errorf("engine: %T: %w", given, err)
	}
	return nil
}

// fill gives the empty fields of a struct their defaults.
func fill[T any](given, defaults T) T {
	to, from := reflect.ValueOf(&given).Elem(), reflect.ValueOf(defaults)
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return given
}
