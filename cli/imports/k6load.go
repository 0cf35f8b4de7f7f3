package imports

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/scenario"
)

// k6Options are the options of a script, as far as they mean something here.
type k6Options struct {
	k6Scenario
	Thresholds   map[string][]json.RawMessage `json:"thresholds"`
	Insecure     bool                         `json:"insecureSkipTLSVerify"`
	NoReuse      bool                         `json:"noConnectionReuse"`
	NoVUReuse    bool                         `json:"noVUConnectionReuse"`
	UserAgent    string                       `json:"userAgent"`
	RPS          float64                      `json:"rps"`
	MaxRedirects int                          `json:"maxRedirects"`
	KeepsCookies bool                         `json:"noCookiesReset"`

	text      json.RawMessage
	scenarios []k6Scenario
}

// A k6Scenario is a scenario of k6, or the options without any.
type k6Scenario struct {
	name   string
	number int // among the scenarios
	line   int
	weight int
	text   json.RawMessage

	Executor    string            `json:"executor"`
	Exec        string            `json:"exec"`
	StartTime   k6Time            `json:"startTime"`
	VUs         float64           `json:"vus"`
	Duration    k6Time            `json:"duration"`
	MaxDuration k6Time            `json:"maxDuration"`
	Iterations  float64           `json:"iterations"`
	Stages      []k6Stage         `json:"stages"`
	Rate        float64           `json:"rate"`
	TimeUnit    k6Time            `json:"timeUnit"`
	StartRate   float64           `json:"startRate"`
	StartVUs    float64           `json:"startVUs"`
	MinVUs      float64           `json:"preAllocatedVUs"`
	MaxVUs      float64           `json:"maxVUs"`
	Environment map[string]string `json:"env"`
}

type k6Stage struct {
	Duration k6Time  `json:"duration"`
	Target   float64 `json:"target"`
}

// A k6Time is a duration as text, or a number of milliseconds.
type k6Time time.Duration

// UnmarshalJSON reads either form.
func (t *k6Time) UnmarshalJSON(text []byte) error {
	if milliseconds, err := strconv.ParseFloat(string(text), 64); err == nil {
		*t = k6Time(inSeconds(milliseconds / 1000))
		return nil
	}
	var s string
	if err := json.Unmarshal(text, &s); err != nil || s == "" {
		return err
	}
	if m := inDays().FindStringSubmatch(s); m != nil { // which Go's durations do not have
		days, _ := strconv.Atoi(m[1])
		s = fmt.Sprintf("%dh%s", days*24, m[2])
		if m[2] == "" {
			s = fmt.Sprintf("%dh", days*24)
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("options: %q is no duration", s)
	}
	*t = k6Time(d)
	return nil
}

var inDays = lazyregexp.New(`^(\d{1,3})d(.*)$`)

// k6Settings are the options that are carried over, or that only change what k6 prints or keeps.
const k6Settings = ` vus duration iterations stages scenarios thresholds insecureSkipTLSVerify noConnectionReuse noVUConnectionReuse userAgent rps
	maxRedirects summaryTrendStats summaryTimeUnit noUsageReport systemTags discardResponseBodies setupTimeout teardownTimeout throw
	batch batchPerHost noCookiesReset cloud ext `

// k6ScenarioSettings are a scenario's known settings.
const k6ScenarioSettings = ` executor exec startTime vus duration maxDuration iterations stages rate timeUnit startRate startVUs preAllocatedVUs maxVUs env `

// listUnknown lists settings of an object that are not carried over.
func (d *draft) listUnknown(object json.RawMessage, known, within string, line int) {
	for _, name := range keysOf(object) {
		if slices.Contains(strings.Fields(known), name) {
			continue
		}
		hint := ""
		switch {
		case strings.HasPrefix(name, "graceful"):
			hint = "a run waits up to 2 s for responses that are under way at its end"
		case name == "tags":
			hint = "figures have no tags of their own; steps have names, which thresholds can refer to"
		}
		d.leave(cmp.Or(lineOfKey(d.src, name, line), line), within+"."+name, "the experiment has no such setting", hint)
	}
}

// listUnknown lists the settings that are not carried over.
func (o *k6Options) listUnknown(d *draft) {
	d.listUnknown(o.text, k6Settings, "options", lineOfKey(d.src, "options", 0))
	for _, s := range o.scenarios {
		d.listUnknown(s.text, k6ScenarioSettings, "scenario "+s.name, s.line)
	}
}

// keysOf returns the names of an object's members in their order.
func keysOf(object json.RawMessage) (names []string) {
	dec := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if begin, err := dec.ReadToken(); err != nil || begin.Kind() != '{' {
		return nil
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			break
		}
		names = append(names, name.String())
		if dec.SkipValue() != nil {
			break
		}
	}
	return names
}

