package trial

import (
	"cmp"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"dyno/internal/sums"
	"dyno/lab/plan"
	"dyno/lab/protocols"
	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/load/wire"
	"dyno/results/rundir"
)

// translate writes the engine's result into what the run folder keeps.
func translate(t *rundir.Trial, v *plan.Variant, r *record.Result, workers int) {
	protocol := v.Target.Protocol
	t.StartedAt = r.Start
	t.WarmupSeconds = r.WindowStart.Seconds()
	t.WindowSeconds = r.Window.Seconds()
	t.Counts = counts(protocol, r)
	t.Conservation = conservation(r)
	if r.Window > 0 {
		throughput := r.Throughput()
		t.Throughput = &throughput
	}
	t.Times = times(r)
	t.Tokens = tokens(r.Tokens, r.Window)
	t.TLS = secured(&r.Handshakes)
	t.Ends = ends(r)
	sums.Copy(&t.Connections, &r.Connections)
	t.Connections.ReusedRequests, t.Connections.HungSeconds = signed(r.Connections.Reused), r.Connections.HungFor.Seconds()
	if n := r.Connections.Unqueued; n > 0 {
		t.Connections.Unqueued = r.Connections.UnqueuedTime.Seconds() / float64(n)
	}
	if t.Connections.Streams == 1 {
		t.Connections.Streams = 0
	}
	t.Loaded = loaded(v, r)
	if n := r.Messages; n != nil && t.Tokens == nil { // pieces of answers say less than tokens
		t.Messages = &rundir.Messages{Count: signed(*n)}
		if r.Window > 0 {
			t.Messages.PerSecond = new(float64(*n) / r.Window.Seconds())
		}
	}
	t.GoAways, t.Deviations = byText(r.GoAways), byText(r.Deviations)
	for _, x := range r.Slowest {
		slow := rundir.Slow{
			TraceID: hex.EncodeToString(x.Trace[:]), At: time.Duration(x.Written).Seconds(), Response: x.Response.Seconds(), Service: x.Service.Seconds(),
		}
		if x.Status != wire.NoStatus {
			slow.Status = protocols.StatusName(protocol, int(x.Status))
		}
		t.Slowest = append(t.Slowest, slow)
	}
	recordUsers(t, r)
	t.Silence = silence(&r.Silence)
	t.Failures = byText(r.Failures)
	if r.Streams.Requested > 0 {
		recordStreams(t, r)
	}
	t.Generator = generatorFigures(r, workers, t.Work(), t.Duet != nil)
	if exchanges := r.Connections.WindowExchanges; exchanges > 0 {
		reuse := float64(r.Connections.WindowReused) / float64(exchanges)
		t.Target.ConnectionReuseRatio = &reuse
	}
}

// times sums up what was recorded, as latency.hlog has it.
func times(r *record.Result) rundir.Times {
	histograms := map[string]*hist.Histogram{}
	for tag, h := range r.Latency {
		histograms[record.Tag(tag).String()] = h //nolint:gosec // there are few tags
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		for tag, h := range map[record.Tag]*hist.Histogram{record.Response: s.Response, record.Service: s.Service, record.FirstToken: s.FirstToken, record.TokenTime: s.TokenTime} {
			histograms[rundir.StepTag(tag.String(), s.Name)] = h
		}
	}
	return rundir.TimesOf(histograms)
}

// CountsOf returns a run folder's counts of ended requests. So followers of a run and readers of its
// folder have the same good and failed ones.
func CountsOf(o *record.Outcomes) rundir.Counts {
	c := rundir.Counts{ByKind: map[string]int64{}}
	sums.Copy(&c, o)
	c.Sent = c.OK + c.Errors + c.Timeouts + c.Unfinished + c.Generator
	c.Scheduled = c.Sent + c.Dropped
	for kind, n := range o.ByKind {
		if n > 0 {
			c.ByKind[wire.Kind(kind).String()] = signed(n) //nolint:gosec // there are few kinds
		}
	}
	return c
}

// Counted says it of an interval: of the requests that are measured, or of the warm-up's as long as there is nothing
// else.
func Counted(i *record.Interval, warmup time.Duration) rundir.Counts {
	if i.Start < warmup && i.Measured == (record.Outcomes{}) {
		return CountsOf(&i.Warmup)
	}
	return CountsOf(&i.Measured)
}

func counts(protocol string, r *record.Result) rundir.Counts {
	c := CountsOf(&r.Counts.Outcomes)
	c.Scheduled, c.Sent = signed(r.Counts.Scheduled), signed(r.Counts.Sent)
	sums.Copy(&c.Carried, &r.Carried)
	c.CompletedInWindow, c.ReceivedBytes = signed(r.Completed), signed(r.Received)
	c.ByStatus = map[string]int64{}
	if r.Redirects != nil {
		n := signed(*r.Redirects)
		c.Redirects = &n
	}
	for status, n := range r.Status {
		c.ByStatus[protocols.StatusName(protocol, status)] += signed(n)
	}
	return c
}

