// Package locust imports locustfiles, by the syntax tree that Python makes of them.
package locust

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/cli/foreign"
	"dyno/cli/imports/draft"
	process "dyno/host/child"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/pace"
	"dyno/load/scenario"
)

// Format is the format of locustfiles.
func Format() draft.Format {
	return draft.Format{Name: "locust", About: "a locustfile, which needs python3", Most: draft.MaxText, Form: form, Read: read}
}

var form = lazyregexp.New(`(?m)^\s*(?:from\s+locust\S*\s+import|import\s+locust)\b`)

// limits bound the process in which Python reads a file.
var limits = process.Limits{Time: time.Minute, CPU: 10 * time.Second, Memory: 768 << 20, Output: 32 << 20}

//go:embed locust.py
var program string

// A locustfile is what locust.py prints.
type locustfile struct {
	Users       []user       `json:"users"`
	Shape       [][3]float64 `json:"shape"` // stages: the time, users, and how many begin or end a second
	Expressions []expression `json:"expressions"`
	Items       []struct {
		Line int    `json:"line"`
		What string `json:"what"`
		Why  string `json:"why"`
		Hint string `json:"hint"`
	} `json:"items"`
}

// An expression is what varies: an expression of a template, after "?" the name of a variable, or a token.
type expression struct {
	Text  string `json:"text"`
	Value string `json:"value"` // of a variable; empty: not known
	Token *struct {
		Algorithm string `json:"algorithm"`
		Key       string `json:"key"`
		Claims    string `json:"claims"` // JSON
	} `json:"token"`
}

type user struct {
	Fast   bool       `json:"fast"` // its client is FastHttpUser's
	Name   string     `json:"name"`
	Line   int        `json:"line"`
	Weight float64    `json:"weight"`
	Host   string     `json:"host"`
	Think  [2]float64 `json:"think"`
	Start  []step     `json:"start"`
	Tasks  []struct {
		Name   string  `json:"name"`
		Weight float64 `json:"weight"`
		Steps  []step  `json:"steps"`
	} `json:"tasks"`
}

// A step is a request or a pause.
type step struct {
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

// read reads a locustfile by the syntax tree that Python makes of it. The file does not run.
func read(d *draft.Draft, src []byte) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		return errors.New("a locustfile is read by Python's own parser: python3 (3.10 or later) must be installed")
	}
	cmd := exec.Command(python, "-I", "-c", program) //nolint:gosec // the program is part of dyno
	out, err := process.Ask(cmd, src, limits)
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
	var f locustfile
	if err := json.Unmarshal(out, &f); err != nil {
		return err
	}
	l := &reader{d, f.Expressions}
	for _, i := range f.Items {
		d.Leave(i.Line, mark().ReplaceAllString(i.What, "…"), i.Why, i.Hint)
	}
	d.Form = "formencode"
	d.Scenario.Cookies = true // as requests.Session keeps them
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
		d.Leave(0, "redirects", "locust follows them, and users of a scenario do not", "request the last address, or pass allow_redirects=False")
	}
	d.Leave(0, "header fields", "locust adds User-Agent, Accept and Accept-Encoding of its own accord, which are not sent", "headers of the scenario are sent with each step")
	if stages := shape(f.Shape); stages != nil {
		d.Load().Closed = &plan.Closed{}
		d.Load().SetStages(stages)
		return nil
	}
	const users = 10
	d.Load().Closed = &plan.Closed{Connections: users}
	d.Leave(0, "load", fmt.Sprintf("the file does not say how many users there are: %d for 10 s", users), "load.closed.connections and load.window are what --users and --run-time are for locust")
	return nil
}

// shape makes stages of a load's shape. Its times are ends since the beginning if they rise, and lengths otherwise.
func shape(of [][3]float64) (stages []plan.Stage) {
	ends := slices.IsSortedFunc(of, func(a, b [3]float64) int { return cmp.Compare(a[0], b[0]) }) && len(of) > 1
	from, began := 0.0, 0.0
	for _, s := range of {
		length, to := s[0], min(max(math.Round(s[1]), 0), plan.MaxUsers)
		if ends {
			length, began = s[0]-began, s[0]
		}
		if length <= 0 {
			continue
		}
		ramp := math.Abs(to-from) / max(s[2], 1e-6)
		if ramp >= length { // it ends before all have begun
			to = math.Round(from + (to-from)*length/ramp)
			ramp = length
		}
		for _, part := range []plan.Stage{{Duration: draft.InSeconds(ramp), From: from, To: to}, {Duration: draft.InSeconds(length - ramp), From: to, To: to}} {
			if part.Duration >= time.Millisecond {
				stages = append(stages, part)
			}
		}
		from = to
	}
	if !slices.ContainsFunc(stages, func(s plan.Stage) bool { return s.To > 0 }) {
		return nil
	}
	return stages
}

// single tells whether each task is one request, so that steps can be drawn as tasks are.
func (u *user) single() bool {
	for _, t := range u.Tasks {
		if len(t.Steps) != 1 || t.Steps[0].Pause != nil {
			return false
		}
	}
	return true
}

// A reader reads what locust.py has found.
type reader struct {
	d           *draft.Draft
	expressions []expression
}

