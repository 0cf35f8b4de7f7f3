package trial

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dyno/host/child"
	"dyno/lab/plan"
	"dyno/load/engine"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/hist"
	"dyno/load/pace"
	"dyno/load/wire"
	"dyno/results/rundir"
)

// If a load has more connections than one process has descriptors for, or the plan says so,
// several processes carry it: dyno itself, and parts, which are dyno's own executable started
// again. Subscribers are divided by their numbers, and dyno itself has all publishers. A load
// of requests is divided by pace.Shard: arrivals, users and rows of data, each once; its
// connections, and whatever is counted or bounded, are divided evenly. The processes exchange
// lines of JSON over a part's standard input and output, so a part learns at once when dyno
// is gone.
//
//	to a part:   its plan, when to start, what was published
//	from a part: who it is, its intervals, what it has published, its result and its latency log

// Role is the role of a process that carries a part of a load.
func Role() child.Role {
	return child.Role{Name: "__carry-part", Main: func([]string) int { return runPart(os.Stdin, os.Stdout) }}
}

// A partPlan is the work of a part: a portion of a variant's load, whose run-time variables
// are filled in.
type partPlan struct {
	Variant  *plan.Variant
	Seed     uint64
	Portion  portion
	Warmup   time.Duration
	Window   time.Duration
	Interval time.Duration
}

// A portion is what one process carries of a load: Count subscribers, from number First on,
// or a shard of the requests.
type portion struct {
	First, Count int
	Shard        pace.Shard
}

// A partReport is a message from a part. One of its fields is set.
type partReport struct {
	Party     *engine.Party    `json:"party,omitempty"`
	Interval  *record.Interval `json:"interval,omitempty"` // without latencies
	Published *publications    `json:"published,omitempty"`
	Result    *record.Result   `json:"result,omitempty"` // without latencies: the log follows, to the end of the output
	Failed    string           `json:"failed,omitempty"`
}

// A partOrder is a message to a part. One of its fields is set.
type partOrder struct {
	Plan      *partPlan     `json:"plan,omitempty"`
	Start     *startSignal  `json:"start,omitempty"`
	Published *publications `json:"published,omitempty"`
	Stop      bool          `json:"stop,omitempty"` // at once: the run is interrupted
}

type startSignal struct {
	At  int64 // Unix time in nanoseconds
	All engine.Party
}

type publications struct{ Sources []wire.Source }

// The bounds of parts.
const (
	maxParts = 64
	// descriptorReserve is how many descriptors a process needs in addition to
	// connections: for files, pollers, observers, and what dyno has open for the target.
	descriptorReserve = 256
	// partLead is how long before the warm-up all parts learn when it begins.
	partLead = 50 * time.Millisecond
	// partPatience is how long a part may take beyond the time that its work needs.
	partPatience = 30 * time.Second
	// maxPartLine bounds a line of the exchange. A million sources with their uncertain
	// numbers could need a few hundred MiB, but a load with a million publishers makes no
	// sense.
	maxPartLine = 64 << 20
	// maxSaid is more than the number of messages from a part, without intervals.
	maxSaid = 8
)

// carry runs a load, in as many processes as its connections need, or as the plan says.
func carry(ctx context.Context, v *experiment.Variant, seed uint64, c engine.Config) (*record.Result, error) {
	portions, err := split(c, v.Load.Processes)
	if err != nil {
		return nil, err
	}
	if len(portions) > 1 && c.Barrier != nil {
		return nil, &PlanError{errors.New("load: it takes several processes, and each variant of a duet has one: raise the limit of descriptors (ulimit -n)")}
	}
	return carryAs(ctx, v, seed, c, portions)
}

