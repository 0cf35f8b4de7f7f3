package recording

import "dyno/load/hist"

// Times are merged histograms, by tag.
type Times map[string]*hist.Histogram

// Merged merges a log's intervals by tag.
func Merged(log []hist.Interval) Times {
	t := Times{}
	for _, i := range log {
		t.Add(i.Tag, i.Hist)
	}
	return t
}

// Add merges a histogram into that of a tag.
func (t Times) Add(tag string, h *hist.Histogram) {
	if t[tag] == nil {
		t[tag] = hist.New()
	}
	t[tag].Merge(h)
}

// AddAll merges the histograms of all tags.
func (t Times) AddAll(o Times) {
	for tag, h := range o {
		t.Add(tag, h)
	}
}

// Pack brings the histograms into their compact form, a few kB each.
func (t Times) Pack() {
	for tag, h := range t {
		t[tag] = h.Clone()
	}
}

// Quantile returns the value, in seconds, that one in oneIn of the recorded values
// exceeds; nil when there are fewer than oneIn. That is enough for a check.
// rundir.QuantilesOf asks for more values before it reports one.
func (t Times) Quantile(tag string, oneIn int64) *float64 {
	h := t[tag]
	if h == nil || h.Count() < oneIn {
		return nil
	}
	return new(Seconds(float64(h.Quantile(1 - 1/float64(oneIn)))))
}

// Seconds is a time of a histogram in seconds.
func Seconds(ns float64) float64 { return ns / 1e9 }
