package scrape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"dyno/observe"
)

// A Sample is one number that a program publishes.
type Sample struct {
	Name   string // as the program spells it
	Family string // the metric that it is part of: without a histogram's _sum or _count
	Labels []Label
	Kind   observe.Kind
	Value  float64
}

// A Label is a label as in Prometheus.
type Label struct{ Name, Value string }

// Series returns the name with its labels, as Prometheus writes them.
func (s Sample) Series() string { return series(s.Name, s.Labels) }

func series(name string, labels []Label) string {
	if len(labels) == 0 {
		return name
	}
	var b strings.Builder
	b.WriteString(name)
	for i, l := range labels {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(l.Name)
		b.WriteByte('=')
		b.WriteString(strconv.Quote(l.Value))
	}
	b.WriteByte('}')
	return b.String()
}

// A Reading holds all numbers of one answer.
type Reading struct {
	Samples    []Sample             // sorted by series, each once
	Histograms map[string]Histogram // by series
}

func (r *Reading) add(s Sample) { r.Samples = append(r.Samples, s) }

// sorted brings the samples in order. If a series is there twice, which no format allows,
// the first counts.
func (r *Reading) sorted() {
	keys := make(map[string]bool, len(r.Samples))
	r.Samples = slices.DeleteFunc(r.Samples, func(s Sample) bool {
		k := s.Series()
		twice := keys[k]
		keys[k] = true
		return twice
	})
	sort.SliceStable(r.Samples, func(i, j int) bool { return r.Samples[i].Series() < r.Samples[j].Series() })
}

// kindByName is for formats without types: a number whose name ends as counters do by
// convention is one.
func kindByName(name string) observe.Kind {
	if strings.HasSuffix(name, "_total") {
		return observe.Counter
	}
	return observe.Gauge
}

// Prometheus reads the text format (version 0.0.4), not OpenMetrics, which servers only send to those
// who ask for it. Sum and count of a histogram or a summary are samples, and both are counters. A
// metric without a type is a counter if its name ends in _total, and a gauge otherwise.
func Prometheus(text []byte) (Reading, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return Reading{}, fmt.Errorf("prometheus text format: %w", err)
	}
	r := Reading{Histograms: make(map[string]Histogram)}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			labels := make([]Label, 0, len(m.GetLabel()))
			for _, l := range m.GetLabel() {
				labels = append(labels, Label{l.GetName(), l.GetValue()})
			}
			slices.SortFunc(labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
			plain := func(kind observe.Kind, v float64) { r.add(Sample{name, name, labels, kind, v}) }
			pair := func(sum, count float64) {
				r.add(Sample{name + "_sum", name, labels, observe.Counter, sum})
				r.add(Sample{name + "_count", name, labels, observe.Counter, count})
			}
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				plain(observe.Counter, m.GetCounter().GetValue())
			case dto.MetricType_GAUGE:
				plain(observe.Gauge, m.GetGauge().GetValue())
			case dto.MetricType_SUMMARY:
				pair(m.GetSummary().GetSampleSum(), float64(m.GetSummary().GetSampleCount()))
			case dto.MetricType_HISTOGRAM, dto.MetricType_GAUGE_HISTOGRAM:
				h := histogram(m.GetHistogram())
				pair(h.Sum, float64(m.GetHistogram().GetSampleCount()))
				for i, upper := range h.Upper {
					bound := Label{"le", strconv.FormatFloat(upper, 'g', -1, 64)}
					r.add(Sample{name + bucketSuffix, name + bucketSuffix, append(slices.Clone(labels), bound), observe.Counter, h.Counts[i]})
				}
				if h.valid() {
					r.Histograms[series(name, labels)] = h
				}
			default:
				plain(kindByName(name), m.GetUntyped().GetValue())
			}
		}
	}
	r.sorted()
	return r, nil
}

func histogram(from *dto.Histogram) Histogram {
	h := Histogram{Sum: from.GetSampleSum()}
	for _, b := range from.GetBucket() {
		h.Upper = append(h.Upper, b.GetUpperBound())
		h.Counts = append(h.Counts, float64(b.GetCumulativeCount()))
	}
	sort.Sort(byBound(h))
	return h
}

type byBound Histogram

func (h byBound) Len() int           { return len(h.Upper) }
func (h byBound) Less(i, j int) bool { return h.Upper[i] < h.Upper[j] }
func (h byBound) Swap(i, j int) {
	h.Upper[i], h.Upper[j] = h.Upper[j], h.Upper[i]
	h.Counts[i], h.Counts[j] = h.Counts[j], h.Counts[i]
}

// memstats are the counters among the numbers of Go's runtime.MemStats, which
// expvar publishes under that name.
func memstats(path string) bool {
	switch path {
	case "memstats.TotalAlloc", "memstats.Lookups", "memstats.Mallocs", "memstats.Frees",
		"memstats.NumGC", "memstats.NumForcedGC", "memstats.PauseTotalNs":
		return true
	}
	return false
}

// deepest is how deep JSON may be nested. Deeper values are left out.
const deepest = 16

// Vars reads a JSON object, such as Go's expvar publishes. It names each number by its path with dots,
// such as memstats.HeapAlloc. Lists and what else is not a number are left out. A number whose name
// ends in _total is a counter. So are counters of runtime.MemStats; the others are gauges.
func Vars(text []byte) (Reading, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return Reading{}, fmt.Errorf("json object: %w", err)
	}
	if rest := bytes.TrimSpace(text[decoder.InputOffset():]); len(rest) > 0 {
		return Reading{}, fmt.Errorf("json object: something follows it: %.20q", rest)
	}
	var r Reading
	r.flatten("", object, 1)
	r.sorted()
	return r, nil
}

func (r *Reading) flatten(prefix string, object map[string]any, depth int) {
	for key, value := range object {
		path := prefix + key
		switch v := value.(type) {
		case float64:
			kind := kindByName(path)
			if memstats(path) {
				kind = observe.Counter
			}
			r.add(Sample{Name: path, Family: path, Kind: kind, Value: v})
		case map[string]any:
			if depth < deepest {
				r.flatten(path+".", v, depth+1)
			}
		}
	}
}

// Lines reads one "name value" a line; empty lines and those that begin with # are
// left out. A number is a counter if its name ends in _total, and a gauge otherwise.
func Lines(text []byte) (Reading, error) {
	var r Reading
	number := 0
	for line := range bytes.Lines(text) {
		number++
		words := strings.Fields(string(line))
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if len(words) != 2 {
			return Reading{}, fmt.Errorf("line %d: %.40q; want a name and a number", number, bytes.TrimSpace(line))
		}
		v, err := strconv.ParseFloat(words[1], 64)
		if err != nil || math.IsInf(v, 0) {
			return Reading{}, fmt.Errorf("line %d: %s: %.40q is not a number", number, words[0], words[1])
		}
		r.add(Sample{Name: words[0], Family: words[0], Kind: kindByName(words[0]), Value: v})
	}
	r.sorted()
	return r, nil
}
