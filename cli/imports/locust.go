package imports

import (
	"cmp"
	_ "embed" // locust.py
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/cli/foreign"
	process "dyno/host/child"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/pace"
	"dyno/load/scenario"
)

// locustLimits bound the process in which Python reads a file.
var locustLimits = process.Limits{Time: time.Minute, CPU: 10 * time.Second, Memory: 768 << 20, Output: 32 << 20}

//go:embed locust.py
var locustSource string

// A locustFile is what locust.py prints.
type locustFile struct {
	Users       []locustUser       `json:"users"`
	Expressions []locustExpression `json:"expressions"`
	Items       []struct {
		Line int    `json:"line"`
		What string `json:"what"`
		Why  string `json:"why"`
		Hint string `json:"hint"`
	} `json:"items"`
}

// A locustExpression is what varies: an expression of a template, or after "?" the name of a variable.
type locustExpression struct {
	Text string `json:"text"`
}

type locustUser struct {
	Fast   bool         `json:"fast"` // its client is FastHttpUser's
	Name   string       `json:"name"`
	Line   int          `json:"line"`
	Weight float64      `json:"weight"`
	Host   string       `json:"host"`
	Think  [2]float64   `json:"think"`
	Start  []locustStep `json:"start"`
	Tasks  []struct {
		Name   string       `json:"name"`
		Weight float64      `json:"weight"`
		Steps  []locustStep `json:"steps"`
	} `json:"tasks"`
}

// A locustStep is a request or a pause.
type locustStep struct {
	Line     int         `json:"line"`
	Pause    *[2]float64 `json:"pause"`
	Method   string      `json:"method"`
	URL      string      `json:"url"`
	Name     string      `json:"name"`
	Headers  [][2]string `json:"headers"`
	Query    [][2]string `json:"query"`
	Form     [][2]string `json:"form"`
	Body     string      `json:"body"`
	IsForm   bool        `json:"isForm"`
	IsJSON   bool        `json:"isJSON"`
	IsBytes  bool        `json:"isBytes"` // each character of the body is a byte
	Auth     []string    `json:"auth"`
	Follows  *bool       `json:"follows"`
	Insecure bool        `json:"insecure"`
	Status   string      `json:"status"`
	Extract  []struct {
		Variable string `json:"variable"`
		JSON     string `json:"json"`
		Header   string `json:"header"`
	} `json:"extract"`
}

// readLocust reads a locustfile by the syntax tree that Python makes of it. The file does not run.
func readLocust(d *draft, src []byte) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		return errors.New("a locustfile is read by Python's own parser: python3 (3.10 or later) must be installed")
	}
	cmd := exec.Command(python, "-I", "-c", locustSource) //nolint:gosec // the program is part of dyno
	out, err := process.Ask(cmd, src, locustLimits)
	limit, failed := (*process.LimitError)(nil), (*process.FailedError)(nil)
	switch {
	case errors.As(err, &limit):
		return fmt.Errorf("python3 needs %w to read it", err)
	case errors.As(err, &failed):
		lines := strings.Split(strings.TrimSpace(failed.Says), "\n")
		return fmt.Errorf("python3 cannot read it: %s", cmp.Or(lines[len(lines)-1], err.Error()))
	case err != nil:
		return err
	}
	var f locustFile
	if err := json.Unmarshal(out, &f); err != nil {
		return err
	}
	l := &locust{d, f.Expressions}
	for _, i := range f.Items {
		d.leave(i.Line, locustMark().ReplaceAllString(i.What, "…"), i.Why, i.Hint)
	}
	d.form = "formencode"
	d.scenario.Cookies = true // as requests.Session keeps them
	flows := len(f.Users)
	for _, u := range f.Users {
		if !u.single() {
			flows += len(u.Tasks)
		}
	}
	follows := false
	for i := range f.Users {
		l.user(&f.Users[i], flows > 1)
		for _, t := range f.Users[i].Tasks {
			for _, s := range t.Steps {
				follows = follows || s.Pause == nil && s.Follows == nil
			}
		}
	}
	if follows {
		d.leave(0, "redirects", "locust follows them, and users of a scenario do not", "request the last address, or pass allow_redirects=False")
	}
	d.leave(0, "header fields", "locust adds User-Agent, Accept and Accept-Encoding of its own accord, which are not sent", "headers of the scenario are sent with each step")
	const users = 10
	d.load().Closed = &plan.Closed{Connections: users}
	d.leave(0, "load", fmt.Sprintf("the file does not say how many users there are: %d for 10 s", users), "load.closed.connections and load.window are what --users and --run-time are for locust")
	return nil
}

// single tells whether each task is one request, so that steps can be drawn as tasks are.
func (u *locustUser) single() bool {
	for _, t := range u.Tasks {
		if len(t.Steps) != 1 || t.Steps[0].Pause != nil {
			return false
		}
	}
	return true
}

// A locust reads what locust.py has found.
type locust struct {
	d           *draft
	expressions []locustExpression
}

