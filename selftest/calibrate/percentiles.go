package calibrate

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"dyno/internal/units"
	"dyno/selftest/oracle"
)

// Percentiles are response times as a tool reports them, in seconds. A percentile that it
// does not report is nil.
type Percentiles struct{ P50, P95, P99, P999 *float64 }

// at returns the place of a percentile by its number, such as 99.9; nil for one
// that is not of interest.
func (p *Percentiles) at(percent float64) **float64 {
	switch percent {
	case 50:
		return &p.P50
	case 95:
		return &p.P95
	case 99:
		return &p.P99
	case 99.9:
		return &p.P999
	}
	return nil
}

// set keeps a percentile given in a unit of so many seconds.
func (p *Percentiles) set(percent, value, unit float64) {
	if at := p.at(percent); at != nil && value >= 0 {
		*at = pointer(value * unit)
	}
}

var errNoPercentiles = errors.New("no percentiles in its output")

func (p Percentiles) known() (Percentiles, error) {
	if p == (Percentiles{}) {
		return p, errNoPercentiles
	}
	return p, nil
}

// readings compares percentiles with the times of requests that come evenly.
func (p Percentiles) readings(title string) []Reading {
	var readings []Reading
	for _, f := range append([]percentile{{"p50", 0.5, time.Millisecond, 0}}, stall()...) {
		got := *p.at(100 * f.q)
		if got == nil {
			continue
		}
		expected := oracle.FreezeQuantile(f.q, hold, period).Seconds()
		readings = append(readings, Reading{
			Oracle: title, Quantity: "response " + f.name, Unit: Seconds,
			Expected: &expected, Measured: *got, Limit: f.limit(expected),
		})
	}
	return readings
}

// unit returns how many seconds a unit of time has, as tools write it.
func unit(name string) (float64, bool) {
	if name == "sec" || name == "secs" {
		name = "s"
	}
	u, ok := units.Named(name)
	return u.Of(1), ok && u.Dimension == units.Duration
}

// eachMatch calls take with the groups of each match that are a percentile and a
// time in a unit.
func (p *Percentiles) eachMatch(r *regexp.Regexp, text []byte) {
	for _, m := range r.FindAllSubmatch(text, -1) {
		percent, err1 := strconv.ParseFloat(string(m[1]), 64)
		value, err2 := strconv.ParseFloat(string(m[2]), 64)
		scale, ok := unit(string(m[3]))
		if err1 == nil && err2 == nil && ok {
			p.set(percent, value, scale)
		}
	}
}

// parseWrk reads the output of our script for wrk and wrk2.
func parseWrk(out []byte) (p Percentiles, err error) {
	p.eachMatch(regexp.MustCompile(`(?m)^percentile ([0-9.]+) ([0-9]+) (us)$`), out)
	return p.known()
}

// parseDistribution reads hey's and oha's "Response time distribution".
func parseDistribution(out []byte) (p Percentiles, err error) {
	p.eachMatch(regexp.MustCompile(`(?m)^\s*([0-9.]+)%+ in ([0-9.]+) (ns|us|µs|ms|secs?|s)\s*$`), out)
	return p.known()
}

// parseK6 reads the request durations in k6's summary, such as
//
//	http_req_duration..............: p(50)=85.2µs p(95)=53.9ms p(99)=93ms p(99.9)=1.03s
func parseK6(out []byte) (p Percentiles, err error) {
	line := regexp.MustCompile(`(?m)^\s*http_req_duration\.*:(.*)$`).FindSubmatch(out)
	if line == nil {
		return p, errNoPercentiles
	}
	for _, m := range regexp.MustCompile(`p\(([0-9.]+)\)=(\S+)`).FindAllSubmatch(line[1], -1) {
		percent, err1 := strconv.ParseFloat(string(m[1]), 64)
		d, err2 := time.ParseDuration(string(m[2]))
		if err1 == nil && err2 == nil {
			p.set(percent, d.Seconds(), 1)
		}
	}
	return p.known()
}

// parseAB reads the file of ab -e: a percentage and milliseconds a line.
func parseAB(out []byte) (p Percentiles, err error) {
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil {
		return p, err
	}
	for _, row := range rows {
		if len(row) != 2 {
			continue
		}
		percent, err1 := strconv.ParseFloat(row[0], 64)
		value, err2 := strconv.ParseFloat(row[1], 64)
		if err1 == nil && err2 == nil { // the first row is a heading
			p.set(percent, value, 1e-3)
		}
	}
	return p.known()
}

// parseH2load reads h2load's log: the start, the status and the microseconds of
// each request, by tabs.
func parseH2load(out []byte) (p Percentiles, err error) {
	var ns []int64
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		us, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil || us < 0 {
			return p, fmt.Errorf("log: %q: want the microseconds of a request", f[2])
		}
		if f[1] == "200" {
			ns = append(ns, us*1000)
		}
	}
	if len(ns) == 0 {
		return p, errNoPercentiles
	}
	all := sorted(ns)
	for _, percent := range []float64{50, 95, 99, 99.9} {
		p.set(percent, all.quantile(percent/100), 1)
	}
	return p, nil
}

// parseVegeta reads vegeta report -type=json. It knows no p99.9.
func parseVegeta(out []byte) (p Percentiles, err error) {
	var report struct {
		Latencies map[string]float64 `json:"latencies"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return p, err
	}
	for name, percent := range map[string]float64{"50th": 50, "95th": 95, "99th": 99} {
		if ns, ok := report.Latencies[name]; ok {
			p.set(percent, ns, 1e-9)
		}
	}
	return p.known()
}

// versionIn finds a version in a tool's greeting: digits and dots.
func versionIn(text string) string {
	return string(regexp.MustCompile(`\d+\.\d+(\.\d+)*`).Find([]byte(text)))
}