// carryAs runs a load that is divided among processes.
func carryAs(ctx context.Context, v *experiment.Variant, seed uint64, c engine.Config, portions []portion) (*record.Result, error) {
	if len(portions) == 1 {
		return engine.Run(ctx, c)
	}
	var parts []*part
	// Kill the parts that were not waited for.
	defer func() {
		for _, p := range parts {
			_ = p.kill() // it does not matter any more how it ended
		}
	}()
	for n, of := range portions[1:] {
		p, err := startPart(partPlan{Variant: v, Seed: seed, Portion: of, Warmup: c.Warmup, Window: c.Window, Interval: c.Interval})
		if err != nil {
			return nil, fmt.Errorf("start process %d of %d that carry the load: %w", n+2, len(portions), err)
		}
		parts = append(parts, p)
	}
	own := partOf(c, portions[0])
	own.Barrier = &coordinator{parts: parts}
	if c.OnInterval != nil {
		own.OnInterval = func(i record.Interval) {
			for _, p := range parts {
				p.addTo(&i)
			}
			c.OnInterval(i)
		}
	}
	stop := context.AfterFunc(ctx, func() {
		for _, p := range parts {
			_ = p.tell(partOrder{Stop: true}) // if this fails, the part is already gone
		}
	})
	defer stop()
	result, err := engine.Run(ctx, own)
	if result == nil {
		for _, p := range parts {
			err = errors.Join(err, p.fault())
		}
		return nil, err
	}
	for _, p := range parts {
		of, failed := p.result()
		if failed == nil {
			failed = result.Merge(of)
		}
		err = errors.Join(err, failed)
	}
	return result, err
}

// split returns what each process carries. There is one entry if this process has
// descriptors for all, unless more are wanted.
func split(c engine.Config, wanted int) (portions []portion, err error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, fmt.Errorf("descriptors: %w", err)
	}
	room := int(min(limit.Cur, subscribe.Max)) - descriptorReserve //nolint:gosec // bounded
	if c.Subscribers == nil {
		n := processesFor(c, wanted, room)
		if n > maxParts {
			return nil, &PlanError{fmt.Errorf("load: %d connections take more than %d processes of %d descriptors: raise the limit (ulimit -n)",
				c.Connections, maxParts, limit.Cur)}
		}
		for i := range n {
			portions = append(portions, portion{Shard: pace.Shard{Index: i, Count: n}})
		}
		return portions, nil
	}
	counts := shares(c.Subscribers.Count, c.Connections, room)
	if counts == nil {
		return nil, &PlanError{fmt.Errorf("load.subscribers.connections: %d subscribers take more than %d processes of %d descriptors: raise the limit (ulimit -n)",
			c.Subscribers.Count, maxParts, limit.Cur)}
	}
	return inOrder(counts), nil
}

// inOrder makes portions of n subscribers each.
func inOrder(counts []int) (portions []portion) {
	first := 0
	for _, n := range counts {
		portions = append(portions, portion{First: first, Count: n})
		first += n
	}
	return portions
}

// processesFor is how many processes carry a load of requests, each with room for a number
// of connections: as many as are wanted, if that is enough, but none without a connection,
// a user or a request.
func processesFor(c engine.Config, wanted, room int) int {
	n := max(1, wanted, (c.Connections+max(room, 1)-1)/max(room, 1))
	n = min(n, max(c.Connections, 1))
	if c.Users != nil && c.Users.Count > 0 {
		n = min(n, c.Users.Count)
	}
	if c.Requests > 0 {
		n = int(min(uint64(n), c.Requests)) //nolint:gosec // bounded by the connections
	}
	return n
}

// shares divides subscribers among processes, each with room for the given number of
// connections. The first process also has the publishers. It returns nil if that takes
// too many processes.
func shares(subscribers, publishers, room int) []int {
	if subscribers+publishers <= room {
		return []int{subscribers}
	}
	own := room - publishers
	if own < 1 {
		return nil
	}
	counts := []int{own}
	for left := subscribers - own; left > 0; left -= room {
		counts = append(counts, min(left, room))
	}
	if len(counts) > maxParts {
		return nil
	}
	return counts
}

// partOf is a portion of a load. Of one with subscribers, only the first publishes.
func partOf(c engine.Config, of portion) engine.Config {
	if c.Subscribers == nil {
		return shardOf(c, of.Shard)
	}
	first, count := of.First, of.Count
	whole := *c.Subscribers
	s := whole
	s.Count = count
	s.Ramp = whole.Ramp * float64(count) / float64(whole.Count)
	s.Slow = max(0, min(count, whole.Slow-first))
	s.NewStreams = func(worker int) func(int) wire.Stream {
		of := whole.NewStreams(worker)
		return func(subscriber int) wire.Stream { return of(first + subscriber) }
	}
	c.Subscribers = &s
	if first > 0 {
		c.Connections, c.Schedule, c.NewClients = 0, nil, nil
		c.Think = engine.Config{}.Think
	}
	c.Workers = min(c.Workers, max(c.Connections, count))
	return c
}

