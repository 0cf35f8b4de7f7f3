package report

import (
	"slices"
	"strings"

	"dyno/results/rundir"
)

// quick writes the one trial of a quick load, in the order that users know from hey and
// wrk.
func (p *page) quick() {
	v := &p.run.Variants[0]
	if v.Trials == 0 {
		return
	}
	trial := p.only(v.Name)
	p.section("summary")
	t := table{left: []int{1}}
	t.add("throughput", maybe(v.Throughput.Estimate, func(x float64) string {
		if v.Streams != nil {
			return Count(x) + " events/s, delivered"
		}
		return Count(x) + " good responses/s"
	}))
	if trial != nil && trial.WindowSeconds > 0 {
		t.add("window", Seconds(trial.WindowSeconds)+" after "+Seconds(trial.WarmupSeconds)+" of warm-up")
	}
	c := v.Counts
	if p.run.Plan.Variant(v.Name).Loop != "stream" {
		t.add(p.sent(), whole(c.Sent)+" sent: "+whole(c.OK)+" ok, "+whole(c.Errors)+" errors, "+whole(c.Timeouts)+" timeouts, "+whole(c.Unfinished)+" unfinished")
	}
	if c.Redirects != nil {
		t.add("redirects", whole(*c.Redirects)+" followed")
	}
	if c.Dropped > 0 {
		t.add("dropped", whole(c.Dropped)+" of "+whole(c.Scheduled)+" scheduled")
	}
	for _, cost := range []struct {
		name       string
		per, share *float64
	}{
		{"target CPU", v.Target.CPUSecondsPerRequest, v.Target.CPUShare},
		{"generator CPU", v.Generator.CPUSecondsPerRequest, v.Generator.CPUShare},
	} {
		if cost.per != nil {
			cell := Seconds(*cost.per) + " per " + p.unit()
			if cost.share != nil {
				cell += ", " + percent(*cost.share) + " of its CPUs"
			}
			t.add(cost.name, cell)
		}
	}
	if rss := v.Target.RSSBytes; rss != nil {
		t.add("target RSS", sizes().Write(float64(*rss)))
	}
	p.table(t)

	if v.Streams != nil {
		p.streams([]rundir.Variant{*v})
	}
	if v.Counts.Sent > 0 || v.Streams == nil {
		p.distribution(v)
	}
	p.tokens([]rundir.Variant{*v})
	p.messages([]rundir.Variant{*v})

	if len(c.ByStatus) > 0 {
		p.section("status codes")
		t := table{}
		for _, code := range descending(c.ByStatus) {
			t.add(code, whole(c.ByStatus[code]))
		}
		p.table(t)
	}
	p.steps([]rundir.Variant{*v})
	p.section("errors")
	t = table{}
	if v.Errors.Total == 0 {
		p.line("none")
	}
	for _, kind := range descending(v.Errors.ByKind) {
		t.add(kind, whole(v.Errors.ByKind[kind]))
	}
	if v.Errors.Ratio != nil && v.Errors.Total > 0 {
		t.add("all", whole(v.Errors.Total), percent(*v.Errors.Ratio)+" of the "+p.sent())
	}
	p.table(t)
	if trial != nil {
		p.causes(trial.Failures)
		k := trial.Connections
		subscriptions := k.Requested == 0 && v.Streams != nil // have a section of their own
		if subscriptions && trial.TLS == nil {
			return
		}
		p.section("connections")
		t := table{}
		if !subscriptions {
			t.add("requested", whole(k.Requested))
			t.add("opened", whole(k.Opened))
			t.add("failed", whole(k.Failed))
			t.add("at once", whole(k.Peak))
			if reuse := v.Target.ConnectionReuseRatio; reuse != nil {
				t.add("reused", percent(*reuse)+" of the "+p.sent())
			}
		}
		if k.PeerClosed > 0 {
			t.add("closed idle", whole(k.PeerClosed))
		}
		if k.Streams > 1 {
			t.add("streams on each", whole(k.Streams))
		}
		if k.GoAways > 0 {
			t.add("ended by GOAWAY", whole(k.GoAways))
		}
		for _, text := range descending(trial.GoAways) {
			t.add("for an error", whole(trial.GoAways[text])+" × "+text)
		}
		if k.Pings > 0 {
			t.add("pings", whole(k.Pings)+" sent, "+whole(k.PingsUnanswered)+" connections gave no answer")
		}
		if k.Refused > 0 {
			t.add("requests refused", whole(k.Refused)+", "+whole(k.Resent)+" sent again")
		}
		if s := trial.TLS; s != nil {
			handshakes, agreed := secured(s, &v.Handshake)
			t.add("handshakes", handshakes)
			for _, text := range agreed {
				t.add("TLS", text)
			}
		}
		p.table(t)
	}
}

// secured says what became of TLS handshakes, and what they agreed on.
func secured(s *rundir.TLS, took *rundir.Quantiles) (handshakes string, agreed []string) {
	handshakes = whole(s.Handshakes) + " completed, " + whole(s.Failed) + " failed"
	if s.ResumedShare != nil {
		handshakes += ", " + percent(*s.ResumedShare) + " resumed"
	}
	if took.P50 != nil {
		handshakes += ", p50 " + Seconds(*took.P50)
	}
	if took.P99 != nil {
		handshakes += ", p99 " + Seconds(*took.P99)
	}
	for _, a := range s.Agreed {
		parts := slices.DeleteFunc([]string{a.Version, a.CipherSuite, a.Group, a.ALPN}, func(s string) bool { return s == "" })
		text := strings.Join(parts, " ")
		if len(s.Agreed) > 1 {
			text = whole(a.Handshakes) + " " + text
		}
		agreed = append(agreed, text)
	}
	return handshakes, agreed
}

// sent names the load's requests.
func (p *page) sent() string {
	if p.unit() == "event" {
		return "publications"
	}
	return "requests"
}

// distribution writes the clocks side by side. In a closed loop the response time is the
// service time: no request is late.
func (p *page) distribution(v *rundir.Variant) {
	if v.Streams != nil {
		p.section("latency of publications")
	} else {
		p.section("latency")
	}
	t := table{head: []string{""}}
	clocks := []string{rundir.TagResponse, rundir.TagService, rundir.TagSendLag}
	t.head = append(t.head, "response", "service", "send lag")
	if p.run.Plan.Variant(v.Name).Loop != "open" {
		clocks = clocks[1:]
		t.head = []string{"", "service " + p.footnote(serviceOnly), "send lag"}
	}
	for _, s := range rundir.Summaries() {
		row := []string{rundir.QuantileName(s.Name)}
		for _, clock := range clocks {
			row = append(row, p.figure(*v, clock+"."+s.Name, times()))
		}
		if slices.ContainsFunc(row[1:], func(cell string) bool { return cell != unknown }) {
			t.add(row...)
		}
	}
	p.table(t)
	p.ends([]rundir.Variant{*v})
}

// mostFailures is how many texts of failures are listed.
const mostFailures = 8

// causes describes failures in words, including those of the warm-up.
func (p *page) causes(texts map[string]int64) {
	for i, text := range descending(texts) {
		if i == mostFailures {
			p.line("and %d other texts", len(texts)-i)
			return
		}
		p.line("%s × %s", whole(texts[text]), text)
	}
}

// only returns the trial that the figures of the only variant use, or nil.
func (p *page) only(variant string) *rundir.Trial {
	for _, t := range p.folder.Measured() {
		if t.Variant == variant {
			return &t.Trial
		}
	}
	return nil
}
