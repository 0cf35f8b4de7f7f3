package jmeter

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/encoding"

	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/load/scenario"
)

// JMeter's recorder writes requests into the plan. A listener below it writes samples, which have the responses, into a file.
// Samplers get what their samples say, and values of responses that later samplers send are found as in other recordings.

// A recorded request is a sampler of the plan, or a sample in the file.
type recorded struct {
	draft.Recorded
	label     string
	group     int // of threads
	matched   bool
	noContent bool // the content of the response is not known
}

// asXML says how JMeter writes files that have responses.
const asXML = "tick Save As XML, Save Response Data (XML) and Save Response Header (XML) of the listener, or set jmeter.save.saveservice.output_format=xml, response_data=true and response_headers=true"

// redirected is the comment on samplers that the recorder switches off. They are steps, since users follow no redirects.
const redirected = "Detected a redirect from the previous sample"

// correlate gives samplers what was recorded of their responses, and puts variables in the place of values that these gave.
func (j *reader) correlate(root *element, grouped bool) error {
	d := j.d
	samples, err := j.samples(root)
	if err != nil || len(samples) == 0 {
		return err
	}
	first := *j
	first.looks = true
	for _, tree := range root.children[0].children {
		first.tree(tree, scope{}, grouped, 0)
	}
	timed, keepsCookies := false, d.Source.NoCorrelate
	walk(root, func(e *element) {
		timed, keepsCookies = timed || strings.HasSuffix(e.name, "Timer"), keepsCookies || e.name == "CookieManager"
	})
	if !keepsCookies {
		d.Scenario.Cookies = true
		d.Leave(0, "cookies", "users keep them, and JMeter does not without an HTTP Cookie Manager", "")
	}
	j.match(first.samplers, samples)
	groups := map[int][]*draft.Recorded{}
	for _, s := range first.samplers {
		if timed {
			s.Began = time.Time{}
		}
		if !d.Source.NoStatic || !s.IsStatic() {
			groups[s.group] = append(groups[s.group], &s.Recorded)
		}
	}
	for n := 0; n <= first.groups && !d.Source.NoCorrelate; n++ {
		d.Correlate(groups[n])
	}
	return nil
}

