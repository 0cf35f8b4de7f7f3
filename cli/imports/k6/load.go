package k6

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/scenario"
)

// options are the options of a script, as far as they mean something here.
type options struct {
	workload
	Thresholds   map[string][]json.RawMessage `json:"thresholds"`
	Insecure     bool                         `json:"insecureSkipTLSVerify"`
	NoReuse      bool                         `json:"noConnectionReuse"`
	NoVUReuse    bool                         `json:"noVUConnectionReuse"`
	UserAgent    string                       `json:"userAgent"`
	RPS          float64                      `json:"rps"`
	MaxRedirects int                          `json:"maxRedirects"`
	KeepsCookies bool                         `json:"noCookiesReset"`

	text      json.RawMessage
	scenarios []workload
}

// A workload is a scenario of k6, or the options without any.
type workload struct {
	name   string
	number int // among the scenarios
	line   int
	text   json.RawMessage

	Executor    string            `json:"executor"`
	Exec        string            `json:"exec"`
	StartTime   duration          `json:"startTime"`
	VUs         float64           `json:"vus"`
	Duration    duration          `json:"duration"`
	MaxDuration duration          `json:"maxDuration"`
	Iterations  float64           `json:"iterations"`
	Stages      []stage           `json:"stages"`
	Rate        float64           `json:"rate"`
	TimeUnit    duration          `json:"timeUnit"`
	StartRate   float64           `json:"startRate"`
	StartVUs    *float64          `json:"startVUs"` // 1 if it is not given
	MinVUs      float64           `json:"preAllocatedVUs"`
	MaxVUs      float64           `json:"maxVUs"`
	Environment map[string]string `json:"env"`
	Tags        tags              `json:"tags"`
	Graceful    *duration         `json:"gracefulStop"`
	RampDown    *duration         `json:"gracefulRampDown"`
}

// grace is how long users may go on to finish their iterations.
func (s *workload) grace() time.Duration {
	const otherwise = 30 * time.Second
	grace := time.Duration(0)
	for _, given := range []*duration{s.Graceful, s.RampDown} {
		switch {
		case given != nil:
			grace = max(grace, time.Duration(*given))
		case given == s.Graceful || s.Executor == "ramping-vus":
			grace = otherwise
		}
	}
	return grace
}

type stage struct {
	Duration duration `json:"duration"`
	Target   float64  `json:"target"`
}

// A duration is a duration as text, or a number of milliseconds.
type duration time.Duration

