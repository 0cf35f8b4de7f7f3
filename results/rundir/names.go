package rundir

import (
	"slices"
	"strings"
)

// This file, figures.go and columns.go are the only places that know the names of figures and their
// units. A new metric, tag or column needs a line in one of them; tests hold the tables to what
// is recorded. web/src/names.ts is made of them.

// The tags of the times in latency.hlog. Those of a step end in its name: see StepTag.
const (
	TagResponse     = "response"
	TagService      = "service"
	TagSendLag      = "send_lag"
	TagGeneratorLag = "generator_lag"
	TagConnect      = "connect"
	TagFirstByte    = "first_byte"
	TagFailed       = "failed"
	TagReadDelay    = "read_delay"
	TagServiceRead  = "service_read"
	TagHandshake    = "handshake"
	TagSharedStamp  = "shared_stamp"
	TagGivenUp      = "given_up"
	TagGivenService = "given_up_service"
	TagFirstMessage = "first_message"
	TagMessageGap   = "message_gap"
	TagMessage      = "message"
	TagFirstToken   = "first_token"
	TagTokenTime    = "token_time"
	TagOpening      = "opening"
	TagFirstEvent   = "first_event"
	TagEventGap     = "event_gap"
	TagDelivery     = "delivery"
)

// A Clock is a tag whose times are metrics, such as response.p99.
type Clock struct {
	Tag    string
	Target bool // the target is judged by these times
	Curve  bool // reports draw their percentiles
	Steps  bool // they are recorded for each step of a scenario too
	About  string
	// What pages call it.
	English, Chinese string
}

// Clocks lists the clocks in the order of a report.
func Clocks() []Clock {
	return []Clock{
		{TagResponse, true, true, true, "from when a request was due until the last byte of its response", "response time", "响应时间"},
		{TagService, true, true, true, "from the write of a request until the last byte of its response", "service time", "服务时间"},
		{TagSendLag, false, true, false, "from when a request was due until its write", "send lag", "发送滞后"}, // the generator's own
		{TagConnect, true, false, false, "opening a connection, without TLS", "connect time", "建连时间"},
		{TagFirstByte, true, false, false, "from the write until the first byte of the response", "time to first byte", "首字节时间"},
		{TagReadDelay, false, false, false, "from the arrival of the last byte until dyno read it", "read delay", "读取延迟"},
		{TagServiceRead, false, false, false, "from the write until dyno read the last byte", "service time until the read", "读取为止的服务时间"},
		{TagHandshake, true, false, false, "the TLS handshake of a connection", "TLS handshake", "TLS 握手"},
		{TagFirstMessage, true, true, false, "from the write until the first message of a stream", "time to first message", "首条消息时间"},
		{TagMessageGap, true, true, false, "between two messages or pieces of a response", "gap between messages", "消息间隔"},
		{TagMessage, true, true, false, "from when a message was due until its answer", "time to a message's answer", "消息应答时间"},
		{TagFirstToken, true, true, true, "from when a request was due until the first token of its answer (TTFT)", "time to first token", "首个 token 时间"},
		{TagTokenTime, true, true, true, "time for each token after the first (TPOT)", "time per output token", "每 token 时间"},
		{TagOpening, true, false, false, "from the beginning of a subscriber's connecting until its stream is open", "time to open", "订阅建立时间"},
		{TagFirstEvent, true, false, false, "from the write of a subscription until its first event", "time to first event", "首个事件时间"},
		{TagEventGap, true, true, false, "between two events of a subscriber", "gap between events", "事件间隔"},
		{TagDelivery, true, true, false, "from when the publication of an event was due until its arrival", "delivery delay", "投递延迟"},
	}
}

// Tags lists all tags.
func Tags() []string {
	var list []string
	for _, c := range Clocks() {
		list = append(list, c.Tag)
	}
	return append(list, TagGeneratorLag, TagFailed, TagSharedStamp, TagGivenUp, TagGivenService)
}

// ClockOf returns the clock of a metric. It returns false for a metric that is no time of one.
func ClockOf(metric string) (Clock, bool) {
	tag, _, _ := strings.Cut(metric, ".")
	all := Clocks()
	if i := slices.IndexFunc(all, func(c Clock) bool { return c.Tag == tag }); i >= 0 {
		return all[i], true
	}
	return Clock{}, false
}

// An Ending is the end of a name by which others tell the unit. That of a counter is the
// unit of its growth.
type Ending struct {
	End     string
	Unit    Unit
	Counter bool
}

// EndingsOfPrograms says how a program tells the units of the figures that it prints. A
// figure with no such end is a count.
func EndingsOfPrograms() []Ending {
	return []Ending{{"_per_second", PerSecond, false}, {"_seconds", Seconds, false}, {"_bytes", Bytes, false}}
}

// EndingsOfObservers are those by which the metrics of endpoints and commands tell their
// units (https://prometheus.io/docs/practices/naming).
func EndingsOfObservers() []Ending {
	return []Ending{
		{"_bytes_total", BytesPerSecond, true}, {"_seconds_total", CPUs, true}, {"_total", PerSecond, true}, {"_count", PerSecond, true},
		{"_bytes", Bytes, false}, {"_seconds", Seconds, false}, {"_ratio", Share, false},
	}
}

// named returns what the first ending says that a name has. With none of them, it is a count.
func named(name string, endings []Ending) Ending {
	for _, e := range endings {
		if strings.HasSuffix(name, e.End) && name != e.End {
			return e
		}
	}
	return Ending{Unit: Count}
}

// ProgramUnit cuts the unit off the name of a figure that a program printed.
func ProgramUnit(name string) (base string, unit Unit) {
	e := named(name, EndingsOfPrograms())
	return strings.TrimSuffix(name, e.End), e.Unit
}

// A Gauge is a level of the target that may grow during a soak. Expressions name it.
type Gauge struct{ Name, Column string }

// Gauges lists them in the order of a report.
func Gauges() []Gauge {
	return []Gauge{
		{"rss", "target_rss_bytes"},
		{"threads", "target_threads"},
		{"descriptors", "target_descriptors"},
		{"goroutines", "target_goroutines"},
	}
}
