// Package wrk imports Lua scripts of wrk and wrk2. A script runs in a process of its own: request is called again and again,
// and what it returns becomes the requests of the experiment.
package wrk

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
	"dyno/load/pace"
	"dyno/load/scenario"
)

// Format is the format of scripts.
func Format() draft.Format {
	return draft.Format{Name: "wrk", About: "a script of wrk, in Lua", Most: draft.MaxText, Form: form, Read: read}
}

var form = lazyregexp.New(`(?m)^\s*(?:wrk\.(?:method|path|body|headers|scheme|host|port)\b|function\s+(?:request|response|init|setup|done|delay)\s*\(|(?:local\s+)?(?:request|response|init|setup|done|delay)\s*=\s*function\b)`)

// most is how many calls of request are made, unless what they return repeats.
const most = 1000

// taken matches what a script takes from a header field of the first response.
var taken = lazyregexp.New(takenBegin + "([^" + takenEnd + "]*)" + takenEnd)

// read carries out a script, and adds what it requests.
func read(d *draft.Draft, src []byte) error {
	path := "/"
	if scheme, rest, found := strings.Cut(d.Base, "://"); found {
		if host, rest, has := strings.Cut(rest, "/"); has {
			d.Base, path = scheme+"://"+host, "/"+rest // it is only what requests without a path ask for
		}
	}
	s, err := runScript(scriptTask{File: d.Source.File, AllowFiles: d.Source.AllowFiles, Path: path, Script: src})
	if err != nil {
		return err
	}
	d.HideEnvironment(s.Environment)
	for _, i := range s.Items {
		d.Leave(i.Line, i.What, i.Why, i.Hint)
	}
	if d.Base == "" {
		d.Base = cmp.Or(s.Base, "http://127.0.0.1:8080")
		d.Leave(0, "server", "the script does not name it: it is taken to be "+d.Base, "name it by --url")
	}
	calls := s.Calls
	names := map[string]bool{} // of header fields
	for _, m := range taken().FindAllStringSubmatch(strings.Join(calls[1:], ""), -1) {
		names[m[1]] = true
	}
	if len(names) > 0 {
		addOnce(d, calls[0], slices.Sorted(maps.Keys(names)))
		calls = calls[1:]
	}
	n := period(calls)
	if n == len(calls) && n > 1 {
		d.Leave(0, "request", fmt.Sprintf("it is called %d times, and what it has returned is sent in turn, again and again: counters and random values are those of the calls", n), "{{ counter() }} and {{ random_int(1, 100) }} in a step go on")
	}
	if err := add(d, calls[:n]); err != nil {
		return err
	}
	if s.Pause[1] > 0 {
		pause := pace.Think{Constant: milliseconds(s.Pause[0])}
		if s.Pause[0] < s.Pause[1] {
			pause = pace.Think{Uniform: &pace.Span{From: milliseconds(s.Pause[0]), To: milliseconds(s.Pause[1])}}
		}
		d.Scenario.EachStep(func(_ string, st *scenario.Step) { st.Think = pause })
	}
	const connections = 10
	d.Load().Closed, d.Load().Window = &plan.Closed{Connections: connections}, 10*time.Second
	d.Leave(0, "load", fmt.Sprintf("the script does not say how much is sent: %d connections for 10 s, as wrk has", connections), "load.closed.connections and load.window are what -c and -d are for wrk")
	return nil
}

func milliseconds(ms float64) time.Duration { return min(draft.InSeconds(ms/1000), draft.MaxThink) }

// period is the least number of calls after which all that follow are the same again; that of all if there is none.
func period(calls []string) int {
	for n := 1; n <= len(calls)/2; n++ {
		if slices.Equal(calls[n:], calls[:len(calls)-n]) {
			return n
		}
	}
	return len(calls)
}

