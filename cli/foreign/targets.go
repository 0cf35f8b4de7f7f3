package foreign

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"dyno/lab/plan"
	"dyno/load/scenario"
	"dyno/load/scenario/template"
	"dyno/load/wire/http1"
)

// A Target is one of --targets.
type Target struct {
	Method, Path string
	Headers      []scenario.Header
	Body         string
}

// A targetReader reads requests as vegeta has them.
type targetReader struct {
	base string // the URL whose host all requests go to; empty: that of the first one
	read func(file string) (string, error)
	// leave gets what is left out; nil: nothing is, and the first fault ends the reading.
	leave func(line int, what string, err error)

	requests []Target
	lines    []int             // in which they begin
	at       int               // the line
	bodies   map[string]string // files that were read
}

// ReadTargets reads a list of requests, and returns the URL of the host that all go to. Errors
// name the line.
func ReadTargets(name, src, base string, read func(string) (string, error)) (requests []Target, url string, err error) {
	t := targetReader{base: base, read: read}
	err = t.readAll(name, src)
	return t.requests, t.base, err
}

// ReadSoundTargets is ReadTargets for callers that want only the requests that can be sent. It also returns the lines
// in which they begin. leave gets the other requests, and header fields that are left out.
func ReadSoundTargets(name, src, base string, read func(string) (string, error), leave func(line int, what string, err error)) (requests []Target, lines []int, url string, err error) {
	t := targetReader{base: base, read: read, leave: leave}
	err = t.readAll(name, src)
	return t.requests, t.lines, t.base, err
}

func (t *targetReader) readAll(name, src string) error {
	t.bodies = map[string]string{}
	if err := t.readLines(src); err != nil {
		return fmt.Errorf("%s:%d: %w", name, t.at, err)
	}
	if len(t.requests) == 0 {
		return fmt.Errorf("%s: there is no request; want lines such as GET http://127.0.0.1:8080/path", name)
	}
	return nil
}

func (t *targetReader) readLines(src string) error {
	open := false // what follows belongs to the last request
	lost := false // it belongs to one that is left out
	for line := range strings.Lines(src) {
		t.at++
		line = strings.TrimSpace(line)
		var err error
		method, rest := line, ""
		if at := strings.IndexAny(line, " \t"); at >= 0 {
			method, rest = line[:at], strings.TrimSpace(line[at:])
		}
		switch {
		case line == "":
			open, lost = false, false
		case line[0] == '#', lost:
		case line[0] == '{':
			err, open = t.request(func() error { return t.object(line) }), false
		case isMethod(method) && rest != "":
			err, open = t.request(func() error { return t.add(method, rest) }), true
			lost = err != nil
		case !open:
			err = errors.New("no request begins here; want a method and a URL, such as GET http://127.0.0.1:8080/path, or an object in JSON")
		case line[0] == '@':
			if err, open = t.addFile(strings.TrimSpace(line[1:])), false; err != nil && t.leave != nil {
				last := len(t.requests) - 1
				t.requests, t.lines = t.requests[:last], t.lines[:last] // another body would be sent
			}
		default:
			name, value, found := strings.Cut(line, ":")
			if !found {
				err = errors.New("the line has no colon; want 'Name: value', @FILE for a body, or a method and a URL")
			} else {
				err = t.addHeader(name, strings.TrimSpace(value))
			}
		}
		switch {
		case err == nil:
		case t.leave == nil:
			return err
		default:
			t.leave(t.at, line, err)
		}
	}
	return nil
}

// request adds a request, or nothing of it if it has a fault.
func (t *targetReader) request(add func() error) error {
	before := len(t.requests)
	err := add()
	if err != nil {
		t.requests, t.lines = t.requests[:before], t.lines[:before]
	}
	return err
}

