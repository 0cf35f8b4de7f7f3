package report

import (
	"slices"

	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// quick writes the one trial of a quick load, in the order that users know from hey and
// wrk.
func (p *page) quick() {
	v := &p.Run.Variants[0]
	if v.Trials == 0 {
		return
	}
	trial := p.OnlyTrial(v.Name)
	p.Section("summary")
	t := layout.Table{Left: []int{1}}
	t.Add("throughput", figure.Maybe(v.Known(rundir.MetricThroughput), func(x float64) string {
		if v.Streams != nil {
			return figure.Count(x) + " events/s, delivered"
		}
		return figure.Count(x) + " good responses/s"
	}))
	if trial != nil && trial.WindowSeconds > 0 {
		t.Add("window", figure.Seconds(trial.WindowSeconds)+" after "+figure.Seconds(trial.WarmupSeconds)+" of warm-up")
	}
	c := v.Counts
	if p.Run.Plan.Variant(v.Name).Loop != "stream" {
		t.Add(p.Sent(), figure.Whole(c.Sent)+" sent: "+figure.Whole(c.OK)+" ok, "+figure.Whole(c.Errors)+" errors, "+figure.Whole(c.Timeouts)+" timeouts, "+figure.Whole(c.Unfinished)+" unfinished")
	}
	if n := c.Carried; n.Scheduled > 0 {
		t.Add("carried", figure.Whole(n.Scheduled)+" due before the window and unanswered when it began: "+figure.Whole(n.OK)+" ok")
	}
	if n := c.NotSent(); n > 0 {
		t.Add("not sent", figure.Whole(n)+", for want of dyno's own resources")
	}
	if c.Redirects != nil {
		t.Add("redirects", figure.Whole(*c.Redirects)+" followed")
	}
	if c.Dropped > 0 {
		t.Add("dropped", figure.Whole(c.Dropped)+" of "+figure.Whole(c.Scheduled)+" scheduled")
	}
	for _, process := range []string{"target", "generator"} {
		if per := v.Known(process + ".cpu_per_request"); per != nil {
			cell := figure.Seconds(*per) + " per " + p.Per()
			if share := v.Known(process + ".cpu_share"); share != nil {
				cell += ", " + figure.Percent(*share) + " of its CPUs"
			}
			t.Add(process+" CPU", cell)
		}
	}
	if rss := v.Known(rundir.MetricMemory); rss != nil {
		t.Add("target RSS", figure.Sizes().Write(*rss))
	}
	p.Table(t)

	if v.Streams != nil {
		p.streams([]rundir.Variant{*v})
	}
	if v.Counts.Sent > 0 || v.Streams == nil {
		p.distribution(v)
	}
	p.tokens([]rundir.Variant{*v})
	p.messages([]rundir.Variant{*v})

	p.outcomes(v)
	if trial != nil {
		p.causes(trial.Failures)
		p.connections(v, trial)
	}
	p.calls([]rundir.Variant{*v})
}

// outcomes writes what became of the requests of a quick load.
func (p *page) outcomes(v *rundir.Variant) {
	c := v.Counts
	if len(c.ByStatus) > 0 {
		p.Section("status codes")
		t := layout.Table{}
		for _, code := range judged.MostFrequent(c.ByStatus) {
			t.Add(code, figure.Whole(c.ByStatus[code]))
		}
		p.Table(t)
	}
	p.stages([]rundir.Variant{*v})
	p.steps([]rundir.Variant{*v})
	p.Section("errors")
	t := layout.Table{}
	byKind, ratio := c.Failures()
	if c.Unanswered() == 0 {
		p.Line("none")
	}
	for _, kind := range judged.MostFrequent(byKind) {
		t.Add(kind, figure.Whole(byKind[kind]))
	}
	if ratio != nil && c.Unanswered() > 0 {
		t.Add("all", figure.Whole(c.Unanswered()), figure.Percent(*ratio)+" of the "+p.Sent())
	}
	p.Table(t)
}

// connections writes what became of its connections.
func (p *page) connections(v *rundir.Variant, trial *rundir.Trial) {
	k := trial.Connections
	subscriptions := k.Requested == 0 && v.Streams != nil // have a section of their own
	if subscriptions && trial.TLS == nil {
		return
	}
	p.Section("connections")
	t := layout.Table{}
	if !subscriptions {
		t.Add("requested", figure.Whole(k.Requested))
		t.Add("opened", figure.Whole(k.Opened))
		t.Add("failed", figure.Whole(k.Failed))
		t.Add("at once", figure.Whole(k.Peak))
		if reuse := v.Known("target.connection_reuse_ratio"); reuse != nil {
			t.Add("reused", figure.Percent(*reuse)+" of the "+p.Sent())
		}
	}
	if k.PeerClosed > 0 {
		t.Add("closed idle", figure.Whole(k.PeerClosed))
	}
	if k.Pushed > 0 {
		t.Add("messages not awaited", figure.Whole(k.Pushed))
	}
	if l := v.Loaded; l != nil {
		p.loaded(&t, l)
	}
	if k.GoAways > 0 {
		t.Add("ended by GOAWAY", figure.Whole(k.GoAways))
	}
	for _, text := range judged.MostFrequent(trial.GoAways) {
		t.Add("for an error", figure.Whole(trial.GoAways[text])+" × "+text)
	}
	if k.Pings > 0 {
		t.Add("pings", figure.Whole(k.Pings)+" sent, "+figure.Whole(k.PingsUnanswered)+" connections gave no answer")
	}
	if k.Refused > 0 {
		t.Add("requests refused", figure.Whole(k.Refused)+", "+figure.Whole(k.Resent)+" sent again")
	}
	if s := trial.TLS; s != nil {
		handshakes, agreed := judged.Handshakes(s, v)
		t.Add("handshakes", handshakes)
		for _, text := range agreed {
			t.Add("TLS", text)
		}
	}
	p.Table(t)
}

// loaded writes what of the target was really loaded, against what was asked for.
func (p *page) loaded(t *layout.Table, l *rundir.Loaded) {
	for _, spoken := range judged.MostFrequent(l.Protocols) {
		t.Add("protocol", spoken+" on "+figure.Whole(l.Protocols[spoken]))
	}
	limit := "no limit of the server's"
	if l.Allowed > 0 {
		limit = figure.Whole(l.Allowed) + " allowed by the server"
	}
	if l.Streams > 1 || l.Allowed > 0 {
		t.Add("streams on each", figure.Whole(max(1, l.Streams))+" asked for, "+limit)
	}
	for i := range l.Addresses {
		t.Add("address", judged.OnAddress(&l.Addresses[i]))
	}
}

// distribution writes the clocks side by side. In a closed loop the response time is the
// service time: no request is late.
func (p *page) distribution(v *rundir.Variant) {
	if v.Streams != nil {
		p.Section("latency of publications")
	} else {
		p.Section("latency")
	}
	t := layout.Table{Head: []string{""}}
	clocks := []string{rundir.TagResponse, rundir.TagService, rundir.TagSendLag}
	t.Head = append(t.Head, "response", "service", "send lag")
	if p.Run.Plan.Variant(v.Name).Loop != "open" {
		clocks = clocks[1:]
		t.Head = []string{"", "service " + p.Footnote(serviceOnly), "send lag"}
	}
	for _, s := range rundir.Summaries() {
		row := []string{rundir.QuantileName(s.Name)}
		for _, clock := range clocks {
			row = append(row, p.Figure(*v, clock+"."+s.Name, figure.Times()))
		}
		if slices.ContainsFunc(row[1:], func(cell string) bool { return cell != figure.Unknown }) {
			t.Add(row...)
		}
	}
	p.Table(t)
	p.ends([]rundir.Variant{*v})
}

// mostFailures is how many texts of failures are listed.
const mostFailures = 8

// causes describes failures in words, including those of the warm-up.
func (p *page) causes(texts map[string]int64) {
	for i, text := range judged.MostFrequent(texts) {
		if i == mostFailures {
			p.Line("and %d other texts", len(texts)-i)
			return
		}
		p.Line("%s × %s", figure.Whole(texts[text]), text)
	}
}