// samples returns the samples in the file that the user names, or in that of a listener below a recorder.
func (j *reader) samples(root *element) (all []*recorded, err error) {
	d := j.d
	if name := d.Source.Recorded; name != "" {
		return j.parseSamples(name)
	}
	var recorder *element
	walk(root, func(tree *element) {
		for i, e := range tree.children {
			if e.name != "ProxyControl" || i+1 == len(tree.children) {
				continue
			}
			recorder = e
			for _, c := range tree.children[i+1].children {
				name := d.KnownHost(j.text(c.line, c.prop("filename")))
				if c.name != "ResultCollector" || name == "" || all != nil {
					continue
				}
				file, err := d.Find(name)
				if err != nil { // it may have been moved with the plan
					file, err = d.Find(path.Base(strings.ReplaceAll(name, `\`, "/")))
				}
				if err == nil {
					all, err = j.parseSamples(file)
				}
				if err != nil {
					d.LeaveFault(c.line, c.title(), err, "")
				}
			}
		}
	})
	if recorder != nil && all == nil {
		d.Leave(recorder.line, recorder.title(), "without its responses, values that they gave are sent as they were recorded", "--recorded FILE names the file of a listener below the recorder; "+asXML)
	}
	return all, nil
}

// parseSamples reads results in XML: of each group of threads, those of the first thread.
func (j *reader) parseSamples(name string) (all []*recorded, err error) {
	src, err := draft.ReadBounded(name, draft.MaxRecord)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(bytes.TrimSpace(src), []byte("<")) {
		return nil, errors.New(name + ": this is no XML, and files in CSV have no responses; " + asXML)
	}
	root, err := parseXML(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(root.children) == 0 || root.children[0].name != "testResults" {
		return nil, errors.New(name + ": this is no file of results, which begins with <testResults>")
	}
	threads := map[string]string{} // the first one, by group
	var add func(e *element)
	add = func(e *element) {
		isLeaf := e.name == "httpSample"
		for _, c := range e.children {
			if c.name != "httpSample" && c.name != "sample" {
				continue
			}
			if e.name != "httpSample" {
				add(c)
			} else if isLeaf { // the first is itself; others are redirects, or what a page embeds
				isLeaf, c.attrs["lb"] = false, e.attrs["lb"]
				add(c)
			}
		}
		thread := e.attrs["tn"]
		group := thread[:max(0, strings.LastIndexByte(thread, '-'))]
		if isLeaf && cmp.Or(threads[group], thread) == thread {
			threads[group], all = thread, append(all, j.sample(e))
		}
	}
	add(root.children[0])
	return all, nil
}

// sample returns the sample of an element.
func (j *reader) sample(e *element) *recorded {
	texts := map[string]string{}
	for _, c := range e.children {
		texts[c.name] = c.text
	}
	s := &recorded{label: e.attrs["lb"]}
	s.Method, s.URL = texts["method"], texts["java.net.URL"]
	s.AddHeader("Cookie", texts["cookies"])
	s.Status, _ = strconv.Atoi(e.attrs["rc"])           // else there is no response
	began, _ := strconv.ParseInt(e.attrs["ts"], 10, 64) // else there are no pauses
	took, _ := strconv.ParseInt(e.attrs["t"], 10, 32)
	s.Began, s.Took = time.UnixMilli(began), time.Duration(took)*time.Millisecond
	body, file := texts["responseData"], texts["responseFile"]
	if c := charsetOf(e.attrs["de"]); c != nil { // from which JMeter has decoded it
		body, _ = encoding.ReplaceUnsupported(c.NewEncoder()).String(body)
	}
	if strings.HasPrefix(body, "Non-TEXT response data, cannot record: (") {
		body = ""
	}
	if body == "" && file != "" {
		body, _ = j.d.ReadFile(file) // else it is missing
	}
	s.Response.Body, s.noContent = body, body == "" && s.Status != 204 && s.Status != 304
	for line := range strings.Lines(texts["responseHeader"]) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		s.Response.Header = append(s.Response.Header, scenario.Header{Name: name, Value: value})
		switch strings.ToLower(name) {
		case "content-type":
			s.Kind = value
		case "content-length":
			s.noContent = s.noContent && value != "0"
		}
	}
	return s
}

var pathInURL = lazyregexp.New(`^(?:\w+://[^/?#]*)?([^?#]*)`)

// keys are those by which samplers find their samples: with label, method and path, or else without one of them.
func (r *recorded) keys() [3]string {
	path := cmp.Or(pathInURL().FindStringSubmatch(r.URL)[1], "/")
	return [3]string{r.label + "\n" + r.Method + " " + path, r.Method + " " + path, r.label + "\n" + r.Method}
}

// match gives samplers their samples. Those that are alike are in the order of the plan.
func (j *reader) match(samplers, samples []*recorded) {
	queues := [3]map[string][]*recorded{{}, {}, {}}
	for _, s := range samples {
		for by, key := range s.keys() {
			queues[by][key] = append(queues[by][key], s)
		}
	}
	for by, queue := range queues {
		for _, r := range samplers {
			for key := r.keys()[by]; !r.matched && len(queue[key]) > 0; queue[key] = queue[key][1:] {
				if s := queue[key][0]; !s.matched {
					if j.d.Scenario.Cookies && !j.d.Source.NoCorrelate && !r.HasHeader("Cookie") {
						r.Headers = append(r.Headers, s.Headers...) // without those that the server has set, in the end
					}
					s.matched, r.matched, r.noContent, s.Request = true, true, s.noContent, r.Request
					r.Recorded = s.Recorded
				}
			}
		}
	}
	for _, r := range samplers {
		if !r.matched {
			j.d.Leave(r.Line, r.label, "the recording has no sample of it, by label, method and path", "")
		} else if r.noContent && !r.IsStatic() {
			j.d.Leave(r.Line, r.label, "the recording does not have the content of its response, or it is no text by its Content-Type", "tick Save Response Data (XML) of the listener")
		}
	}
}