// readOptions reads what the script exports.
func readOptions(d *draft, text json.RawMessage) (*k6Options, error) {
	o := &k6Options{MaxRedirects: 10, text: text}
	if len(text) == 0 {
		return o, nil
	}
	var all struct {
		Scenarios json.RawMessage `json:"scenarios"`
	}
	if err := errors.Join(json.Unmarshal(text, o), json.Unmarshal(text, &all)); err != nil {
		return nil, fmt.Errorf("line %d: %w", lineOfKey(d.src, "options", 0), err)
	}
	if len(all.Scenarios) == 0 {
		return o, nil
	}
	var each map[string]json.RawMessage
	if err := json.Unmarshal(all.Scenarios, &each); err != nil {
		return nil, fmt.Errorf("line %d: scenarios: %w", lineOfKey(d.src, "scenarios", 0), err)
	}
	for _, name := range keysOf(all.Scenarios) {
		s := k6Scenario{name: strings.Trim(notInName().ReplaceAllString(name, "-"), "-"), number: len(o.scenarios), line: lineOfKey(d.src, name, 0), text: each[name]}
		if err := json.Unmarshal(s.text, &s); err != nil {
			return nil, fmt.Errorf("line %d: %w", s.line, err)
		}
		o.scenarios = append(o.scenarios, s)
	}
	return o, nil
}

// all returns the scenarios, or what the options say without any.
func (o *k6Options) all() []k6Scenario {
	if len(o.scenarios) > 0 {
		return o.scenarios
	}
	s := o.k6Scenario
	switch {
	case len(s.Stages) > 0:
		s.Executor = "ramping-vus"
	case s.Iterations > 0:
		s.Executor = "shared-iterations"
	case s.Duration > 0:
		s.Executor = "constant-vus"
	default:
		s.Executor, s.Iterations = "per-vu-iterations", 1
	}
	return []k6Scenario{s}
}

// function is the name of the function that an iteration calls.
func (s *k6Scenario) function() string { return cmp.Or(s.Exec, "default") }

// k6Scenarios returns the scenarios that become flows of one load: all if they have users or rates in the same way, and
// else the first.
func (d *draft) k6Scenarios(o *k6Options) []k6Scenario {
	if len(o.scenarios) == 0 {
		return o.all()
	}
	first := o.scenarios[0]
	kept := []k6Scenario{}
	for _, s := range o.scenarios {
		joins := s.Executor == first.Executor && s.StartTime == first.StartTime && (s.Executor == "constant-vus" || s.Executor == "constant-arrival-rate")
		if len(kept) > 0 && !joins {
			d.leave(s.line, "scenario "+s.name, "it is another kind of load than "+first.name+", or begins at another time; a run has one load", "import the script once for each: take the other scenarios out of options")
			continue
		}
		s.weight = int(max(1, s.VUs))
		if s.Executor == "constant-arrival-rate" {
			s.weight = int(max(1, s.perSecond(s.Rate)*1000))
		}
		kept = append(kept, s)
	}
	return kept
}

// perSecond returns a rate of the scenario per second.
func (s *k6Scenario) perSecond(rate float64) float64 {
	unit := time.Duration(s.TimeUnit)
	if unit <= 0 {
		unit = time.Second
	}
	return rate / unit.Seconds()
}