// loaded says what of the target was really loaded.
func loaded(v *plan.Variant, r *record.Result) *rundir.Loaded {
	k := &r.Connections
	l := &rundir.Loaded{Requested: int64(k.Requested), Peak: int64(k.Peak), Allowed: int64(k.Allowed)}
	if k.Streams > 1 {
		l.Streams = int64(k.Streams)
	}
	opened := k.Opened
	if v.Target.Protocol == plan.WS { // subscribers speak what all do
		opened += r.Streams.Opened + r.Streams.Slow.Opened
	}
	if plan.HasURL(v.Target.Protocol) && opened > 0 {
		l.Protocols = map[string]int64{}
		how := ""
		if slices.ContainsFunc(r.Handshakes.Agreed, func(a record.Agreement) bool { return a.ALPN != "" }) {
			how = " by ALPN"
		}
		for muxed, n := range map[bool]uint64{false: opened - k.Multiplexed, true: k.Multiplexed} {
			spoken := plan.Over(v, muxed)
			if strings.HasSuffix(spoken, "HTTP/2") {
				spoken += how
			}
			if n > 0 {
				l.Protocols[spoken] += signed(n)
			}
		}
	}
	for _, a := range r.Addresses {
		l.Addresses = append(l.Addresses, rundir.Address{
			Address: a.Name, Opened: signed(a.Opened), Failed: signed(a.Failed),
			Requests: signed(a.OK + a.Bad), Bad: signed(a.Bad), Unreachable: a.Why,
		})
	}
	slices.SortFunc(l.Addresses, func(a, b rundir.Address) int { return cmp.Compare(a.Address, b.Address) })
	return l
}

// tokens says what answers of language models consisted of; nil if there were none.
func tokens(counted *record.Tokens, window time.Duration) *rundir.Tokens {
	if counted == nil {
		return nil
	}
	t := &rundir.Tokens{Count: signed(counted.Count), Within: signed(counted.Within)}
	if window > 0 {
		perSecond, goodput := float64(counted.Count)/window.Seconds(), float64(counted.Within)/window.Seconds()
		t.PerSecond, t.Goodput = &perSecond, &goodput
		if counted.NoPrompt == 0 {
			perSecond := float64(counted.Prompt) / window.Seconds()
			t.PromptPerSecond = &perSecond
		}
	}
	return t
}

// ends says what ended responses and events; nil if there were none.
func ends(r *record.Result) *rundir.Ends {
	e := &r.Ends
	if e.ByArrival+e.ByRead == 0 {
		return nil
	}
	to := &rundir.Ends{UncertaintySeconds: e.Uncertainty.Seconds()}
	sums.Copy(to, e)
	to.Complete()
	return to
}

// recordUsers says what became of users and of their steps.
func recordUsers(t *rundir.Trial, r *record.Result) {
	if len(r.Steps) == 0 {
		return
	}
	for i := range r.Steps {
		from := &r.Steps[i]
		s := rundir.ScenarioStep{CompletedInWindow: signed(from.Completed), Tokens: tokens(from.Tokens, r.Window)}
		sums.Copy(&s, from)
		sums.Copy(&s, &from.Counts)
		for kind, n := range from.Counts.ByKind {
			if n > 0 && s.ByKind == nil {
				s.ByKind = map[string]int64{}
			}
			if n > 0 {
				s.ByKind[wire.Kind(kind).String()] = signed(n)
			}
		}
		if r.Window > 0 {
			throughput := float64(from.Completed) / r.Window.Seconds()
			s.Throughput = &throughput
		}
		t.Steps = append(t.Steps, s)
	}
	u := &r.Users
	t.Users = &rundir.Users{}
	sums.Copy(t.Users, u)
	for _, m := range u.Misses {
		if m.Count > 0 {
			t.Users.Misses = append(t.Users.Misses, rundir.Miss{Step: r.Steps[m.Step].Name, Variable: m.Name, Count: signed(m.Count)})
		}
	}
}

// secured says what became of TLS handshakes; nil where there were none.
func secured(h *record.Handshakes) *rundir.TLS {
	if h.Completed+h.Failed == 0 {
		return nil
	}
	t := &rundir.TLS{Handshakes: signed(h.Completed)}
	sums.Copy(t, h)
	if h.Completed > 0 {
		share := float64(h.Resumed) / float64(h.Completed)
		t.ResumedShare = &share
	}
	t.Agreed = make([]rundir.Agreement, len(h.Agreed))
	for i := range h.Agreed {
		sums.Copy(&t.Agreed[i], &h.Agreed[i])
	}
	return t
}

func silence(s *record.Silence) rundir.Silence {
	var r rundir.Silence
	sums.Copy(&r, s)
	if s.Answered {
		r.Last = new(s.Last.Seconds())
	}
	return r
}

// conservation checks three accounts: the window's requests, those carried into the
// window, and all.
func conservation(r *record.Result) rundir.Conservation {
	err := errors.Join(r.Counts.Conserved(), r.Carried.Conserved(), r.AllCounts.Conserved())
	if err != nil {
		return rundir.Conservation{Detail: err.Error()}
	}
	return rundir.Conservation{OK: true}
}

// byText is how often something was said.
func byText(of map[string]uint64) map[string]int64 {
	m := make(map[string]int64, len(of))
	for text, n := range of {
		m[text] = signed(n)
	}
	return m
}

// generatorFigures sums up what the load cost dyno. In a duet dyno's process has two loads, so
// only the workers of the one count.
func generatorFigures(r *record.Result, workers int, work int64, duet bool) rundir.Generator {
	g := rundir.Generator{Workers: workers}
	used := r.Process
	if duet {
		used = r.Workers
	}
	// Polling before a start is a choice and not load: the worker would otherwise sleep.
	busy := max(0, used.Total()-r.Spun).Seconds()
	g.CPUSeconds = &busy
	if work > 0 {
		per := busy / float64(work)
		g.CPUSecondsPerRequest = &per
	}
	if r.Window > 0 {
		share := max(0, r.Workers.Total()-r.Spun).Seconds() / r.Window.Seconds() / float64(workers)
		g.CPUShare = &share
	}
	if total := used.Total(); total > 0 {
		user := float64(used.User) / float64(total)
		g.UserShare = &user
	}
	return g
}

// signed converts a count. Counts of requests are far below the limit.
func signed(n uint64) int64 { return int64(n) } //nolint:gosec // see above
