// Package ghz imports settings of ghz, a load generator for gRPC.
package ghz

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"dyno/cli/foreign"
	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/options"
	"dyno/load/scenario"
	"dyno/results/mask"
)

// Format is the format of settings of ghz.
func Format() draft.Format {
	return draft.Format{Name: "ghz", About: "settings of ghz, in JSON or TOML", Most: draft.MaxConfig, Form: form, Read: read}
}

var form = lazyregexp.New(`(?m)(?:^|[{,])\s*"?call"?\s*[:=]\s*"[\w.]+[./]\w+"`)

// A config is a file of settings of ghz. Its settings are named as the flags, in any case.
type config struct {
	Host          string
	Proto         string
	Protoset      string
	Call          string
	ImportPaths   []string        `json:"import-paths"`
	Data          json.RawMessage // a message, several, or either as text
	DataFile      string          `json:"data-file"`
	BinaryFile    string          `json:"binary-file"`
	Metadata      json.RawMessage
	MetadataFile  string `json:"metadata-file"`
	Total         float64
	Concurrency   float64
	Connections   float64
	RPS           float64
	Duration      duration
	MaxDuration   duration `json:"max-duration"`
	Timeout       duration
	Insecure      bool
	SkipTLS       bool `json:"skipTLS"`
	CACert        string
	Cert          string
	Key           string
	CName         string
	Authority     string
	Compression   bool     `json:"enable-compression"`
	Messages      float64  `json:"stream-call-count"`
	Interval      duration `json:"stream-interval"`
	MaxMessage    float64  `json:"max-recv-message-size"`
	LoadSchedule  string   `json:"load-schedule"`
	LoadStart     float64  `json:"load-start"`
	LoadEnd       float64  `json:"load-end"`
	LoadStep      float64  `json:"load-step"`
	LoadStepTime  duration `json:"load-step-duration"`
	LoadTime      duration `json:"load-max-duration"`
	CallsSchedule string   `json:"concurrency-schedule"`
	CallsStart    float64  `json:"concurrency-start"`
	CallsEnd      float64  `json:"concurrency-end"`
	CallsStep     float64  `json:"concurrency-step"`
	CallsStepTime duration `json:"concurrency-step-duration"`
	CallsTime     duration `json:"concurrency-max-duration"`
	KeepaliveTime duration `json:"keepalive"`
}

// A duration is a duration of ghz: as text, or a number of nanoseconds.
type duration time.Duration

// UnmarshalJSON reads either form.
func (t *duration) UnmarshalJSON(text []byte) error {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		*t = duration(n)
		return nil
	}
	var s string
	if err := json.Unmarshal(text, &s); err != nil || s == "" {
		return err
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is no duration", s)
	}
	*t = duration(d)
	return nil
}

// carried are the settings that are carried over. The table of other tools' flags explains the
// others.
const carried = ` host proto protoset call import-paths data data-file binary-file metadata metadata-file total concurrency connections
	rps duration max-duration timeout insecure skiptls cacert cert key cname authority enable-compression stream-call-count
	stream-interval max-recv-message-size load-schedule load-start load-end load-step load-step-duration load-max-duration
	concurrency-schedule concurrency-start concurrency-end concurrency-step concurrency-step-duration concurrency-max-duration keepalive name `

// callName matches what a call is named.
var callName = lazyregexp.New(`^\w+(?:\.\w+)*[./]\w+$`)

// read reads a file of settings of ghz, in JSON or TOML.
func read(d *draft.Draft, src []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) {
		var all map[string]any
		if err := toml.Unmarshal(src, &all); err != nil {
			line := 0
			if at := (*toml.DecodeError)(nil); errors.As(err, &at) {
				line, _ = at.Position()
			}
			return fmt.Errorf("line %d: this is neither a file of settings in JSON nor in TOML: %w", line, err)
		}
		text, err := json.Marshal(all)
		if err != nil {
			return err
		}
		return addSettings(d, text, src)
	}
	return addSettings(d, src, src)
}

