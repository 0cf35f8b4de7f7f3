package export

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// vegeta is what vegeta report -type=json writes. Times are in ns.
type vegeta struct {
	Latencies   map[string]time.Duration `json:"latencies"`
	BytesIn     *vegetaBytes             `json:"bytes_in,omitempty"`
	Earliest    time.Time                `json:"earliest"`
	End         time.Time                `json:"end"`
	Duration    time.Duration            `json:"duration"`
	Wait        time.Duration            `json:"wait"`
	Requests    int64                    `json:"requests"`
	Rate        float64                  `json:"rate"`
	Throughput  float64                  `json:"throughput"`
	Success     float64                  `json:"success"`
	StatusCodes map[string]int64         `json:"status_codes"`
	Errors      []string                 `json:"errors"`
}

type vegetaBytes struct {
	Total int64   `json:"total"`
	Mean  float64 `json:"mean"`
}

func vegetaOf(l *load) *vegeta {
	v := &vegeta{
		Earliest: l.started, End: l.started.Add(duration(l.seconds + l.wait)), Duration: duration(l.seconds), Wait: duration(l.wait),
		Requests: l.Counts.Due(), Rate: over(float64(l.Counts.Due()), l.seconds), Throughput: l.perSecond(), Success: l.ratio(l.Counts.Answered()),
		StatusCodes: l.statuses(), Errors: []string{},
	}
	h := l.times
	v.Latencies = map[string]time.Duration{"min": time.Duration(h.Min()), "mean": time.Duration(h.Mean()), "max": time.Duration(h.Max())}
	for name, q := range map[string]float64{"50th": 0.5, "90th": 0.9, "95th": 0.95, "99th": 0.99} {
		v.Latencies[name] = time.Duration(h.Quantile(q))
	}
	if total, mean, known := l.received(); known {
		v.BytesIn = &vegetaBytes{total, mean}
	}
	// The rest has no status. The statuses of requests that were carried into the window are not kept.
	without := v.Requests - l.Counts.Carried.OK
	for _, code := range slices.Sorted(maps.Keys(v.StatusCodes)) {
		without -= v.StatusCodes[code]
		if n, err := strconv.Atoi(code); err == nil && n >= 400 && l.Counts.ByKind["status"] > 0 {
			v.Errors = append(v.Errors, code+" "+http.StatusText(n))
		}
	}
	if without > 0 {
		v.StatusCodes["0"] = without
	}
	v.Errors = append(v.Errors, slices.Sorted(maps.Keys(l.failures()))...)
	return v
}

func vegetaJSON(w io.Writer, l *load) error { return writeJSON(w, vegetaOf(l)) }

// vegetaText writes what vegeta report prints, but for the rows that it has no figures for.
func vegetaText(w io.Writer, l *load) error {
	v := vegetaOf(l)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.StripEscape)
	row := func(format string, values ...any) { _, _ = fmt.Fprintf(t, format+"\n", values...) } // Flush returns the error
	row("Requests\t[total, rate, throughput]\t%d, %.2f, %.2f", v.Requests, v.Rate, v.Throughput)
	row("Duration\t[total, attack, wait]\t%s, %s, %s", v.Duration+v.Wait, v.Duration, v.Wait)
	x := v.Latencies
	row("Latencies\t[min, mean, 50, 90, 95, 99, max]\t%s, %s, %s, %s, %s, %s, %s", x["min"], x["mean"], x["50th"], x["90th"], x["95th"], x["99th"], x["max"])
	if v.BytesIn != nil {
		row("Bytes In\t[total, mean]\t%d, %.2f", v.BytesIn.Total, v.BytesIn.Mean)
	}
	row("Success\t[ratio]\t%.2f%%", v.Success*100)
	codes := ""
	for _, code := range slices.Sorted(maps.Keys(v.StatusCodes)) {
		codes += fmt.Sprintf("%s:%d  ", code, v.StatusCodes[code])
	}
	row("Status Codes\t[code:count]\t%s\nError Set:", codes)
	for _, text := range v.Errors {
		row("%s", text)
	}
	return t.Flush()
}
