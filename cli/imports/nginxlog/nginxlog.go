// Package nginxlog imports access logs: a mix of requests by their frequency.
package nginxlog

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
)

// Format is the format of access logs.
func Format() draft.Format {
	return draft.Format{Name: "nginx-log", About: "an access log of nginx or Apache, in the combined or common format", Most: draft.MaxRecord, Form: form, Read: read}
}

var form = lazyregexp.New(`\A\S+ \S+ [^\n]*?\[[^\]\n]+\] "[A-Z]+ `)

// logLine is a line of an access log: its time, the request and the status.
var logLine = lazyregexp.New(`^\S+ \S+ .*?\[([^\]]+)\] "((?:[^"\\]|\\.)*)" (\d{3})(?: |$)`)

// Bounds of an access log's experiment.
const (
	maxPaths = 100     // different requests that are carried over
	maxShown = 20      // lines that are listed because they are no requests
	maxKinds = 200_000 // different requests that are counted
)

// A visit is a request of a log, however often it was there.
type visit struct {
	method, path string
	line         int // of the first
	count        int
	answered     int            // number of statuses that a client received
	bad          int            // how often that was 400 or more
	statuses     map[string]int // by how often there was each
}

// countStatus counts a status, if it says what a client was answered. Clients never see the statuses that
// nginx logs when they have left (499) or sent too slowly (408). Nor do they see 444, for which it ends
// the connection, and 494 to 497, for which it answers 400.
func (v *visit) countStatus(status string) {
	if status == "408" || status == "444" || status >= "494" && status <= "499" || status < "100" || status > "599" {
		return
	}
	if v.answered++; status >= "400" {
		v.bad++
	}
	if v.statuses == nil {
		v.statuses = map[string]int{}
	}
	v.statuses[status]++
}

// expected returns what statuses the step expects; empty: those below 400. Else the answers of the log would be failures.
func (v *visit) expected() string {
	if v.bad*2 <= v.answered {
		return ""
	}
	return strings.Join(slices.Sorted(maps.Keys(v.statuses)), ", ")
}

// logged returns the method and the target of a request as logs have it: the protocol follows, and
// blanks may stand in the target. Escaped characters are unescaped.
func logged(text string) (method, path string) {
	method, path, _ = strings.Cut(text, " ")
	if at := strings.LastIndex(path, " HTTP/"); at >= 0 {
		path = path[:at]
	}
	return method, escapedInLog().ReplaceAllStringFunc(path, func(escaped string) string {
		switch escaped[1] {
		case 'x':
			b, err := hex.DecodeString(escaped[2:])
			if err != nil {
				return escaped
			}
			return string(b)
		case 'n':
			return "\n"
		case 't':
			return "\t"
		case 'r':
			return "\r"
		}
		return escaped[1:]
	})
}

// escapedInLog is what stands in a log for a character: of nginx \x22, of Apache \" and the like, too.
var escapedInLog = lazyregexp.New(`\\(?:x[0-9A-Fa-f]{2}|[ntr"\\])`)

// read reads an access log: a mix of requests by their frequency, at the mean rate of the log.
func read(d *draft.Draft, src []byte) error {
	if d.Base == "" {
		return errors.New("an access log does not name the server; name it by --url, such as --url http://127.0.0.1:8080")
	}
	visits := map[string]*visit{}
	var first, last time.Time
	number, total, unread, uncounted := 0, 0, 0, 0
	for line := range bytes.Lines(src) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		m := logLine().FindSubmatch(line)
		if m == nil {
			if unread++; unread <= maxShown {
				d.Leave(number, string(line), "this is no line of a log in the combined format", "log_format combined is nginx's default")
			}
			continue
		}
		method, path := logged(string(m[2]))
		if !strings.HasPrefix(path, "/") {
			if unread++; unread <= maxShown {
				d.Leave(number, string(m[2]), "this is no request for a path", "")
			}
			continue
		}
		if at, err := time.Parse("02/Jan/2006:15:04:05 -0700", string(m[1])); err == nil {
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if at.After(last) {
				last = at
			}
		}
		total++
		key := method + " " + path
		v := visits[key]
		if v == nil {
			if len(visits) == maxKinds {
				uncounted++
				continue
			}
			v = &visit{method: method, path: path, line: number}
			visits[key] = v
		}
		v.count++
		v.countStatus(string(m[3]))
	}
	if unread > maxShown {
		d.Leave(number, fmt.Sprintf("%d more lines", unread-maxShown), "they are no requests for a path", "")
	}
	addMix(d, visits, total, uncounted)
	d.Leave(0, "header fields", "a log does not have those like Authorization, Cookie and Accept: requests are sent without", "load.scenario.headers gives all steps the same ones")
	l := d.Load()
	if seconds := last.Sub(first).Seconds() + 1; !first.IsZero() && total > 1 { // times are whole seconds
		l.Open = plan.DefaultOpen()
		l.Open.Rate = max(math.Round(float64(total)/seconds*1000)/1000, 0.001)
		l.Open.Arrivals = plan.ArrivalsPoisson
		d.Leave(0, "load", fmt.Sprintf("the log's mean rate, for 10 s: %d requests in %s", total, time.Duration(seconds*float64(time.Second))), "load.open.rate and load.window change that")
	}
	return nil
}

// addMix adds the most frequent requests of a log with their weights.
func addMix(d *draft.Draft, visits map[string]*visit, total, uncounted int) {
	all := slices.SortedFunc(maps.Values(visits), func(a, b *visit) int {
		return cmp.Or(b.count-a.count, a.line-b.line)
	})
	kept, dropped := 0, uncounted
	for _, v := range all {
		if kept == maxPaths {
			dropped += v.count
			continue
		}
		path := draft.EncodePath(v.path, "%%%02X", func(c byte) bool { return c <= ' ' || c >= 0x7f || c == '#' })
		if path != v.path {
			d.Leave(v.line, v.method+" "+v.path, "characters that cannot stand in a request are sent percent-encoded", "")
		}
		step := d.AddRequest(draft.Request{Line: v.line, Method: v.method, URL: path, Exact: true})
		if step == nil {
			continue
		}
		kept++
		step.Weight, step.Status = min(v.count, draft.MaxWeight), v.expected()
		if v.method != "GET" && v.method != "HEAD" {
			d.Leave(v.line, v.method+" "+v.path, "a log does not have bodies and header fields: it is sent without", "give the step body and headers")
		}
	}
	if dropped > 0 {
		d.Leave(0, fmt.Sprintf("%d requests of %d", dropped, total), fmt.Sprintf("only the %d most frequent ones are carried over", maxPaths), "a log of paths without their identifiers has fewer")
	}
}