// addSettings carries settings over. Src is the file, for the lines.
func addSettings(d *draft.Draft, settings, src []byte) error {
	var (
		c   config
		all map[string]json.RawMessage
	)
	c.Total, c.Concurrency, c.Connections = 200, 50, 1
	if err := draft.ParseJSON(settings, &all, "a file of settings"); err != nil {
		return err
	}
	if err := json.Unmarshal(settings, &c); err != nil {
		return err
	}
	if !callName().MatchString(c.Call) {
		return fmt.Errorf("line %d: %q is no call; such as package.Service/Method", max(1, d.LineOfKey("call", 0)), c.Call)
	}
	line := func(name string) int { return d.LineOfKey(name, 0) }
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(strings.Fields(carried), strings.ToLower(name)) || len(d.Items) == draft.MaxItems {
			continue
		}
		why, hint := "the experiment has no such setting", ""
		for _, f := range foreign.Flags() {
			if slices.Contains(strings.Fields(f.Tools), "ghz") && slices.Contains(strings.Fields(f.Names), name) {
				hint = f.Remark
			}
		}
		d.Leave(line(name), name, why, hint)
	}
	if d.Base == "" && c.Host != "" {
		d.Base = "https://" + c.Host
		if c.Insecure {
			d.Base = "http://" + c.Host
		}
	}
	d.UseGRPC()
	l, t := d.Load(), d.Target()
	call := l.Call
	if call.Method = c.Call; strings.Count(c.Call, "/") == 0 {
		if at := strings.LastIndexByte(c.Call, '.'); at > 0 {
			call.Method = c.Call[:at] + "/" + c.Call[at+1:]
		}
	}
	if c.Proto != "" {
		call.Protos = []string{d.Relative(line("proto"), c.Proto)}
		for _, p := range c.ImportPaths {
			call.ImportPaths = append(call.ImportPaths, d.Relative(line("import-paths"), p))
		}
	}
	if c.Protoset != "" {
		call.Protoset = d.Relative(line("protoset"), c.Protoset)
	}
	if err := setMessage(d, &c, line); err != nil {
		return err
	}
	if strings.HasPrefix(d.Base, "https://") && (c.SkipTLS || c.CACert != "" || c.Cert != "" || c.CName != "") {
		s := d.TLS()
		s.Insecure, s.ServerName = c.SkipTLS, c.CName
		for _, file := range []struct {
			name, from string
			to         *string
		}{{"cacert", c.CACert, &s.CA}, {"cert", c.Cert, &s.Certificate}, {"key", c.Key, &s.Key}} {
			if file.from != "" {
				*file.to = d.Relative(line(file.name), file.from)
			}
		}
	}
	t.TLS, call.Authority = d.Target().TLS, c.Authority
	if c.Compression {
		call.Compression = plan.CompressionGzip
	}
	call.Messages, call.Interval = int(c.Messages), time.Duration(c.Interval)
	if c.MaxMessage > 0 {
		call.MaxMessage = int(c.MaxMessage)
	}
	if c.KeepaliveTime > 0 {
		l.Keepalive = &options.Keepalive{Time: time.Duration(c.KeepaliveTime), Timeout: 20 * time.Second}
	}
	if c.Timeout > 0 {
		l.Timeout = time.Duration(c.Timeout)
	}
	setLoad(d, &c, line)
	return nil
}

