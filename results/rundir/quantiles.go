package rundir

import "dyno/load/hist"

// Beyond is how many values must lie beyond a quantile for it to be known. With fewer,
// the next value could move it anywhere. So a p99 needs 1,000 values and a p99.9 needs
// 10,000.
const Beyond = 10

// QuantilesOf summarises a histogram of nanoseconds; nil counts as an empty one.
func QuantilesOf(h *hist.Histogram) Quantiles {
	if h == nil || h.Count() == 0 {
		return Quantiles{}
	}
	quantile := func(oneIn int64) *float64 {
		if h.Count() < oneIn*Beyond {
			return nil
		}
		return seconds(float64(h.Quantile(1 - 1/float64(oneIn))))
	}
	return Quantiles{
		Count: h.Count(),
		Mean:  seconds(h.Mean()),
		P50:   quantile(2),
		P90:   quantile(10),
		P99:   quantile(100),
		P999:  quantile(1000),
		Max:   seconds(float64(h.Max())),
	}
}

func seconds(ns float64) *float64 {
	s := ns / 1e9
	return &s
}

// A Summary is one figure of a clock's times.
type Summary struct {
	Name     string  // as in response.p99
	Quantile float64 // of the times; 0 for the maximum and the mean
	Of       func(*Quantiles) *float64
}

// Summaries lists what Quantiles has.
func Summaries() []Summary {
	return []Summary{
		{"p50", 0.5, func(q *Quantiles) *float64 { return q.P50 }},
		{"p90", 0.9, func(q *Quantiles) *float64 { return q.P90 }},
		{"p99", 0.99, func(q *Quantiles) *float64 { return q.P99 }},
		{"p999", 0.999, func(q *Quantiles) *float64 { return q.P999 }},
		{"max", 0, func(q *Quantiles) *float64 { return q.Max }},
		{"mean", 0, func(q *Quantiles) *float64 { return q.Mean }},
	}
}

// Summary returns the figure of a name, such as p99. It is nil if it is not known.
func (q *Quantiles) Summary(name string) *float64 {
	for _, s := range Summaries() {
		if s.Name == name {
			return s.Of(q)
		}
	}
	return nil
}

// Times returns the times of a clock. They are empty if the variant has none.
func (v *Variant) Times(clock string) *Quantiles {
	return timesOf(clock, v.Streams, v.Tokens, map[string]*Quantiles{
		TagResponse: &v.Response, TagService: &v.Service, TagSendLag: &v.SendLag, TagConnect: &v.Connect, TagFirstByte: &v.FirstByte,
		TagReadDelay: &v.ReadDelay, TagServiceRead: &v.ServiceRead, TagHandshake: &v.Handshake,
		TagFirstMessage: &v.FirstMessage, TagMessageGap: &v.MessageGap, TagMessage: &v.Message,
	})
}

// Times returns the times of a clock. They are empty if the trial has none.
func (t *Trial) Times(clock string) *Quantiles {
	return timesOf(clock, t.Streams, t.Tokens, map[string]*Quantiles{
		TagResponse: &t.Response, TagService: &t.Service, TagSendLag: &t.SendLag, TagConnect: &t.Connect, TagFirstByte: &t.FirstByte,
		TagReadDelay: &t.ReadDelay, TagServiceRead: &t.ServiceRead, TagHandshake: &t.Handshake,
		TagFirstMessage: &t.FirstMessage, TagMessageGap: &t.MessageGap, TagMessage: &t.Message,
	})
}

func timesOf(clock string, s *Streams, t *Tokens, own map[string]*Quantiles) *Quantiles {
	if t != nil {
		own[TagFirstToken], own[TagTokenTime] = &t.FirstToken, &t.TokenTime
	}
	if s != nil {
		own[TagOpening], own[TagFirstEvent], own[TagEventGap], own[TagDelivery] = &s.Opening, &s.FirstEvent, &s.EventGap, &s.Delivery
	}
	if q := own[clock]; q != nil {
		return q
	}
	return &Quantiles{}
}