// UnmarshalJSON reads either form.
func (t *duration) UnmarshalJSON(text []byte) error {
	if milliseconds, err := strconv.ParseFloat(string(text), 64); err == nil {
		*t = duration(draft.InSeconds(milliseconds / 1000))
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
	*t = duration(d)
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (t duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(t).String()) }

var inDays = lazyregexp.New(`^(\d{1,3})d(.*)$`)

// knownOptions are the options that are carried over, or that only change what k6 prints or keeps.
const knownOptions = ` vus duration iterations stages scenarios thresholds insecureSkipTLSVerify noConnectionReuse noVUConnectionReuse userAgent rps
	maxRedirects summaryTrendStats summaryTimeUnit noUsageReport systemTags discardResponseBodies setupTimeout teardownTimeout throw
	batch batchPerHost noCookiesReset cloud ext tags `

// knownSettings are a scenario's known settings.
const knownSettings = ` executor exec startTime vus duration maxDuration iterations stages rate timeUnit startRate startVUs preAllocatedVUs maxVUs env
	tags gracefulStop gracefulRampDown `

// listUnknown lists settings of an object that are not carried over.
func listUnknown(d *draft.Draft, object json.RawMessage, known, within string, line int) {
	for _, name := range keysOf(object) {
		if slices.Contains(strings.Fields(known), name) {
			continue
		}
		d.Leave(cmp.Or(d.LineOfKey(name, line), line), within+"."+name, "the experiment has no such setting", "")
	}
}

// listUnknown lists the settings that are not carried over.
func (o *options) listUnknown(d *draft.Draft) {
	listUnknown(d, o.text, knownOptions, "options", d.LineOfKey("options", 0))
	for _, s := range o.scenarios {
		listUnknown(d, s.text, knownSettings, "scenario "+s.name, s.line)
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
func readOptions(d *draft.Draft, text json.RawMessage) (*options, error) {
	o := &options{MaxRedirects: 10, text: text}
	if len(text) == 0 {
		return o, nil
	}
	var all struct {
		Scenarios json.RawMessage `json:"scenarios"`
	}
	if err := errors.Join(json.Unmarshal(text, o), json.Unmarshal(text, &all)); err != nil {
		return nil, fmt.Errorf("line %d: %w", d.LineOfKey("options", 0), err)
	}
	if len(all.Scenarios) == 0 {
		return o, nil
	}
	var each map[string]json.RawMessage
	if err := json.Unmarshal(all.Scenarios, &each); err != nil {
		return nil, fmt.Errorf("line %d: scenarios: %w", d.LineOfKey("scenarios", 0), err)
	}
	for _, name := range keysOf(all.Scenarios) {
		s := workload{name: draft.Name(name), number: len(o.scenarios), line: d.LineOfKey(name, 0), text: each[name]}
		if err := json.Unmarshal(s.text, &s); err != nil {
			return nil, fmt.Errorf("line %d: %w", s.line, err)
		}
		own := s.Tags
		s.Tags = tags{"scenario": name}
		maps.Copy(s.Tags, o.Tags)
		maps.Copy(s.Tags, own)
		o.scenarios = append(o.scenarios, s)
	}
	return o, nil
}

// all returns the scenarios, or what the options say without any.
func (o *options) all() []workload {
	if len(o.scenarios) > 0 {
		return o.scenarios
	}
	s := o.workload
	s.Tags = tags{"scenario": "default"}
	maps.Copy(s.Tags, o.Tags)
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
	return []workload{s}
}

// function is the name of the function that an iteration calls.
func (s *workload) function() string { return cmp.Or(s.Exec, "default") }

// perSecond returns a rate of the scenario per second.
func (s *workload) perSecond(rate float64) float64 {
	unit := time.Duration(s.TimeUnit)
	if unit <= 0 {
		unit = time.Second
	}
	return rate / unit.Seconds()
}

// pace returns the scenario as the pace of a flow.
func (s *workload) pace(d *draft.Draft) plan.Pace {
	users := min(int(max(1, s.VUs)), plan.MaxUsers)
	p := plan.Pace{Flow: s.name, Start: time.Duration(s.StartTime)}
	whole := func(users float64) int { return int(min(max(math.Round(users), 0), plan.MaxUsers)) }
	switch s.Executor {
	case "shared-iterations":
		p.Users, p.Iterations.Iterations, p.Window = users, uint64(max(1, s.Iterations)), time.Duration(s.MaxDuration)
		p.Users = int(min(uint64(p.Users), p.Iterations.Iterations)) //nolint:gosec // bounded by the users
	case "per-vu-iterations":
		p.Users, p.IterationsEach, p.Window = users, uint64(max(1, s.Iterations)), time.Duration(s.MaxDuration)
	case "ramping-vus":
		if p.Users = whole(max(1, s.VUs)); s.StartVUs != nil {
			p.Users = whole(*s.StartVUs)
		}
		for _, stage := range s.Stages {
			p.Stages = append(p.Stages, plan.PaceStage{Duration: time.Duration(stage.Duration), Users: whole(stage.Target)})
		}
		if p.MostUsers() == 0 {
			d.Leave(cmp.Or(s.line, d.LineOfKey("stages", 0)), "stages", "there is no user in any of them: there is one, for as long", "")
			p.Users, p.Window, p.Stages = 1, p.Length(), nil
		}
	case "constant-arrival-rate", "ramping-arrival-rate":
		p.MaxUsers = min(int(max(s.MaxVUs, s.MinVUs)), plan.MaxUsers)
		if s.Executor == "constant-arrival-rate" {
			p.Rate, p.Window = s.perSecond(s.Rate), time.Duration(s.Duration)
			break
		}
		p.Rate = s.perSecond(s.StartRate)
		for _, stage := range s.Stages {
			p.Stages = append(p.Stages, plan.PaceStage{Duration: time.Duration(stage.Duration), Rate: s.perSecond(stage.Target)})
		}
	default:
		if p.Users, p.Window = users, time.Duration(s.Duration); s.Executor != "constant-vus" {
			d.Leave(s.line, "executor "+s.Executor, "the number of users is that of the beginning, and nobody changes it during the run", "load.stages has other numbers over time")
		}
	}
	return p
}

// stages returns the parts of a pace as those of a whole load. One without a duration is a jump.
func stages(p *plan.Pace) (stages []plan.Stage) {
	from := max(p.Rate, float64(p.Users))
	for _, s := range p.Stages {
		to := max(s.Rate, float64(s.Users))
		if s.Duration > 0 {
			stages = append(stages, plan.Stage{Duration: s.Duration, From: from, To: to})
		}
		from = to
	}
	return stages
}

// setLoad makes the load of the scenarios: of one its closed or open loop, and of several a pace each.
func setLoad(d *draft.Draft, o *options, scenarios []workload) {
	l := d.Load()
	var paces []plan.Pace
	for i := range scenarios {
		s := &scenarios[i]
		paces = append(paces, s.pace(d))
		if l.Finish = max(l.Finish, s.grace()); s.grace() != scenarios[0].grace() {
			d.Leave(s.line, "gracefulStop", "load.finish is one time for all scenarios, the longest", "")
		}
	}
	switch p := &paces[0]; {
	case len(d.Scenario.Flows) > 0:
		l.SetPaces(paces)
	case p.IsOpen():
		l.Open = plan.DefaultOpen()
		if p.MaxUsers > 0 {
			l.Open.MaxConnections, d.Scenario.Users = p.MaxUsers, p.MaxUsers
		}
		if p.Stages != nil {
			l.SetStages(stages(p))
			break
		}
		l.Open.Rate = p.Rate
		d.SetWindow(p.Window)
	case p.Stages != nil:
		l.Closed = &plan.Closed{}
		l.SetStages(stages(p))
	default:
		l.Closed, l.Iterations = &plan.Closed{Connections: p.Users}, p.Iterations
		if l.Window = p.Window; !p.Counted() {
			d.SetWindow(p.Window)
		}
	}
	if o.Insecure {
		d.TLS().Insecure = true
	}
	if o.NoReuse || o.NoVUReuse {
		l.RequestsPerConnection = 1
	}
	if o.UserAgent != "" {
		d.Scenario.Headers = append(d.Scenario.Headers, scenario.Header{Name: "User-Agent", Value: d.Template(o.UserAgent)})
	}
	if o.RPS > 0 {
		d.Leave(d.LineOfKey("rps", 0), "rps", "users are not slowed down to a rate", "load.open.rate is a rate of iterations")
	}
}

var (
	thresholdText = lazyregexp.New(`^\s*(p\((\d+(?:\.\d+)?)\)|avg|med|min|max|rate|count|value)\s*(<=?|>=?|===?|!=)\s*(\d+(?:\.\d+)?)\s*$`)
	thresholdOf   = lazyregexp.New(`^(\w+)(?:\{([^{}]*)\})?$`)
)

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