// setMessage takes the message and the metadata over.
func setMessage(d *draft.Draft, c *config, line func(string) int) error {
	call := d.Load().Call
	switch {
	case c.BinaryFile != "":
		call.BinaryFile = d.Relative(line("binary-file"), c.BinaryFile)
	case c.DataFile != "":
		call.MessageFile = d.Relative(line("data-file"), c.DataFile)
		if text, err := d.ReadFile(c.DataFile); err == nil && strings.Contains(text, "{{") {
			call.MessageFile, call.Message = "", withoutTemplates(d, line("data-file"), text)
		}
	default:
		text := string(c.Data)
		var quoted string
		if json.Unmarshal(c.Data, &quoted) == nil {
			text = quoted
		}
		call.Message = withoutTemplates(d, line("data"), text)
	}
	metadata := string(c.Metadata)
	if c.MetadataFile != "" {
		text, err := d.ReadFile(c.MetadataFile)
		if err != nil {
			d.LeaveFault(line("metadata-file"), c.MetadataFile, err, "")
		}
		metadata = text
	}
	if metadata == "" || metadata == "null" {
		return nil
	}
	var quoted string
	if json.Unmarshal([]byte(metadata), &quoted) == nil {
		metadata = quoted
	}
	headers, err := foreign.ReadMetadata(metadata)
	if err != nil {
		return err
	}
	for _, h := range headers {
		if strings.Contains(h.Value, "{{") {
			d.Leave(line("metadata"), h.Name, "metadata of a repeated call does not vary", "a scenario has metadata with templates")
		}
		if strings.HasSuffix(strings.ToLower(h.Name), "-bin") { // ghz takes bytes, and dyno their base64
			h.Value = base64.RawStdEncoding.EncodeToString([]byte(h.Value))
		}
		call.Metadata = append(call.Metadata, scenario.Header{Name: h.Name, Value: plan.Quote(h.Value)})
	}
	hideCredentials(d, line("metadata"), call)
	return nil
}

// hideCredentials makes the call a step of a scenario if its metadata has credentials: only there may variables stand.
func hideCredentials(d *draft.Draft, line int, call *plan.Call) {
	isCredential := func(h scenario.Header) bool { return mask.IsCredential(h.Name) }
	if !slices.ContainsFunc(call.Metadata, isCredential) {
		return
	}
	if call.BinaryFile != "" {
		for _, h := range call.Metadata {
			if isCredential(h) {
				d.Leave(line, h.Name, "this is a credential, which a call with a binary message cannot take from a file", "give load.call.metadata its value")
			}
		}
		call.Metadata = slices.DeleteFunc(call.Metadata, isCredential)
		return
	}
	step := d.AddStep(line, call.Method)
	step.Method, step.Message, step.MessageFile, step.Metadata = call.Method, call.Message, call.MessageFile, call.Metadata
	call.Method, call.Message, call.MessageFile, call.Metadata = "", "", "", nil
}

// withoutTemplates puts templates in the place of ghz's. Messages are made before the load, from rows; what varies by call
// cannot be carried over.
func withoutTemplates(d *draft.Draft, line int, text string) string {
	if strings.Contains(text, "{{") {
		d.Leave(line, "data", "its templates are text here: messages are made before the load, and vary only with rows", "load.call.data has rows, and a scenario templates: see dyno help templates")
	}
	return strings.ReplaceAll(text, "{{", `{\u007b`) // which JSON has in texts only; a stream of messages is no template
}

