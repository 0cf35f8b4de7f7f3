package export

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/results/rundir"
)

// CSV writes a run's figures for a spreadsheet (RFC 4180): a row for each variant and
// metric with a figure, with both ends of its interval if it has one. Metrics are named
// as in expressions. Units are those of the run folder: s, B, 1/s, and 1 for counts and
// shares. Figures are written in full. A cell that a spreadsheet would take for a formula
// begins with an apostrophe.
func CSV(w io.Writer, f *rundir.Folder) error {
	p := judged.Of(f)
	rows := [][]string{{"run", "valid", "variant", "trials", "metric", "unit", "estimate", "low", "high", "confidence", "interval"}}
	for _, v := range f.Run.Variants {
		for _, m := range metricsOf(v) {
			e := v.Figure(m)
			if e.Estimate == nil {
				continue
			}
			row := []string{inert(p.Title()), strconv.FormatBool(f.Run.Valid), inert(v.Name), strconv.Itoa(v.Trials), inert(m), figure.UnitOf(m).Base(),
				full(e.Estimate), full(e.Low), full(e.High), "", ""}
			if figure.Bounded(e) {
				row[9], row[10] = full(&e.Confidence), inert(e.Interval)
			}
			rows = append(rows, row)
		}
	}
	return writeCSV(w, rows)
}

// metricsOf names the metrics that the variant may have a figure in, each once.
func metricsOf(v rundir.Variant) (names []string) {
	for _, m := range rundir.Metrics() {
		names = append(names, m.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Figures)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// TrialsCSV writes a run's trials for a spreadsheet, a row for each, pilots, probes and
// incomplete ones included. The column counted says which trials the run's figures use.
// Unknown cells are empty. The last columns hold values that programs printed and values
// that the plan asks to observe.
func TrialsCSV(w io.Writer, f *rundir.Folder) error {
	p := judged.Of(f)
	counted := map[int]bool{}
	for _, t := range f.Measured() {
		counted[t.Number] = !p.Examined(t.Number).Excluded
	}
	columns := trialColumns()
	head := []string{"run"}
	for _, c := range columns {
		head = append(head, c.name)
	}
	head = append(head, "counted", "error")
	programs, observed := map[string]bool{}, map[string]bool{}
	for _, t := range f.Trials {
		for name := range t.Measures {
			programs[name] = true
		}
		for name := range t.Observed {
			observed[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		head = append(head, inert(rundir.OfPrograms+name))
	}
	for _, name := range slices.Sorted(maps.Keys(observed)) {
		head = append(head, inert(rundir.OfObservers+name))
	}
	rows := [][]string{head}
	for _, t := range f.Trials {
		row := []string{inert(p.Title())}
		for _, c := range columns {
			row = append(row, c.of(&t.Trial))
		}
		failed, _, _ := strings.Cut(t.Error, "\n")
		row = append(row, strconv.FormatBool(counted[t.Number]), inert(failed))
		for _, of := range []struct {
			names  map[string]bool
			values map[string]float64
		}{{programs, t.Measures}, {observed, t.Observed}} {
			for _, name := range slices.Sorted(maps.Keys(of.names)) {
				cell := ""
				if v, ok := of.values[name]; ok {
					cell = full(&v)
				}
				row = append(row, cell)
			}
		}
		rows = append(rows, row)
	}
	return writeCSV(w, rows)
}

// A trialColumn is one cell of every trial. Names are those of trial.json.
type trialColumn struct {
	name string
	of   func(*rundir.Trial) string
}

func trialColumns() []trialColumn {
	whole := func(name string, of func(*rundir.Trial) int64) trialColumn {
		return trialColumn{name, func(t *rundir.Trial) string { return strconv.FormatInt(of(t), 10) }}
	}
	real := func(name string, of func(*rundir.Trial) *float64) trialColumn {
		return trialColumn{name, func(t *rundir.Trial) string { return full(of(t)) }}
	}
	columns := []trialColumn{
		whole("number", func(t *rundir.Trial) int64 { return int64(t.Number) }),
		whole("round", func(t *rundir.Trial) int64 { return int64(t.Round) }),
		{"variant", func(t *rundir.Trial) string { return inert(t.Variant) }},
		{"purpose", func(t *rundir.Trial) string { return inert(t.Purpose) }},
		real("rate_per_second", func(t *rundir.Trial) *float64 { return t.Rate }),
		{"started_at", func(t *rundir.Trial) string { return t.StartedAt.UTC().Format(time.RFC3339Nano) }},
		real("window_seconds", func(t *rundir.Trial) *float64 { return &t.WindowSeconds }),
		{"complete", func(t *rundir.Trial) string { return strconv.FormatBool(t.Complete) }},
		whole("scheduled", func(t *rundir.Trial) int64 { return t.Counts.Scheduled }),
		whole("sent", func(t *rundir.Trial) int64 { return t.Counts.Sent }),
		whole("ok", func(t *rundir.Trial) int64 { return t.Counts.OK }),
		whole("failed", func(t *rundir.Trial) int64 { return t.Counts.Unanswered() }),
		real("throughput_per_second", func(t *rundir.Trial) *float64 { return t.Throughput }),
	}
	for _, c := range []struct {
		name string
		of   func(*rundir.Streams) int64
	}{
		{"delivered", func(s *rundir.Streams) int64 { return s.Delivered }},
		{"lost", func(s *rundir.Streams) int64 { return s.Lost }},
		{"announced", func(s *rundir.Streams) int64 { return s.Announced }},
		{"repeated", func(s *rundir.Streams) int64 { return s.Repeated }},
		{"disordered", func(s *rundir.Streams) int64 { return s.Disordered }},
	} {
		columns = append(columns, trialColumn{c.name, func(t *rundir.Trial) string {
			if t.Streams == nil {
				return ""
			}
			return strconv.FormatInt(c.of(t.Streams), 10)
		}})
	}
	for _, clock := range rundir.Clocks() {
		for _, of := range rundir.Summaries() {
			columns = append(columns, real(clock.Tag+"_"+of.Name+"_seconds", func(t *rundir.Trial) *float64 { return of.Of(new(t.Times[clock.Tag])) }))
		}
	}
	return append(columns,
		real("target_cpu_seconds_per_request", func(t *rundir.Trial) *float64 { return t.Target.CPUSecondsPerRequest }),
		real("target_cpu_share", func(t *rundir.Trial) *float64 { return t.Target.CPUShare }),
		real("target_rss_bytes", func(t *rundir.Trial) *float64 { return judged.Float(t.Target.RSSBytes) }),
		real("generator_cpu_share", func(t *rundir.Trial) *float64 { return t.Generator.CPUShare }),
		real("machine_steal_share", func(t *rundir.Trial) *float64 { return t.Machine.StealShare }),
	)
}

// inert makes text safe for a cell: one line, nothing that drives a terminal, and no
// formula. A spreadsheet takes a cell that begins with one of the listed characters for a
// formula, and runs it.
func inert(s string) string {
	s = figure.Printable(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}

// full writes a figure so that it reads back unchanged; empty if it is not known.
func full(v *float64) string {
	if v == nil || !finite(*v) {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func writeCSV(w io.Writer, rows [][]string) error {
	c := csv.NewWriter(w)
	c.UseCRLF = true
	if err := c.WriteAll(rows); err != nil {
		return fmt.Errorf("report as csv: %w", err)
	}
	return nil
}
