package k6

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
)

// Tags are what k6 says of a request, such as its group and its scenario.
type tags map[string]string

// StepsOf are the steps that were made of a script's requests.
type stepsOf struct {
	all     []string
	byEvent map[int]string // by the number of the request
	tags    map[string]tags
	figures map[string]ownFigure // of metrics of the script
	isLost  bool                 // the connection of WebSocket is not carried over
}

// An ownFigure is what dyno has in place of a metric of the script: a figure of some steps.
type ownFigure struct {
	kind   string // of the metric
	time   string // the figure's name, of times
	isGood bool   // the rate is of good responses
	steps  []string
}

func (s *stepsOf) add(name string, e *event) {
	s.all = append(s.all, name)
	s.byEvent[e.ID] = name
	s.tags[name] = maps.Clone(e.Tags)
	if s.tags[name] == nil {
		s.tags[name] = tags{}
	}
	s.tags[name]["method"] = e.Method
	s.tags[name]["name"] = cmp.Or(e.Name, e.URL)
}

// with returns the steps that have all tags of a threshold, such as "type:api, group:::main".
func (s *stepsOf) with(text string) (names []string, err error) {
	wanted := tags{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(part, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !found:
			return nil, fmt.Errorf("%q is no tag with its value", part)
		case name == "expected_response" && value != "true":
			return nil, errors.New("times of failed requests are not kept")
		case name != "expected_response":
			wanted[name] = value
		}
	}
	for _, step := range s.all {
		has := true
		for name, value := range wanted {
			has = has && (s.tags[step][name] == value || name == "name" && draft.Name(value) == step)
		}
		if has {
			names = append(names, step)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no request has the tag %s", text)
	}
	return names, nil
}

// A metric is a metric of the script.
type metric struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	Line int    `json:"line"`
	Adds []struct {
		Event int    `json:"event"` // the number of the request
		Time  string `json:"time"`  // of its response; empty: another value
		Value any    `json:"value"` // a number or a boolean
		Line  int    `json:"line"`
	} `json:"adds"`
}

// The times of k6's responses that dyno has figures of: of steps, or only of all requests.
var ownTimes = map[string]string{"duration": "service", "waiting": "first_byte", "connecting": "connect", "tls_handshaking": "handshake"}

// statusRate is a rate that is added to by the status of a response, or by its checks.
var statusRate = lazyregexp.New(`\.add\(\s*(?:!?\s*check\(|!?\s*\w+\s*\)|\(?\s*\w+\.status\s*(?:[=!]==?\s*200|>=\s*400|<\s*400)\s*\)?\s*\))`)

// addMetrics finds figures of steps in place of the script's metrics, and lists those that have none.
func addMetrics(d *draft.Draft, steps *stepsOf, all []metric) {
	lines := strings.Split(string(d.Src), "\n")
	for _, m := range all {
		f, why := ownFigure{kind: m.Kind}, ""
		for _, a := range m.Adds {
			step, known := steps.byEvent[a.Event]
			good, isBool := a.Value.(bool)
			source := ""
			if a.Line > 0 && a.Line <= len(lines) {
				source = lines[a.Line-1]
			}
			switch {
			case !known:
				continue // of another scenario
			case (m.Kind == "Trend" || m.Kind == "Gauge") && ownTimes[a.Time] != "" && f.time == "" || f.time == ownTimes[a.Time] && f.time != "":
				f.time = ownTimes[a.Time]
			case m.Kind == "Rate" && isBool && statusRate().MatchString(source) && (len(f.steps) == 0 || f.isGood == good):
				f.isGood = good
			case m.Kind == "Counter" && a.Value == 1.0:
			default:
				why = "what it records is no figure of a step"
			}
			if known && !slices.Contains(f.steps, step) {
				f.steps = append(f.steps, step)
			}
		}
		switch {
		case why != "":
			d.Leave(m.Line, m.Kind+" "+m.Name, why, "dyno help metrics lists those that there are")
		case len(f.steps) > 0:
			if steps.figures == nil {
				steps.figures = map[string]ownFigure{}
			}
			steps.figures[m.Name] = f
		}
	}
}

