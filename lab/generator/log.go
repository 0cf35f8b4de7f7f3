package generator

import (
	"io"

	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// restore puts a log's latencies back where they were recorded.
func restore(r *record.Result, intervals []hist.Interval) {
	for t := range record.Tags {
		r.Latency[t] = hist.New()
	}
	ofSteps := map[string]*hist.Histogram{}
	for i := range r.Steps {
		s := &r.Steps[i]
		s.Response, s.Service = hist.New(), hist.New()
		if s.Tokens != nil {
			s.FirstToken, s.TokenTime = hist.New(), hist.New()
		}
		for tag, h := range timesOfStep(s) {
			ofSteps[rundir.StepTag(tag.String(), s.Name)] = h
		}
	}
	at := 0
	for _, i := range intervals {
		if h := ofSteps[i.Tag]; h != nil {
			h.Merge(i.Hist)
		}
		tag, known := record.TagOf(i.Tag)
		if !known {
			continue
		}
		r.Latency[tag].Merge(i.Hist)
		for at < len(r.Intervals)-1 && r.Intervals[at].Start+r.Intervals[at].Length <= i.Start+i.Length/2 {
			at++
		}
		if at < len(r.Intervals) {
			r.Intervals[at].Latency[tag] = i.Hist
		}
	}
}

// WriteLog writes the log of all intervals, each tag's in order. The tag that counts the load has a
// line for each interval: one in which nothing ended is a value, and none is missing.
func WriteLog(w io.Writer, r *record.Result) error {
	log, err := hist.NewLogWriter(w, r.Start)
	if err != nil {
		return err
	}
	counted, nothing := record.Response, hist.New()
	if r.AllCounts.Scheduled == 0 && r.Streams.Requested > 0 {
		counted = record.EventGap
	}
	for _, i := range r.Intervals {
		for tag, h := range i.Latency {
			if h == nil {
				if record.Tag(tag) != counted {
					continue
				}
				h = nothing
			}
			err := log.Write(hist.Interval{Tag: record.Tag(tag).String(), Start: i.Start, Length: i.Length, Hist: h})
			if err != nil {
				return err
			}
		}
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		for tag, h := range timesOfStep(s) {
			if h == nil || h.Count() == 0 {
				continue
			}
			err := log.Write(hist.Interval{Tag: rundir.StepTag(tag.String(), s.Name), Start: r.WindowStart, Length: r.Window, Hist: h})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// timesOfStep are a step's times by the tags for all steps; nil where it has none.
func timesOfStep(s *record.StepResult) map[record.Tag]*hist.Histogram {
	return map[record.Tag]*hist.Histogram{
		record.Response: s.Response, record.Service: s.Service, record.FirstToken: s.FirstToken, record.TokenTime: s.TokenTime,
	}
}