// user adds the flows of a class of users: one, or one for each task.
func (l *reader) user(u *user, inFlows bool) {
	d := l.d
	flow := func(name string, weight float64) {
		if inFlows {
			d.AddFlow(name, weight)
		}
	}
	pause := func() {
		if u.Think[1] > 0 {
			addPause(d, u.Think)
		}
	}
	if u.single() {
		flow(u.Name, u.Weight)
		l.steps(u, u.Start, "", true)
		for _, t := range u.Tasks {
			before := len(d.Steps())
			l.steps(u, t.Steps, t.Name, false)
			if steps := d.Steps(); len(steps) > before {
				if pause(); len(u.Tasks) > 1 {
					steps[len(steps)-1].Weight = int(max(1, min(t.Weight, draft.MaxWeight)))
				}
			}
		}
		dropEmpty(d)
		return
	}
	if len(u.Tasks) > 1 {
		d.Leave(u.Line, "class "+u.Name, "each user keeps to one of the tasks, of which locust draws one each time; the mix of all users is the same", "")
	}
	for _, t := range u.Tasks {
		flow(u.Name+"."+t.Name, u.Weight*t.Weight)
		l.steps(u, u.Start, "", true)
		l.steps(u, t.Steps, t.Name, false)
		pause()
		dropEmpty(d)
	}
}

// dropEmpty removes the last flow if it repeats nothing.
func dropEmpty(d *draft.Draft) {
	if d.Flow == 0 {
		return
	}
	for _, s := range d.Steps() {
		if !s.Once {
			return
		}
	}
	d.DropFlow()
}

// mark matches marks of locust.py, which are numbers of expressions.
var mark = lazyregexp.New("\ue002(\\d+)\ue003")

// expression returns what a mark stands for.
func (l *reader) expression(number string) expression {
	if i, err := strconv.Atoi(number); err == nil && i < len(l.expressions) {
		return l.expressions[i]
	}
	return expression{Text: "?unknown"}
}

// text puts the draft's marks in the place of locust.py's.
func (l *reader) text(line int, text string) string {
	return mark().ReplaceAllStringFunc(text, func(m string) string {
		e := l.expression(mark().FindStringSubmatch(m)[1])
		if t := e.Token; t != nil { // its texts have marks of earlier expressions only
			return l.d.Token(t.Algorithm, l.text(line, t.Key), l.text(line, t.Claims))
		}
		if name, isVariable := strings.CutPrefix(e.Text, "?"); isVariable {
			return l.d.Variable(line, name, e.Value, "")
		}
		return l.d.Mark(e.Text)
	})
}

// body returns what a request has as its content.
func (l *reader) body(s *step) string {
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
func (l *reader) steps(u *user, steps []step, task string, once bool) {
	d := l.d
	for i := range steps {
		s := &steps[i]
		text := func(text string) string { return l.text(s.Line, text) }
		if s.Pause != nil {
			addPause(d, *s.Pause)
			continue
		}
		r := draft.Request{Line: s.Line, Name: cmp.Or(s.Name, task), Method: s.Method, URL: text(s.URL), Body: []byte(l.body(s))}
		if host := strings.TrimSuffix(u.Host, "/"); host != "" && !strings.Contains(r.URL, "://") && d.Source.URL == "" {
			r.URL = host + "/" + strings.TrimPrefix(r.URL, "/")
		}
		if r.URL == "" || !strings.Contains(r.URL, "://") && r.URL[0] != '/' {
			r.URL = "/" + r.URL
		}
		if d.Base == "" && r.URL[0] == '/' {
			d.Base = "http://127.0.0.1:8080"
			d.Leave(u.Line, "host", "the file does not name the server: it is taken to be "+d.Base, "name it by --url")
		}
		pairs := func(list [][2]string) (all []draft.Field) {
			for _, p := range list {
				all = append(all, draft.Field{Name: text(p[0]), Value: text(p[1])})
			}
			return all
		}
		for _, h := range pairs(s.Headers) {
			r.AddHeader(h.Name, h.Value)
		}
		r.URL = draft.WithQuery(r.URL, draft.EncodeForm(pairs(s.Query)))
		kind := ""
		switch {
		case s.IsForm:
			r.Body, kind = []byte(draft.EncodeForm(pairs(s.Form))), "application/x-www-form-urlencoded"
			if u.Fast {
				kind += "; charset=utf-8"
			}
		case s.IsJSON:
			if kind = "application/json"; u.Fast {
				r.DefaultHeader("Accept", kind)
			}
		}
		if kind != "" {
			r.DefaultHeader("Content-Type", kind)
		}
		if len(s.Auth) == 2 {
			r.SetHeader("Authorization", foreign.BasicAuth(text(s.Auth[0])+":"+text(s.Auth[1])))
		}
		if s.Insecure {
			d.TLS().Insecure = true
		}
		step := d.AddRequest(r)
		if step == nil {
			continue
		}
		step.Once, step.Status = once, s.Status
		for _, x := range s.Extract {
			d.Extract(step, scenario.Extraction{Variable: draft.VariableName(x.Variable), JSON: x.JSON, Header: x.Header})
		}
	}
}

// addPause adds a pause between two times.
func addPause(d *draft.Draft, seconds [2]float64) {
	from, to := draft.InSeconds(max(0, seconds[0])), draft.InSeconds(min(seconds[1], draft.MaxThink.Seconds()))
	if from >= to {
		d.AddPause(pace.Think{Constant: min(from, draft.MaxThink)})
		return
	}
	d.AddPause(pace.Think{Uniform: &pace.Span{From: from, To: to}})
}
