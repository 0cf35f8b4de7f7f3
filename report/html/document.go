package html

import (
	"math"
	"strconv"

	"dyno/judge/explain"
	"dyno/report/answer"
	"dyno/report/judged"
	"dyno/results/rundir"
)

// Version is that of the Document; the page refuses any other.
const Version = 1

// A Document is a run as the page shows it. Times are seconds, sizes bytes, rates per
// second; unknown values are left out, or null in a list.
type Document struct {
	Version int `json:"version"`
	// Run is run.json without its list of trials and the machine's name.
	Run        rundir.Run       `json:"run"`
	Answer     answer.Answer    `json:"answer"`               // the conclusion, which the page begins with
	Incomplete []rundir.Message `json:"incomplete,omitempty"` // why the run is
	Trials     []Trial          `json:"trials,omitempty"`     // by number
	SLO        *SLO             `json:"slo,omitempty"`        // of a search for capacity
	Checks     []Check          `json:"checks,omitempty"`     // by kind
	Agents     []judged.Agent   `json:"agents,omitempty"`     // that carried the load
	Slowest    []judged.Slow    `json:"slowest,omitempty"`    // requests, where these have trace ids
	Calls      *judged.Calls    `json:"calls,omitempty"`      // of targets, where system calls were counted
	// Unavailable is what some trial could not observe, and why.
	Unavailable  []rundir.Message      `json:"unavailable,omitempty"`
	Unreadable   []string              `json:"unreadable,omitempty"` // files that are missing from the page, and why
	Curves       []Curve               `json:"curves,omitempty"`
	Timelines    []Timeline            `json:"timelines,omitempty"`
	LinesLeftOut int                   `json:"timelines_left_out,omitempty"` // rounds whose time lines found no room
	Explanations []explain.Explanation `json:"explanations,omitempty"`
	Flames       *Flames               `json:"flames,omitempty"`
	// Units are of what thresholds and claims measure, by their expressions.
	Units map[string]rundir.Unit `json:"units,omitempty"`
}

// A Trial is one window of a variant.
type Trial struct {
	Number    int     `json:"number"`
	Round     int     `json:"round"`
	Variant   string  `json:"variant"`
	Purpose   string  `json:"purpose,omitempty"`
	Counted   bool    `json:"counted,omitempty"` // the figures use it
	Disturbed bool    `json:"disturbed"`
	Warmup    float64 `json:"warmup_seconds"`
	Window    float64 `json:"window_seconds"`
	// Rate, Good and Latency are of a probe in a search for capacity. Latency is in the
	// metric of the SLO.
	Rate    *float64 `json:"rate_per_second,omitempty"`
	Good    *bool    `json:"good,omitempty"`
	Latency *float64 `json:"latency_seconds,omitempty"`
}

// An SLO is the first threshold of a search for capacity that bounds a latency.
type SLO struct {
	Metric string  `json:"metric"`
	Limit  float64 `json:"limit_seconds"`
}

// A Check sums up one condition over all trials that it was held against.
type Check struct {
	Kind      string      `json:"kind"`
	Unit      rundir.Unit `json:"unit,omitempty"`
	Limit     *float64    `json:"limit,omitempty"`
	Worst     *float64    `json:"worst,omitempty"` // the figure farthest towards the limit, or beyond
	OK        int         `json:"ok"`
	Warning   int         `json:"warning"`
	Disturbed int         `json:"disturbed"`
	Unknown   int         `json:"unknown"`
}

// A Curve is the latency of a variant by percentile: of one trial, or of all merged.
// Values[i] is the quantile 1 − 10^(−i/PerDecade), as far as there are values.
type Curve struct {
	Variant string  `json:"variant"`
	Clock   string  `json:"clock"`           // one of rundir.Clocks
	Trial   int     `json:"trial,omitempty"` // 0: merged
	Count   int64   `json:"count"`
	Firm    int     `json:"firm"` // this many values have ten or more beyond them
	Values  Numbers `json:"values"`
}

// PerDecade is how many points of a Curve take it one nine further.
const PerDecade = 12

// A Timeline is what happened during one trial, its warm-up included. Time counts from
// the trial's first request.
type Timeline struct {
	Trial    int   `json:"trial"`
	Load     *Grid `json:"load,omitempty"`     // what the generator recorded
	Observed *Grid `json:"observed,omitempty"` // what observers read
	Heat     *Heat `json:"heat,omitempty"`
}

// A Grid holds lines over common times, the middles of what each point sums up.
type Grid struct {
	Time  Numbers `json:"time"`
	Lines []Line  `json:"lines"`
}

// A Line is one series, with the mean of the readings that each point sums up. If a point
// sums up several, it also has their least and greatest value.
type Line struct {
	Key    string      `json:"key"`              // names what it is to the page
	Column string      `json:"column,omitempty"` // of series.csv, where the page has no name for it
	Unit   rundir.Unit `json:"unit"`
	Mean   Numbers     `json:"mean"`
	Low    Numbers     `json:"low,omitempty"`
	High   Numbers     `json:"high,omitempty"`
}

// A Heat counts latencies by time and size. Bin b holds those from 10^(b/BinsPerDecade)
// to 10^((b+1)/BinsPerDecade) ns. Columns hold counts from bin First on.
type Heat struct {
	Clock   string    `json:"clock"`
	Start   float64   `json:"start_seconds"`
	Step    float64   `json:"step_seconds"`
	First   int       `json:"first"`
	Columns [][]int64 `json:"columns"`
}

// BinsPerDecade is how finely a Heat divides latencies.
const BinsPerDecade = 16

// Flames are flame graphs with a common table of functions.
type Flames struct {
	Functions []Function `json:"functions"`
	Groups    []string   `json:"groups"`
	Graphs    []Flame    `json:"graphs"`
}

// A Function is what a box of a flame graph stands for.
type Function struct {
	Name    string `json:"name"`
	Mapping string `json:"mapping,omitempty"` // [kernel] or a shared library
	Group   int    `json:"group"`             // in Flames.Groups
}

// A Flame is a flame graph of a variant, or of two. Its nodes are in preorder, the root
// first. The total of a node is the sum of Self over the node and all nodes below it.
type Flame struct {
	Kind      string      `json:"kind"` // of profile, such as cpu
	Unit      rundir.Unit `json:"unit"` // per request
	Base      string      `json:"base,omitempty"`
	Variant   string      `json:"variant"`
	Functions []int       `json:"functions"` // in Flames.Functions; −1 is the root
	Children  []int       `json:"children"`  // how many each node has
	Self      Numbers     `json:"self"`
	BaseSelf  Numbers     `json:"base_self,omitempty"`
}

// Numbers are written with four significant digits, which is more than a screen
// shows. NaN and infinities are null.
type Numbers []float64

// MarshalJSON writes the numbers as a list.
func (n Numbers) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 8*len(n)+2)
	b = append(b, '[')
	for i, v := range n {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			b = append(b, "null"...)
			continue
		}
		b = strconv.AppendFloat(b, v, 'g', 4, 64)
	}
	return append(b, ']'), nil
}