// shardOf is a shard of a load of requests. The threads of all shards are as many as the
// plan's, and have its CPUs in turn; but no shard is without.
func shardOf(c engine.Config, s pace.Shard) engine.Config {
	c.Shard = s
	before := 0 // threads of the shards before this one
	for i := range s.Index {
		before += max(1, shareOf(c.Workers, pace.Shard{Index: i, Count: s.Count}))
	}
	c.Workers = max(1, shareOf(c.Workers, s))
	c.Connections = shareOf(c.Connections, s)
	c.MaxWaiting = max(1, shareOf(c.MaxWaiting, s))
	c.Requests = uint64(shareOf(int(c.Requests), s)) //nolint:gosec // fits: see load.requests
	if c.Users != nil {
		u := *c.Users
		if u.Count > 0 {
			u.Count = shareOf(u.Count, s)
			c.Workers = min(c.Workers, u.Count)
		}
		c.Users = &u
	}
	c.Workers = min(c.Workers, c.Connections)
	if n := len(c.CPUs); n > 0 {
		c.CPUs = slices.Concat(c.CPUs[before%n:], c.CPUs[:before%n])
	}
	return c
}

// shareOf is a shard's share of a number of things.
func shareOf(total int, s pace.Shard) int {
	n := total / s.Count
	if s.Index < total%s.Count {
		n++
	}
	return n
}

// A part is a process that carries a part of the load.
type part struct {
	command *exec.Cmd
	reports *bufio.Reader
	output  io.ReadCloser

	mu     sync.Mutex // guards orders
	orders *json.Encoder
	input  io.WriteCloser

	// said has the part's messages, except for its intervals. It has room for all of
	// them, and is closed after the last one; from then on its receiver may read reports.
	said    chan partReport
	lost    error // why there were no more messages; to be read when said is closed
	counted tally

	waited bool
}

// A tally sums up what a part did since the last reading.
type tally struct {
	mu sync.Mutex // guards of
	of record.Interval
}

func startPart(plan partPlan) (*part, error) {
	command := Role().Command(os.Environ())
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &part{command: command, reports: bufio.NewReader(output), output: output, orders: json.NewEncoder(input), input: input, said: make(chan partReport, maxSaid)}
	go p.listen()
	if err := p.tell(partOrder{Plan: &plan}); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

func (p *part) tell(o partOrder) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.orders.Encode(o)
}

// listen reads the part's messages up to the outcome of the load.
func (p *part) listen() {
	defer close(p.said)
	for range maxSaid {
		r, err := p.next()
		if err != nil {
			p.lost = err
			return
		}
		p.said <- r
		if r.Result != nil {
			return
		}
	}
	p.lost = errors.New("it sends more messages than it should")
}

// next reads the next message that is not an interval, and adds up the intervals before
// it.
func (p *part) next() (partReport, error) {
	for {
		var r partReport
		line, err := readLine(p.reports)
		if err == nil {
			err = json.Unmarshal(line, &r)
		}
		if err != nil || r.Interval == nil {
			return r, err
		}
		p.counted.mu.Lock()
		sum := &p.counted.of
		sum.AddCounts(r.Interval)
		sum.Connections = r.Interval.Connections
		p.counted.mu.Unlock()
	}
}

// addTo adds what the part did since the last reading to an interval. The latencies of an
// interval are only those of dyno's own process.
func (p *part) addTo(i *record.Interval) {
	p.counted.mu.Lock()
	defer p.counted.mu.Unlock()
	sum := &p.counted.of
	i.AddCounts(sum)
	i.Connections += sum.Connections
	*sum = record.Interval{Connections: sum.Connections}
}