// k6Load makes the load of the scenarios that are flows of it.
func (d *draft) k6Load(o *k6Options, scenarios []k6Scenario, steps int) {
	l, s := d.load(), scenarios[0]
	users := 0
	rate := 0.0
	window := time.Duration(0)
	for i := range scenarios {
		users += int(max(1, scenarios[i].VUs))
		rate += scenarios[i].perSecond(scenarios[i].Rate)
		window = max(window, time.Duration(scenarios[i].Duration))
	}
	if s.StartTime > 0 {
		d.leave(s.line, "startTime", "the load begins at once", "")
	}
	closed := func(users int) { l.Closed = &plan.Closed{Connections: min(max(users, 1), 1_000_000)} }
	switch s.Executor {
	case "constant-vus":
		closed(users)
		d.k6Window(window)
	case "shared-iterations":
		closed(users)
		l.Requests, l.Window = uint64(max(1, s.Iterations)*float64(max(steps, 1))), time.Duration(s.MaxDuration)
	case "per-vu-iterations":
		closed(users)
		l.Requests, l.Window = uint64(float64(users)*max(1, s.Iterations)*float64(max(steps, 1))), time.Duration(s.MaxDuration)
	case "ramping-vus":
		most, sum := s.StartVUs, time.Duration(0)
		for _, stage := range s.Stages {
			most, sum = max(most, stage.Target), sum+time.Duration(stage.Duration)
		}
		closed(int(most))
		d.k6Window(sum)
		d.leave(cmp.Or(s.line, lineOfKey(d.src, "stages", 0)), "stages", fmt.Sprintf("the number of users does not change in a run: all %d are there from the beginning", int(most)), "load.stages change the rate of an open load; a sweep over connections measures each number by itself")
	case "constant-arrival-rate", "ramping-arrival-rate":
		l.Open = plan.DefaultOpen()
		if most := int(max(s.MaxVUs, s.MinVUs)); most > 0 {
			l.Open.MaxConnections, d.scenario.Users = most, most
		}
		if s.Executor == "constant-arrival-rate" {
			l.Open.Rate = rate
			d.k6Window(window)
			break
		}
		from := s.perSecond(s.StartRate)
		l.Window = 0
		for _, stage := range s.Stages {
			to := s.perSecond(stage.Target)
			if stage.Duration <= 0 {
				from = to
				continue
			}
			l.Open.Stages = append(l.Open.Stages, plan.Stage{Duration: time.Duration(stage.Duration), From: from, To: to})
			l.Window += time.Duration(stage.Duration)
			from = to
		}
	default:
		closed(users)
		d.leave(s.line, "executor "+s.Executor, "the experiment has no such load", "load.closed and load.open say what there is")
	}
	if o.Insecure {
		d.tls().Insecure = true
	}
	if o.NoReuse || o.NoVUReuse {
		l.RequestsPerConnection = 1
	}
	if o.UserAgent != "" {
		d.scenario.Headers = append(d.scenario.Headers, scenario.Header{Name: "User-Agent", Value: d.template(o.UserAgent)})
	}
	if o.RPS > 0 {
		d.leave(lineOfKey(d.src, "rps", 0), "rps", "users are not slowed down to a rate", "load.open.rate is a rate of iterations")
	}
}

// k6Window sets how long the load is measured.
func (d *draft) k6Window(window time.Duration) {
	const least, most = 100 * time.Millisecond, 24 * time.Hour
	if window < least || window > most {
		d.leave(0, "duration", "it is not one from 100 ms to 24 h", "load.window has such times")
		return
	}
	d.load().Window = window
}

var (
	thresholdText = lazyregexp.New(`^\s*(p\((\d+(?:\.\d+)?)\)|avg|med|min|max|rate|count|value)\s*(<=?|>=?|===?|!=)\s*(\d+(?:\.\d+)?)\s*$`)
	thresholdOf   = lazyregexp.New(`^(\w+)(?:\{\s*(\w+)\s*:\s*([^{}]*)\})?$`)
)

