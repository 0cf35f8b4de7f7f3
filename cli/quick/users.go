package quick

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/load/scenario"
)

// play makes users carry out a scenario if a file of it, or of data for it, is given. With
// data alone the scenario is the one request, whose texts are templates.
func (q *Load) play(l *plan.Load, path string) (faults []error) {
	if q.scenario == "" && len(q.data) == 0 {
		return q.withoutScenario()
	}
	if l.Request.Follow {
		faults = append(faults, errors.New("--location: users of a scenario, and requests with rows of --data-file, follow no redirects; a step takes the address from the field Location with extract"))
	}
	s, request := &scenario.Spec{}, l.Request
	l.Request = plan.DefaultVariant(plan.HTTP).Load.Request
	if q.scenario != "" {
		read, err := planfile.ReadScenario(q.scenario)
		if err != nil {
			return append(faults, fmt.Errorf("--scenario: %w", err))
		}
		s = read
		// The flag's fields take the place of the file's.
		s.Headers = slices.DeleteFunc(s.Headers, func(h scenario.Header) bool { return hasHeader(request.Headers, h.Name) })
		s.Headers = append(s.Headers, request.Headers...)
		for _, flag := range []string{"method", "body", "form"} {
			if q.Given(flag) {
				faults = append(faults, fmt.Errorf("--%s: the steps of --scenario say what is sent", flag))
			}
		}
	} else {
		step := scenario.Step{Name: "request"}
		step.Method, step.Path, step.Headers, step.Body = request.Method, path, request.Headers, request.Body
		s.Steps = []scenario.Step{step}
	}
	faults = append(faults, q.complete(s, q.data)...)
	l.Scenario = s
	return faults
}

// withoutScenario reports the flags that are of no use without one.
func (q *Load) withoutScenario() (faults []error) {
	if q.Given("users") && !q.changesUsers() {
		faults = append(faults, errors.New("--users: without a scenario each connection is a user: say how many with --connections (-c), or what users do with --scenario"))
	}
	return faults
}

// complete gives a scenario its rows and users.
func (q *Load) complete(s *scenario.Spec, rows []string) (faults []error) {
	for _, file := range rows {
		s.Data = append(s.Data, plan.DefaultData(dataName(file, s.Data), file))
	}
	if q.Given("users") && !q.changesUsers() {
		text := strings.Join(q.users, ",")
		n, err := strconv.Atoi(text)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("--users: %q is neither a number nor stages such as 30s:100,5m:100", text))
		case n < 1: // which would be as many as there are by default
			faults = append(faults, fmt.Errorf("--users: %d is too little; from 1 to %d", n, plan.MaxUsers))
		}
		s.Users = n
	}
	return faults
}

// playMessages makes users carry out a scenario of gRPC calls or TCP messages, if a file of it
// is given. The steps say what is sent, rows included.
func (q *Load) playMessages(l *plan.Load) (faults []error) {
	if q.scenario == "" {
		if len(q.data) > 0 && l.Call == nil {
			faults = append(faults, errors.New("--data-file: rows stand in the messages of a scenario; give it with --scenario"))
		}
		return append(faults, q.withoutScenario()...)
	}
	s, err := planfile.ReadScenario(q.scenario)
	if err != nil {
		return append(faults, fmt.Errorf("--scenario: %w", err))
	}
	rows := q.data
	if c := l.Call; c != nil {
		rows, c.Data = q.calls.rows, nil
		if c.Method != "" {
			faults = append(faults, fmt.Errorf("%s: the steps of --scenario say what is called", c.Method))
		}
	}
	for _, flag := range []string{"data", "messages", "interval", "payload"} {
		if q.Given(flag) {
			faults = append(faults, fmt.Errorf("--%s: the steps of --scenario say what is sent", flag))
		}
	}
	faults = append(faults, q.complete(s, rows)...)
	l.Scenario = s
	return faults
}

func hasHeader(headers []scenario.Header, name string) bool {
	return slices.ContainsFunc(headers, func(h scenario.Header) bool { return strings.EqualFold(h.Name, name) })
}

// cutPath takes path and query off a URL, which may be a template.
func cutPath(url string) (target, path string) {
	scheme, rest, found := strings.Cut(url, "://")
	if !found {
		scheme, rest = "http", url
	}
	if at := strings.IndexAny(rest, "/?"); at >= 0 {
		if rest, path = rest[:at], rest[at:]; path[0] == '?' {
			path = "/" + path
		}
	}
	return scheme + "://" + rest, path
}

var notInWord = regexp.MustCompile(`[^0-9A-Za-z_]`)

// dataName makes a name for rows of a file that others do not have.
func dataName(file string, others []scenario.Data) string {
	base := filepath.Base(file)
	name := notInWord.ReplaceAllString(strings.TrimSuffix(base, filepath.Ext(base)), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(others, func(d scenario.Data) bool { return d.Name == name })
	}
	for n, plain := 2, name; taken(name); n++ {
		name = fmt.Sprintf("%s_%d", plain, n)
	}
	return name
}
