package imports

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"dyno/lab/plan"
)

// logLine is a line of an access log: its time, the request and the status.
var logLine = regexp.MustCompile(`^\S+ \S+ .*?\[([^\]]+)\] "((?:[^"\\]|\\.)*)" (\d{3})(?: |$)`)

// Bounds of what an access log becomes.
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
	bad          int // how often the status was 400 or more
	status       string
}

// readLog reads an access log: a mix of requests by their frequency, at the mean rate of the log.
func readLog(d *draft, src []byte) error {
	if d.base == "" {
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
		m := logLine.FindSubmatch(line)
		if m == nil {
			if unread++; unread <= maxShown {
				d.leave(number, string(line), "this is no line of a log in the combined format", "log_format combined is nginx's default")
			}
			continue
		}
		words := strings.Fields(string(m[2]))
		if len(words) < 2 || !strings.HasPrefix(words[1], "/") {
			if unread++; unread <= maxShown {
				d.leave(number, string(m[2]), "this is no request for a path", "")
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
		key := words[0] + " " + words[1]
		v := visits[key]
		if v == nil {
			if len(visits) == maxKinds {
				uncounted++
				continue
			}
			v = &visit{method: words[0], path: words[1], line: number}
			visits[key] = v
		}
		if v.count++; m[3][0] >= '4' {
			v.bad++
			v.status = string(m[3])
		}
	}
	if unread > maxShown {
		d.leave(number, fmt.Sprintf("%d more lines", unread-maxShown), "they are no requests for a path", "")
	}
	d.mix(visits, total, uncounted)
	l := d.load()
	if seconds := last.Sub(first).Seconds() + 1; !first.IsZero() && total > 1 { // times are those of whole seconds
		l.Open = plan.DefaultOpen()
		l.Open.Rate = max(math.Round(float64(total)/seconds*1000)/1000, 0.001)
		l.Open.Arrivals = plan.ArrivalsPoisson
		d.leave(0, "load", fmt.Sprintf("the log's mean rate, for 10 s: %d requests in %s", total, time.Duration(seconds*float64(time.Second))), "load.open.rate and load.window change that")
	}
	return nil
}

// mix adds the most frequent requests of a log with their weights.
func (d *draft) mix(visits map[string]*visit, total, uncounted int) {
	all := slices.SortedFunc(maps.Values(visits), func(a, b *visit) int {
		return cmp.Or(b.count-a.count, a.line-b.line)
	})
	kept, dropped := 0, uncounted
	for _, v := range all {
		if kept == maxPaths {
			dropped += v.count
			continue
		}
		step := d.add(request{line: v.line, method: v.method, url: v.path})
		if step == nil {
			continue
		}
		kept++
		if step.Weight = min(v.count, 1_000_000); v.bad*2 > v.count {
			step.Status = v.status // else the same answer would be a failure
		}
		if v.method != "GET" && v.method != "HEAD" {
			d.leave(v.line, v.method+" "+v.path, "a log does not have bodies and header fields: it is sent without", "give the step body and headers")
		}
	}
	if dropped > 0 {
		d.leave(0, fmt.Sprintf("%d requests of %d", dropped, total), fmt.Sprintf("only the %d most frequent ones are carried over", maxPaths), "a log of paths without their identifiers has fewer")
	}
}