// hear waits for the next message.
func (p *part) hear() (partReport, error) {
	r, more := <-p.said
	if !more {
		return r, fmt.Errorf("a process that carries a part of the load: %w", p.lost)
	}
	return r, r.failure()
}

// failure returns the error that a part reports, or nil.
func (r *partReport) failure() error {
	if r.Failed == "" {
		return nil
	}
	return fmt.Errorf("a process that carries a part of the load: %s", r.Failed)
}

// fault returns why a part failed, if it has reported that. The part has nothing more to
// do.
func (p *part) fault() error {
	_ = p.input.Close() // if this fails, the part is already gone, and may have reported why
	r, err := p.hear()
	for err == nil && r.Result == nil {
		r, err = p.hear()
	}
	return r.failure()
}

// result waits for the part's result, and for its end.
func (p *part) result() (*record.Result, error) {
	r, err := p.hear()
	for err == nil && r.Result == nil {
		r, err = p.hear()
	}
	if err != nil {
		return nil, err
	}
	_, intervals, err := hist.ReadLog(p.reports)
	if err != nil {
		return nil, fmt.Errorf("latencies of a process that carries a part of the load: %w", err)
	}
	restore(r.Result, intervals)
	p.waited = true
	return r.Result, p.command.Wait()
}

// kill ends a part that was not waited for.
func (p *part) kill() error {
	if p.waited {
		return nil
	}
	p.waited = true
	_ = p.input.Close() // whatever it was doing
	_ = p.command.Process.Kill()
	return p.command.Wait()
}

// A coordinator joins dyno's own engine to those of the parts.
type coordinator struct{ parts []*part }

var _ engine.Barrier = (*coordinator)(nil)

// Join collects the shares of all parts and sets when the warm-up begins.
func (c *coordinator) Join(ctx context.Context, self engine.Party) (all engine.Party, start time.Time, err error) {
	release := context.AfterFunc(ctx, c.abandon)
	defer release()
	all = self
	for _, p := range c.parts {
		r, err := p.hear()
		if err != nil {
			return all, start, errors.Join(context.Cause(ctx), err)
		}
		if r.Party == nil {
			return all, start, errors.New("a process that carries a part of the load did not report its start")
		}
		all.Threads = append(all.Threads, r.Party.Threads...)
		all.Sources = append(all.Sources, r.Party.Sources...)
	}
	start = time.Now().Add(partLead)
	for _, p := range c.parts {
		if err := p.tell(partOrder{Start: &startSignal{At: start.UnixNano(), All: all}}); err != nil {
			return all, start, err
		}
	}
	return all, start, nil
}

// WaitPublished collects what was published and tells the parts.
func (c *coordinator) WaitPublished(ctx context.Context, published []wire.Source) ([]wire.Source, error) {
	release := context.AfterFunc(ctx, c.abandon)
	defer release()
	all := published
	for _, p := range c.parts {
		r, err := p.hear()
		if err != nil {
			return nil, errors.Join(context.Cause(ctx), err)
		}
		if r.Published == nil {
			return nil, errors.New("a process that carries a part of the load did not report what it published")
		}
		all = append(all, r.Published.Sources...)
	}
	for _, p := range c.parts {
		if err := p.tell(partOrder{Published: &publications{all}}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// abandon ends every wait for a part.
func (c *coordinator) abandon() {
	for _, p := range c.parts {
		_ = p.output.Close() // it may already be closed
	}
}

// readLine reads a line of the exchange.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxPartLine:
			return nil, fmt.Errorf("a line longer than %d bytes", maxPartLine)
		}
	}
}

// runPart carries a part of a load as standard input says, and returns the exit code. It
// ends as soon as standard input does.
func runPart(stdin io.Reader, stdout io.Writer) int {
	// Ctrl-C in a terminal reaches every process, but dyno decides when to stop.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m := &participant{output: json.NewEncoder(stdout), start: make(chan startSignal, 1), published: make(chan publications, 1)}
	orders := bufio.NewReader(stdin)
	var plan partOrder
	line, err := readLine(orders)
	if err == nil {
		err = json.Unmarshal(line, &plan)
	}
	if err == nil && plan.Plan == nil {
		err = errors.New("no plan")
	}
	if err == nil {
		go m.follow(orders, cancel)
		err = m.carry(ctx, plan.Plan, stdout)
	}
	if err != nil {
		_ = m.say(partReport{Failed: err.Error()}) // if this fails, nobody is left to read it
		return 1
	}
	return 0
}