// isMethod tells whether a word is a method and no header field's name.
func isMethod(word string) bool {
	return word != "" && strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// add adds a request. It may name only a path where the host is known.
func (t *targetReader) add(method, url string) error {
	if len(t.requests) == scenario.MaxSteps {
		return fmt.Errorf("more than %d requests; any number of paths can be rows of --data-file: 'http://host/{{path}}'", scenario.MaxSteps)
	}
	if !scenario.IsToken(method) {
		return errors.New("the method is missing, or no word; want such as GET")
	}
	host, user, hasUser := plan.CutUser(url)
	if strings.HasPrefix(url, "/") {
		if t.base == "" {
			return errors.New("a path without a host; write GET http://host/path, or give dyno the URL, too")
		}
		host = "http://localhost" + url // for its path
	}
	end, err := http1.ParseURL(host)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(url, "/") {
		switch base, err := http1.ParseURL(t.base); {
		case t.base == "":
			scheme, rest, _ := strings.Cut(host, "://")
			if at := strings.IndexAny(rest, "/?#"); at >= 0 {
				rest = rest[:at]
			}
			t.base = scheme + "://" + rest
		case err != nil || base.Secure != end.Secure || base.Address != end.Address:
			return fmt.Errorf("%q is on another host than %s; all requests of a run go to one: load the others by themselves, or name the hosts of one server in Host headers", host, t.base)
		}
	}
	t.requests = append(t.requests, Target{Method: method, Path: end.Target})
	t.lines = append(t.lines, t.at)
	if hasUser {
		return t.addHeader("Authorization", UserInURL(user))
	}
	return nil
}

// addHeader adds a header field to the last request.
func (t *targetReader) addHeader(name, value string) error {
	switch {
	case !scenario.IsToken(name):
		return errors.New("the header field's name is no word; want 'Name: value'")
	case strings.EqualFold(name, "Content-Length") || strings.EqualFold(name, "Transfer-Encoding"):
		return fmt.Errorf("dyno sets %s itself, from the body; remove it", name)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return fmt.Errorf("the value of %s holds a control character", name)
	}
	last := &t.requests[len(t.requests)-1]
	last.Headers = append(last.Headers, scenario.Header{Name: name, Value: value})
	return nil
}

// addFile gives the last request a file as its body.
func (t *targetReader) addFile(name string) (err error) {
	body, known := t.bodies[name]
	if !known {
		if body, err = t.read(name); err != nil {
			return err
		}
		t.bodies[name] = body
	}
	return t.addBody(body)
}

func (t *targetReader) addBody(body string) error {
	if len(body) > template.MaxText {
		return fmt.Errorf("the body has %d bytes; want at most %d", len(body), template.MaxText)
	}
	t.requests[len(t.requests)-1].Body = body
	return nil
}

// object adds the request that a line of JSON says.
func (t *targetReader) object(line string) error {
	var o struct {
		Method string              `json:"method"`
		URL    string              `json:"url"`
		Body   []byte              `json:"body"`
		Header map[string][]string `json:"header"`
	}
	d := json.NewDecoder(strings.NewReader(line))
	if t.leave == nil { // else a name is wrong that vegeta does not look at
		d.DisallowUnknownFields()
	}
	if err := d.Decode(&o); err != nil || d.More() {
		return errors.New(`this is no request in JSON; want {"method": "GET", "url": "http://…", "header": {"Name": ["value"]}, "body": "in base64"} on one line`)
	}
	if err := t.add(o.Method, o.URL); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(o.Header)) {
		for _, value := range o.Header[name] {
			if err := t.addHeader(name, value); err != nil {
				return err
			}
		}
	}
	return t.addBody(string(o.Body))
}

// notInName is what the name of a step does not hold.
var notInName = regexp.MustCompile(`[^0-9A-Za-z._+-]`)

// Name is what the request's figures are called: without the query, which may hold credentials.
func (r *Target) Name(number int) string {
	const longest = 100
	path, _, _ := strings.Cut(r.Path, "?")
	name := notInName.ReplaceAllString(fmt.Sprintf("%d-%s%s", number, r.Method, path), "-")
	return strings.TrimRight(name[:min(longest, len(name))], "-")
}