// setLoad makes the load: its connections are shared by the calls that are under way.
func setLoad(d *draft.Draft, c *config, line func(string) int) {
	l := d.Load()
	connections := max(1, int(c.Connections))
	whole := time.Duration(cmp.Or(c.Duration, c.MaxDuration))
	rates := schedule{c.LoadSchedule, c.LoadStart, c.LoadEnd, c.LoadStep, time.Duration(c.LoadStepTime), time.Duration(c.LoadTime)}.stages(whole)
	calls := schedule{c.CallsSchedule, c.CallsStart, c.CallsEnd, c.CallsStep, time.Duration(c.CallsStepTime), time.Duration(c.CallsTime)}.stages(whole)
	isOpen := rates != nil || c.RPS > 0
	if isOpen && calls != nil {
		d.Leave(line("concurrency-schedule"), "concurrency-schedule", "a rate starts the calls, however many are under way", "load.open.max_connections and load.http2.streams bound how many are")
		calls = nil
	}
	most := c.Concurrency
	if calls != nil {
		most = 0
		for i := range calls {
			calls[i].From, calls[i].To = math.Round(calls[i].From), math.Round(calls[i].To)
			most = max(most, calls[i].From, calls[i].To)
		}
	}
	l.HTTP2.Streams = max(1, int(math.Ceil(most/float64(connections))))
	switch {
	case isOpen:
		l.Open = plan.DefaultOpen()
		l.Open.MaxConnections = connections
		if rates == nil {
			l.Open.Rate = c.RPS
		} else {
			l.SetStages(rates)
		}
	case calls != nil:
		l.Closed = &plan.Closed{}
		l.SetStages(calls)
		if n := l.Closed.Connections; n != connections {
			d.Leave(line("connections"), "connections", fmt.Sprintf("%g calls under way cannot be shared equally by %d connections: there are %d", most, connections, n), "load.http2.streams is the number for each connection")
		}
		if c.Duration == 0 {
			d.Leave(line("total"), "total", "stages of users have a time, and no number of calls ends them", "load.stages says how long they last")
		}
		return
	default:
		l.Closed = &plan.Closed{Connections: connections}
		if calls := l.HTTP2.Streams * connections; calls != int(c.Concurrency) {
			d.Leave(line("concurrency"), "concurrency", fmt.Sprintf("%g calls under way cannot be shared equally by %d connections: there are %d", c.Concurrency, connections, calls), "load.http2.streams is the number for each connection")
		}
	}
	switch {
	case c.Duration > 0 && l.Stages == nil:
		l.Window = time.Duration(c.Duration)
	case c.Duration == 0:
		if l.Requests = uint64(max(1, c.Total)); l.Stages == nil {
			l.Window = time.Duration(c.MaxDuration)
		}
	}
}

// A schedule is how a rate or a number of calls under way changes: by a step each time, or by a slope a second. It
// stays as it is after its end or its time, if it has them.
type schedule struct {
	form             string // step or line
	start, end, step float64
	every, time      time.Duration
}

// mostStages is how many steps of a schedule are carried over.
const mostStages = 1000

// stages returns the schedule in parts, which last the whole time if that is known; nil if nothing changes.
func (s schedule) stages(whole time.Duration) (stages []plan.Stage) {
	var length time.Duration
	add := func(d time.Duration, from, to float64) {
		if whole > 0 && length+d > whole {
			to = from + (to-from)*float64(whole-length)/float64(d)
			d = whole - length
		}
		if d > 0 {
			length += d
			stages = append(stages, plan.Stage{Duration: d, From: max(0, from), To: max(0, to)})
		}
	}
	level, last := s.start, time.Second
	switch {
	case strings.EqualFold(s.form, "line") && s.step != 0:
		time := cmp.Or(s.time, whole, mostStages*time.Second)
		if s.end != 0 {
			time = min(time, max(0, draft.InSeconds((s.end-s.start)/s.step)))
		}
		if s.step < 0 {
			time = min(time, draft.InSeconds(-s.start/s.step))
		}
		level += s.step * time.Seconds()
		add(time, s.start, level)
	case strings.EqualFold(s.form, "step") && s.step != 0 && s.every > 0:
		last = s.every
		isOver := func() bool {
			return s.end != 0 && (s.step > 0 && level >= s.end || s.step < 0 && level <= s.end) || s.step < 0 && level <= 0 ||
				s.time > 0 && length >= s.time || whole > 0 && length >= whole || len(stages) == mostStages
		}
		for ; !isOver(); level += s.step {
			add(s.every, level, level)
		}
		if s.end != 0 && (level-s.end)*s.step > 0 {
			level = s.end
		}
	default:
		return nil
	}
	if whole > 0 {
		last = whole - length
	}
	add(last, level, level)
	return stages
}