// k6Thresholds carries over conditions on metrics.
func (d *draft) k6Thresholds(all map[string][]json.RawMessage, line int) {
	for _, metric := range sortedNames(all) {
		for _, raw := range all[metric] {
			var object struct {
				Threshold string `json:"threshold"`
				Abort     bool   `json:"abortOnFail"`
			}
			if json.Unmarshal(raw, &object.Threshold) != nil && json.Unmarshal(raw, &object) != nil {
				continue
			}
			at := cmp.Or(lineOf(d.src, object.Threshold), line)
			text, err := d.threshold(metric, object.Threshold)
			if err != nil {
				d.leave(at, metric+": "+object.Threshold, err.Error(), "dyno help metrics lists what thresholds can be about")
				continue
			}
			if d.e.Thresholds = append(d.e.Thresholds, text); object.Abort {
				d.leave(at, metric+": abortOnFail", "a run goes on to its end", "")
			}
		}
	}
}

// threshold returns a condition in terms of dyno's metrics. Times of k6's requests run from their sending.
func (d *draft) threshold(metric, text string) (string, error) {
	m, of := thresholdText().FindStringSubmatch(text), thresholdOf().FindStringSubmatch(metric)
	if m == nil || of == nil {
		return "", errors.New("dyno does not understand the condition")
	}
	suffix := ""
	switch of[2] {
	case "":
	case "expected_response":
		if strings.TrimSpace(of[3]) != "true" {
			return "", errors.New("times of failed requests are not kept")
		}
	case "name":
		step := strings.Trim(notInName().ReplaceAllString(of[3], "-"), "-.")
		known := false
		d.scenario.EachStep(func(_ string, st *scenario.Step) { known = known || st.Name == step })
		if !known {
			return "", fmt.Errorf("no step is named %q", of[3])
		}
		suffix = "{step=" + step + "}"
	default:
		return "", fmt.Errorf("there is no tag %s", of[2])
	}
	operator, bound := strings.Replace(m[3], "===", "==", 1), m[4]
	number, _ := strconv.ParseFloat(bound, 64)
	switch {
	case of[1] == "http_req_duration":
		figure := map[string]string{"avg": "mean", "med": "p50", "max": "max"}[m[1]]
		if m[2] != "" {
			figure = quantileName(m[2])
		}
		if figure != "" {
			return fmt.Sprintf("service.%s%s %s %sms", figure, suffix, operator, bound), nil
		}
	case of[1] == "http_req_failed" && m[1] == "rate":
		return fmt.Sprintf("errors.ratio%s %s %s%%", suffix, operator, percent(number)), nil
	case of[1] == "checks" && m[1] == "rate" && strings.HasPrefix(operator, ">"):
		return fmt.Sprintf("errors.ratio%s %s %s%%", suffix, strings.Replace(operator, ">", "<", 1), percent(1-number)), nil
	case of[1] == "http_reqs" && m[1] == "rate":
		return fmt.Sprintf("throughput%s %s %s/s", suffix, operator, bound), nil
	}
	return "", fmt.Errorf("dyno has no figure like %s of %s", m[1], of[1])
}

// quantileName returns the name of a figure at a percentile: two digits and then the decimals; "" if there is none.
func quantileName(percentile string) string {
	const mostDecimals = 5
	p, err := strconv.ParseFloat(percentile, 64)
	if err != nil || p <= 0 || p > 100 {
		return ""
	}
	if p == 100 {
		return "max"
	}
	whole, decimals, _ := strings.Cut(strconv.FormatFloat(p, 'f', -1, 64), ".")
	if len(decimals) > mostDecimals {
		return ""
	}
	return fmt.Sprintf("p%02s%s", whole, decimals)
}

// percent writes a share in percent.
func percent(share float64) string {
	return strconv.FormatFloat(float64(int64(share*1e8+0.5))/1e6, 'f', -1, 64)
}