// addThresholds carries over conditions on metrics.
func addThresholds(d *draft.Draft, steps *stepsOf, all map[string][]json.RawMessage, line int) {
	for _, metric := range slices.Sorted(maps.Keys(all)) {
		for _, raw := range all[metric] {
			var object struct {
				Threshold string   `json:"threshold"`
				Abort     bool     `json:"abortOnFail"`
				Delay     duration `json:"delayAbortEval"`
			}
			if json.Unmarshal(raw, &object.Threshold) != nil && json.Unmarshal(raw, &object) != nil {
				continue
			}
			at := cmp.Or(d.LineOf(object.Threshold), line)
			texts, err := thresholds(steps, metric, object.Threshold)
			if err != nil {
				d.Leave(at, metric+": "+object.Threshold, err.Error(), "dyno help metrics lists what thresholds can be about")
				continue
			}
			if len(texts) > 1 {
				d.Leave(0, "thresholds of several steps", "each step must keep them, and not only all steps together", "")
			}
			for _, text := range texts {
				t := plan.Threshold{Holds: text, Abort: object.Abort && !strings.Contains(text, "{")}
				if t.Abort && time.Duration(object.Delay) >= time.Second {
					t.After = min(time.Duration(object.Delay), 24*time.Hour)
				}
				if object.Abort != t.Abort {
					d.Leave(at, metric+": abortOnFail", "the figures of a step are known at the end only, and a run goes on until then", "")
				}
				d.Experiment.Thresholds = append(d.Experiment.Thresholds, t)
			}
		}
	}
}

// thresholds returns a condition in terms of dyno's metrics: one, or one for each of some steps. Times of k6's requests run
// from their sending.
func thresholds(steps *stepsOf, metric, text string) (all []string, err error) {
	m, of := thresholdText().FindStringSubmatch(text), thresholdOf().FindStringSubmatch(metric)
	if m == nil || of == nil {
		return nil, errors.New("dyno does not understand the condition")
	}
	names := steps.all
	if of[2] != "" {
		if names, err = steps.with(of[2]); err != nil {
			return nil, err
		}
	}
	own, isOwn := steps.figures[of[1]]
	if isOwn {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(own.steps, name) })
	}
	suffixes := []string{""}
	if len(names) != len(steps.all) || strings.Contains(of[2], "name") {
		suffixes = nil
		for _, name := range names {
			suffixes = append(suffixes, "{step="+name+"}")
		}
	}
	figure, bound := condition(of[1], own, m, len(suffixes) > 1)
	if figure == "" {
		return nil, fmt.Errorf("dyno has no figure like %s of %s", m[1], of[1])
	}
	for _, suffix := range suffixes {
		all = append(all, figure+suffix+" "+bound)
	}
	return all, nil
}

// The times of k6's metrics that dyno has by another name: of steps, or only of all requests.
var times = map[string]string{
	"http_req_duration": "service", "http_req_waiting": "first_byte", "http_req_connecting": "connect", "http_req_tls_handshaking": "handshake",
	"grpc_req_duration": "service",
}

// condition returns a figure, and what it must be. Of several steps it holds for each, so it is one that bounds from above.
func condition(metric string, own ownFigure, m []string, several bool) (figure, bound string) {
	operator, number := strings.Replace(m[3], "===", "==", 1), m[4]
	value, _ := strconv.ParseFloat(number, 64)
	upper := strings.HasPrefix(operator, "<") || operator == "==" && value == 0
	time := cmp.Or(times[metric], own.time)
	quantile := map[string]string{"avg": "mean", "med": "p50", "max": "max"}[m[1]]
	if m[2] != "" {
		quantile = quantileName(m[2])
	}
	good := metric == "checks" || own.kind == "Rate" && own.isGood
	switch {
	case time != "" && quantile != "" && (upper || !several):
		return time + "." + quantile, operator + " " + number + "ms"
	case (metric == "http_req_failed" || own.kind == "Rate" && !own.isGood) && m[1] == "rate" && (upper || !several):
		return "errors.ratio", operator + " " + percent(value) + "%"
	case good && m[1] == "rate" && strings.HasPrefix(operator, ">"):
		return "errors.ratio", strings.Replace(operator, ">", "<", 1) + " " + percent(1-value) + "%"
	case metric == "http_reqs" && m[1] == "rate" && !several:
		return "throughput", operator + " " + number + "/s"
	}
	return "", ""
}