// requests returns the requests of a call, which are several if the script pipelines them.
func requests(d *draft.Draft, text string) (all []draft.Request) {
	for in := bufio.NewReader(strings.NewReader(text)); ; {
		if _, err := in.Peek(1); err != nil {
			return all
		}
		r, err := http.ReadRequest(in)
		if err != nil {
			d.Leave(0, text, "this is no request of HTTP/1.1", "wrk.format makes one")
			return all
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			d.Leave(0, r.Method+" "+r.RequestURI, "its body is shorter than its Content-Length", "wrk.format sets the length")
			return all
		}
		one := draft.Request{Method: r.Method, URL: marked(d, r.RequestURI), Body: body, Exact: true}
		if r.Host != "" && r.Host != "localhost" && !strings.HasSuffix(d.Base, "://"+r.Host) {
			one.AddHeader("Host", r.Host)
		}
		delete(r.Header, "Content-Length") // which differs with the body
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			for _, value := range r.Header[name] {
				one.AddHeader(name, marked(d, value))
			}
		}
		all = append(all, one)
	}
}

// marked puts the draft's marks in the place of what is taken from a response.
func marked(d *draft.Draft, text string) string {
	return taken().ReplaceAllStringFunc(text, func(m string) string {
		return d.Mark(draft.VariableName(taken().FindStringSubmatch(m)[1]))
	})
}

// addOnce adds the first call, which each user sends once. Later ones use header fields of its response.
func addOnce(d *draft.Draft, call string, fields []string) {
	for _, r := range requests(d, call) {
		step := d.AddRequest(r)
		if step == nil {
			continue
		}
		step.Once = true
		for _, name := range fields {
			d.Extract(step, scenario.Extraction{Variable: draft.VariableName(name), Header: name})
		}
	}
}

// add adds what calls request, in turn: as steps, or as one whose path or body has rows of a file.
func add(d *draft.Draft, calls []string) error {
	var all []draft.Request
	for _, call := range calls {
		of := requests(d, call)
		if len(of) > 1 {
			d.Leave(0, "request", "it returns several requests at once, to be pipelined: they are sent one after the other", "load.streams has several at once with HTTP/2")
		}
		all = append(all, of...)
	}
	if len(all) == 0 {
		return errors.New("the script requests nothing")
	}
	if len(all) > manySteps && d.Source.Out != "" && alike(all) {
		return addRows(d, all)
	}
	if len(all) > scenario.MaxSteps-1 {
		d.Leave(0, "request", fmt.Sprintf("the first %d requests are sent", scenario.MaxSteps-1), "")
		all = all[:scenario.MaxSteps-1]
	}
	d.Scenario.InTurn = len(all) > 1
	for _, r := range all {
		d.AddRequest(r)
	}
	return nil
}

// manySteps is the number of requests from which they are rows of a file, if they have one form.
const manySteps = 20

// alike tells whether requests differ by their paths and bodies only.
func alike(all []draft.Request) bool {
	return !slices.ContainsFunc(all, func(r draft.Request) bool {
		return r.Method != all[0].Method || !slices.Equal(r.Headers, all[0].Headers) || draft.Varies(r.URL) ||
			!strings.HasPrefix(r.URL, "/") || (len(r.Body) > 0) != (len(all[0].Body) > 0) || !utf8.Valid(r.Body)
	})
}

// addRows adds requests as one step, with a file of their paths and bodies.
func addRows(d *draft.Draft, all []draft.Request) error {
	var rows bytes.Buffer
	for _, r := range all {
		row := map[string]string{"path": draft.ExactPath(r.URL[1:])}
		if len(r.Body) > 0 {
			row["body"] = string(r.Body)
		}
		line, err := json.Marshal(row)
		if err != nil {
			return err
		}
		rows.Write(append(line, '\n'))
	}
	one := all[0]
	one.Name, one.URL = "request", "/"+d.Mark("path")
	if len(one.Body) > 0 {
		d.Verbatim = true // the rows have whole bodies
		one.Body = []byte(d.Mark("body"))
	}
	d.Scenario.Data = []scenario.Data{plan.DefaultData("requests", d.AddFile(0, "requests.jsonl", rows.Bytes()))}
	d.AddRequest(one)
	return nil
}