// A participant is the part's own side of the exchange.
type participant struct {
	mu     sync.Mutex // guards output
	output *json.Encoder

	start     chan startSignal  // one
	published chan publications // one
}

func (m *participant) say(r partReport) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.output.Encode(r)
}

var _ engine.Barrier = (*participant)(nil)

// follow reads orders until they end, which means that dyno is dead.
func (m *participant) follow(orders *bufio.Reader, cancel func()) {
	for {
		var o partOrder
		line, err := readLine(orders)
		if err == nil {
			err = json.Unmarshal(line, &o)
		}
		switch {
		case err != nil:
			os.Exit(1)
		case o.Start != nil:
			m.start <- *o.Start
		case o.Published != nil:
			m.published <- *o.Published
		case o.Stop:
			cancel()
		}
	}
}

func (m *participant) carry(ctx context.Context, plan *partPlan, stdout io.Writer) (err error) {
	whole, codecs, err := engineConfig(plan.Variant, plan.Seed)
	if err != nil {
		return err
	}
	defer func() {
		if failed := codecs.Close(); failed != nil {
			err = errors.Join(err, failed)
		}
	}()
	c := partOf(whole, plan.Portion)
	c.Warmup, c.Window, c.Interval, c.Barrier = plan.Warmup, plan.Window, plan.Interval, m
	c.OnInterval = func(i record.Interval) {
		i.Latency = [record.Tags]*hist.Histogram{}
		_ = m.say(partReport{Interval: &i}) // if this fails, dyno is dead: the orders end, and so does this process
	}
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), c.Workers+processorsBeside))
	runtime.GC()
	if c.Window > 0 { // otherwise only the number of requests ends it
		var release func()
		ctx, release = context.WithTimeout(ctx, rampOf(c)+c.Warmup+c.Window+c.Drain+partPatience)
		defer release()
	}
	result, err := engine.Run(ctx, c)
	if result == nil {
		return err
	}
	bare := *result
	bare.Intervals, bare.Latency = nil, [record.Tags]*hist.Histogram{}
	for _, i := range result.Intervals {
		i.Latency = [record.Tags]*hist.Histogram{}
		bare.Intervals = append(bare.Intervals, i)
	}
	bare.Steps = slices.Clone(result.Steps)
	for i := range bare.Steps {
		s := &bare.Steps[i]
		s.Response, s.Service, s.FirstToken, s.TokenTime = nil, nil, nil, nil
	}
	if err := m.say(partReport{Result: &bare}); err != nil {
		return err
	}
	return writeLatency(stdout, result)
}

// rampOf is how long a part may take until it has tried to open all its connections.
func rampOf(c engine.Config) time.Duration {
	d := 2 * c.ConnectTimeout
	if s := c.Subscribers; s != nil && s.Ramp > 0 {
		d += time.Duration(float64(s.Count) / s.Ramp * float64(time.Second))
	}
	return d
}

// Join reports this part's share and waits for the start.
func (m *participant) Join(ctx context.Context, self engine.Party) (all engine.Party, start time.Time, err error) {
	if err := m.say(partReport{Party: &self}); err != nil {
		return all, start, err
	}
	select {
	case begin := <-m.start:
		return begin.All, time.Unix(0, begin.At), nil
	case <-ctx.Done():
		return all, start, context.Cause(ctx)
	}
}

// WaitPublished reports what this part has published and waits for what all have published.
func (m *participant) WaitPublished(ctx context.Context, published []wire.Source) ([]wire.Source, error) {
	if err := m.say(partReport{Published: &publications{published}}); err != nil {
		return nil, err
	}
	select {
	case s := <-m.published:
		return s.Sources, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// restore puts a log's latencies back where they were recorded.
func restore(r *record.Result, intervals []hist.Interval) {
	tags := map[string]record.Tag{}
	for t := range record.Tags {
		tags[t.String()] = t
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
		tag, known := tags[i.Tag]
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