// user adds the flows of a class of users: one, or one for each task.
func (l *locust) user(u *locustUser, inFlows bool) {
	d := l.d
	flow := func(name string, weight float64) {
		if inFlows {
			d.scenario.Flows = append(d.scenario.Flows, scenario.Flow{Name: strings.Trim(notInName().ReplaceAllString(name, "-"), "-."), Weight: int(max(1, min(weight, 1_000_000)))})
			d.flow = len(d.scenario.Flows)
		}
	}
	pause := func() {
		if u.Think[1] > 0 {
			d.locustPause(u.Think)
		}
	}
	if u.single() {
		flow(u.Name, u.Weight)
		l.steps(u, u.Start, "", true)
		for _, t := range u.Tasks {
			before := len(d.steps())
			l.steps(u, t.Steps, t.Name, false)
			if steps := d.steps(); len(steps) > before {
				if pause(); len(u.Tasks) > 1 {
					steps[len(steps)-1].Weight = int(max(1, min(t.Weight, 1_000_000)))
				}
			}
		}
		d.dropEmpty()
		return
	}
	if len(u.Tasks) > 1 {
		d.leave(u.Line, "class "+u.Name, "each user keeps to one of the tasks, of which locust draws one each time; the mix of all users is the same", "")
	}
	for _, t := range u.Tasks {
		flow(u.Name+"."+t.Name, u.Weight*t.Weight)
		l.steps(u, u.Start, "", true)
		l.steps(u, t.Steps, t.Name, false)
		pause()
		d.dropEmpty()
	}
}

// dropEmpty removes the last flow if it repeats nothing.
func (d *draft) dropEmpty() {
	if d.flow == 0 {
		return
	}
	for _, s := range d.steps() {
		if !s.Once {
			return
		}
	}
	d.scenario.Flows = d.scenario.Flows[:d.flow-1]
	d.flow = len(d.scenario.Flows)
}

// locustMark matches marks of locust.py, which are numbers of expressions.
var locustMark = lazyregexp.New("\ue002(\\d+)\ue003")

// expression returns what a mark stands for.
func (l *locust) expression(number string) locustExpression {
	if i, err := strconv.Atoi(number); err == nil && i < len(l.expressions) {
		return l.expressions[i]
	}
	return locustExpression{Text: "?unknown"}
}

// text puts the draft's marks in the place of locust.py's.
func (l *locust) text(line int, text string) string {
	return locustMark().ReplaceAllStringFunc(text, func(m string) string {
		expression := l.expression(locustMark().FindStringSubmatch(m)[1]).Text
		if name, isUnknown := strings.CutPrefix(expression, "?"); isUnknown {
			return l.d.variable(line, name, "", "")
		}
		return l.d.mark(expression)
	})
}

// body returns what a request has as its content.
func (l *locust) body(s *locustStep) string {
	body := s.Body
	if s.IsBytes {
		var b strings.Builder
		for _, r := range body {
			if r > 0xff {
				b.WriteRune(r)
			} else {
				b.WriteByte(byte(r))
			}
		}
		body = b.String()
	}
	return l.text(s.Line, body)
}

// steps adds requests and pauses.
func (l *locust) steps(u *locustUser, steps []locustStep, task string, once bool) {
	d := l.d
	for i := range steps {
		s := &steps[i]
		text := func(text string) string { return l.text(s.Line, text) }
		if s.Pause != nil {
			d.locustPause(*s.Pause)
			continue
		}
		r := request{line: s.Line, name: cmp.Or(s.Name, task), method: s.Method, url: text(s.URL), body: []byte(l.body(s))}
		if host := strings.TrimSuffix(u.Host, "/"); host != "" && !strings.Contains(r.url, "://") && d.source.URL == "" {
			r.url = host + "/" + strings.TrimPrefix(r.url, "/")
		}
		if r.url == "" || !strings.Contains(r.url, "://") && r.url[0] != '/' {
			r.url = "/" + r.url
		}
		if d.base == "" && r.url[0] == '/' {
			d.base = "http://127.0.0.1:8080"
			d.leave(u.Line, "host", "the file does not name the server: it is taken to be "+d.base, "name it by --url")
		}
		pairs := func(list [][2]string) (all []field) {
			for _, p := range list {
				all = append(all, field{text(p[0]), text(p[1])})
			}
			return all
		}
		for _, h := range pairs(s.Headers) {
			r.headers = append(r.headers, scenario.Header{Name: h.Name, Value: h.Value})
		}
		if len(s.Query) > 0 {
			separator := "?"
			if strings.Contains(r.url, "?") {
				separator = "&"
			}
			r.url += separator + encodeForm(pairs(s.Query))
		}
		kind := ""
		switch {
		case s.IsForm:
			r.body, kind = []byte(encodeForm(pairs(s.Form))), "application/x-www-form-urlencoded"
			if u.Fast {
				kind += "; charset=utf-8"
			}
		case s.IsJSON:
			if kind = "application/json"; u.Fast && !hasHeader(r.headers, "Accept") {
				r.headers = append(r.headers, scenario.Header{Name: "Accept", Value: kind})
			}
		}
		if kind != "" && !hasHeader(r.headers, "Content-Type") {
			r.headers = append(r.headers, scenario.Header{Name: "Content-Type", Value: kind})
		}
		if len(s.Auth) == 2 {
			r.headers = slices.DeleteFunc(r.headers, func(h scenario.Header) bool { return strings.EqualFold(h.Name, "Authorization") })
			r.headers = append(r.headers, foreign.BasicAuth(text(s.Auth[0])+":"+text(s.Auth[1])))
		}
		if s.Insecure {
			d.tls().Insecure = true
		}
		step := d.add(r)
		if step == nil {
			continue
		}
		step.Once, step.Status = once, s.Status
		for _, x := range s.Extract {
			d.extract(step, scenario.Extraction{Variable: variableName(x.Variable), JSON: x.JSON, Header: x.Header})
		}
	}
}

// locustPause adds a pause between two times.
func (d *draft) locustPause(seconds [2]float64) {
	from, to := inSeconds(max(0, seconds[0])), inSeconds(min(seconds[1], maxThink.Seconds()))
	if from >= to {
		d.think(pace.Think{Constant: min(from, maxThink)})
		return
	}
	d.think(pace.Think{Uniform: &pace.Span{From: from, To: to}})
}
