package rundir

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/internal/texts"
)

// SchemaVersion is the version of run.json and trial.json written here.
// Readers refuse any other.
const SchemaVersion = 3

// The methods that make the low and high of an Estimate, as Estimate.Interval names them.
// NoInterval means that no interval is claimed, for example for a single trial.
const (
	NoInterval        = "none claimed"
	ByStudent         = "Student's t over trials"                          // on logarithms, where all values are above zero
	ByPairedStudent   = "Student's t over the rounds' log ratios"          // paired
	ByStudentPairs    = "Student's t over the rounds' differences"         // paired
	ByHodgesLehmann   = "Hodges-Lehmann, signed ranks over rounds"         // paired
	ByShare           = "test of the share above, of the merged histogram" // a quantile
	ByOmission        = "what users who waited in vain did not send: from none of it to as much as the others sent"
	ByLostRounds      = "every round was lost: nothing was answered" // nothing is estimated
	ByStudentWithZero = "Student's t over trials, not on logarithms: a trial has a zero"
	ByWelch           = "Welch's t over trials, unpaired"    // of two runs
	ByTheilSen        = "Theil-Sen, widened for dependence"  // a slope
	ByStudentLogit    = "Student's t over trials, on logits" // a share
	ByClopperPearson  = "Clopper-Pearson, of none or of all" // a share that no trial had any of, or nothing else
)

// The purposes of a trial, in Trial.Purpose. An ordinary one has none.
const (
	PurposePilot = "pilot" // it found how long the warm-up must be; no figure uses it
	PurposeProbe = "probe" // it tried one rate in a search for capacity; no figure of its own uses it
	// PurposeProfile is for a trial in which the target was profiled, which costs it
	// something. Only the figures of the profiles use it.
	PurposeProfile = "profile"
	// PurposeIdle is for the base alone, next to a variant of a duet that is up and has no
	// load. No figure uses it, only the idle-neighbour check.
	PurposeIdle = "idle_neighbour"
)

// The roles of a comparison, in Comparison.Role. An ordinary one, of a variant
// with the base, has none.
const (
	RoleControl = "control"  // A/A: the base with itself under an alias
	RoleStep    = "step"     // a ladder's step with the one before
	RoleLeftOut = "left out" // a ladder without one step, with the whole ladder
	RolePair    = "pair"     // two variants neither of which is the base
)

// The outcomes of a check.
const (
	CheckOK        = "ok"
	CheckWarning   = "warning"   // worth a word
	CheckDisturbed = "disturbed" // beyond the limit fixed beforehand
	// CheckBroken says that the target did not do what was asked of it. The figures are
	// right, and the run is not a success.
	CheckBroken  = "broken"
	CheckUnknown = "unknown" // it could not be made
)

// The states of a figure, which say how far it can be trusted.
const (
	// StateOK: disturbances move the figure by at most half of its interval's half-width. A
	// latency may also move by a tenth, and another figure by a twentieth. Low and High say how
	// far.
	StateOK = "ok"
	// StateBounded: the true value lies within the bounds.
	StateBounded = "bounded"
	// StateRelative: the value itself has the same bias for all variants. Ratios are valid.
	StateRelative = "relative_only"
	// StateNotIdentified: nothing is known.
	StateNotIdentified = "not_identified"
)

// CauseAgentClocks is the cause of a figure's state that is no check: the figure holds times of several agents' clocks. It
// may be wrong either way.
const CauseAgentClocks = "agent_clocks"

// The subjects of a check or a flag.
const (
	AboutTarget    = "target"    // a finding about what is measured
	AboutGenerator = "generator" // dyno, or the CPUs that it was given
	AboutMachine   = "machine"   // what else went on
	AboutPlan      = "plan"      // the load or the design
)

// The outcomes of a threshold.
const (
	Kept           = "ok"
	KeptAsMeasured = "kept as measured" // too few requests, or a disturbance, leave it unsure
	Broken         = "broken"
	Undecided      = "inconclusive" // a figure is missing, or dyno was the limit
)

// A Run is run.json. Times are seconds, sizes bytes, ratios and shares plain
// numbers. A nil pointer is a value that is not known; it is left out.
type Run struct {
	SchemaVersion int          `json:"schema_version"`
	Name          string       `json:"name"`
	Question      string       `json:"question,omitempty"`
	StartedAt     time.Time    `json:"started_at"`
	FinishedAt    *time.Time   `json:"finished_at,omitempty"`
	Complete      bool         `json:"complete"`          // every planned trial was measured
	Reason        *Message     `json:"reason,omitempty"`  // why the run is not complete or not valid
	Valid         bool         `json:"valid"`             // everything that was asked for is identified
	NoRoom        *Message     `json:"no_room,omitempty"` // why the run shows nothing: its control or its disturbances leave no room for a verdict
	TrialsPlanned int          `json:"trials_planned"`    // rounds × variants, and pilots; 0 for a search, whose results decide how many there are
	Plan          Plan         `json:"plan"`              // what was to be measured
	Environment   Environment  `json:"environment"`       // where
	Rounds        int          `json:"rounds"`            // how many were measured whole
	Stopped       *Message     `json:"stopped,omitempty"` // why there were no more
	Chosen        *Message     `json:"chosen,omitempty"`  // why the design is as it is, if a pilot has chosen it
	Pilot         *Pilot       `json:"pilot,omitempty"`
	Variants      []Variant    `json:"variants"` // in the plan's order
	Comparisons   []Comparison `json:"comparisons"`
	Ladder        []Step       `json:"ladder,omitempty"`
	Sweeps        []Sweep      `json:"sweeps,omitempty"`
	Capacities    []Capacity   `json:"capacities,omitempty"`
	Trends        []Trend      `json:"trends,omitempty"` // of a soak
	Thresholds    []Threshold  `json:"thresholds"`
	Claims        []Claim      `json:"claims"`
	Validity      []Validity   `json:"validity"` // of each figure
	Flags         []Flag       `json:"flags"`
	Trials        []Examined   `json:"trials,omitempty"`       // by number
	Notes         []Message    `json:"notes,omitempty"`        // what a reader should know in addition to the figures
	Command       []string     `json:"command_line,omitempty"` // how dyno was called
	DynoVersion   string       `json:"dyno_version,omitempty"` // the version, and which build of it: builds of the same content have the same one
}

// HasStoppingRule tells whether the number of rounds depends on what is measured.
func (p *Plan) HasStoppingRule() bool { return p.Stop == "precision" || p.Stop == "looks" }

// IsJudged tells whether the run has a verdict: a judged run has figures, or what is missing of them, for each variant.
func (r *Run) IsJudged() bool { return len(r.Variants) > 0 }

// A Plan is what the run was asked to do.
type Plan struct {
	File         string            `json:"file,omitempty"`   // the experiment file's name
	Source       string            `json:"source,omitempty"` // its text
	Masked       bool              `json:"masked,omitempty"` // credentials are masked in what the user wrote
	Short        bool              `json:"short"`
	Rounds       int               `json:"rounds"`
	Seed         uint64            `json:"seed"`
	Stop         string            `json:"stop,omitempty"`   // fixed, precision or looks
	Margin       float64           `json:"margin,omitempty"` // the difference that matters, a share
	Metric       string            `json:"metric,omitempty"` // the one that the stopping rule and the verdict go by
	Base         string            `json:"base,omitempty"`
	Control      string            `json:"control,omitempty"`   // the variant that is another under an alias
	Remeasure    int               `json:"remeasure,omitempty"` // how many disturbed rounds may be measured again
	Pairs        bool              `json:"pairs,omitempty"`     // all variants are compared with each other
	Duet         *PlanDuet         `json:"duet,omitempty"`      // nil: one variant at a time
	Set          map[string]string `json:"set,omitempty"`       // what replaced the file's values
	Ladder       *PlanLadder       `json:"ladder,omitempty"`
	Sweep        []Dimension       `json:"sweep,omitempty"`
	Capacity     *PlanCapacity     `json:"capacity,omitempty"`
	Soak         bool              `json:"soak,omitempty"`
	Profile      *PlanProfile      `json:"profile,omitempty"`
	PilotSeconds float64           `json:"pilot_seconds,omitempty"` // how long each pilot lasts; none without
	Thresholds   []string          `json:"thresholds,omitempty"`
	Claims       []PlanClaim       `json:"claims,omitempty"`
	Protocol     string            `json:"protocol"`
	Loop         string            `json:"loop"` // closed or open
	Variants     []PlanVariant     `json:"variants"`
	LeftOut      []LeftOut         `json:"left_out,omitempty"` // variants of the experiment that this run does not measure
}

// A LeftOut is a variant that is not measured.
type LeftOut struct {
	Variant string `json:"variant"`
	Why     string `json:"why,omitempty"` // what its build printed last; empty: the short form or an option leaves it out
}

// A PlanDuet says where the two variants are that are measured at once. Each of them has
// one CPU set in one round, and the other in the next.
type PlanDuet struct {
	CPUSets [2]CPUSet `json:"cpu_sets"`
}

// A CPUSet is the CPUs of one of two variants that are measured at once: of its load's
// generator, and of its target and services. They may be the same.
type CPUSet struct {
	LoadCPUs   []int `json:"load_cpus"`
	TargetCPUs []int `json:"target_cpus"`
}

// Shared tells whether the generator is on its target's own CPUs.
func (s CPUSet) Shared() bool { return slices.Equal(s.LoadCPUs, s.TargetCPUs) }

// A Duet says which variant ran at the same time as a trial, and which CPU set the trial
// had.
type Duet struct {
	Peer   string `json:"peer"`             // the other variant
	Trial  int    `json:"trial,omitempty"`  // its number; 0 where that was up without load
	CPUSet int    `json:"cpu_set"`          // of Plan.Duet.CPUSets: 0 or 1
	Shared bool   `json:"shared,omitempty"` // the generator is on its target's own CPUs
}

// Peer is the variant that ran at the same time as the trial; empty for a trial that ran
// alone.
func (t *Trial) Peer() string {
	if t.Duet == nil {
		return ""
	}
	return t.Duet.Peer
}

// A PlanLadder names the variants that are steps, in their order: each has the changes of
// all before it. WithoutStep are variants that have all changes of the last step, except
// those of one step.
type PlanLadder struct {
	Steps       []string          `json:"steps"`
	WithoutStep map[string]string `json:"without_step,omitempty"` // variant → the step left out
}

// A PlanProfile says which trials of their own take profiles.
type PlanProfile struct {
	Kinds         []string `json:"kinds"`
	By            string   `json:"by"` // how CPU time is sampled
	Rounds        int      `json:"rounds"`
	WindowSeconds float64  `json:"window_seconds,omitempty"`
}

// A Dimension is a variable of a sweep with its values.
type Dimension struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// A PlanCapacity says how the highest rate within the thresholds is searched for
// (RFC 9971). Rates are in requests per second.
type PlanCapacity struct {
	From       float64 `json:"from_per_second"`
	To         float64 `json:"to_per_second"`
	Resolution float64 `json:"resolution"` // relative width of the bracket, a share
	Trials     int     `json:"trials"`     // at most, for each rate
	Tolerate   float64 `json:"tolerate"`   // the share of bad trials a rate may have
}

// A PlanClaim is a statement to check, with its expressions.
type PlanClaim struct {
	ID          string `json:"id"`
	Says        string `json:"says"`
	Published   string `json:"published,omitempty"`    // a size
	Measured    string `json:"measured,omitempty"`     // the expression of what is held against it
	Holds       string `json:"holds,omitempty"`        // the condition of a claim without a size
	NotTestable string `json:"not_testable,omitempty"` // the reason
}

// A PlanVariant is a variant with its variables, as they were resolved.
type PlanVariant struct {
	Name        string            `json:"name"`
	AliasOf     string            `json:"alias_of,omitempty"` // the variant that this one is, measured again as a control
	Variables   map[string]string `json:"variables,omitempty"`
	Loop        string            `json:"loop"` // closed, open, or stream: subscribers to events that the target makes itself
	Connections int               `json:"connections"`
	// A search for capacity begins with Connections, and a trial of it may have MostConnections:
	// ConnectionsLimit says why no more, and what raises that.
	MostConnections  int         `json:"most_connections,omitempty"`
	ConnectionsLimit *Message    `json:"connections_limit,omitempty"`
	Subscribers      int         `json:"subscribers,omitempty"`
	Rate             *float64    `json:"rate_per_second,omitempty"` // open loop without stages
	Stages           []PlanStage `json:"stages,omitempty"`          // of the window
	WarmupSeconds    float64     `json:"warmup_seconds"`
	WindowSeconds    float64     `json:"window_seconds"`
	Steps            []string    `json:"steps,omitempty"`     // of its scenario
	Request          string      `json:"request,omitempty"`   // what is sent, and to whom, such as GET http://127.0.0.1:8080/; the port of a target that trials start is {{port}}
	TraceURL         string      `json:"trace_url,omitempty"` // where a trace is looked at, with {id} in place of its id
	Started          bool        `json:"started,omitempty"`   // dyno started the target, whose output is in the trials' folders
}

// A PlanStage is a part of the window. In an open loop its rate per second goes linearly from one number to
// another; in a closed one, the number of users.
type PlanStage struct {
	Seconds float64 `json:"seconds"`
	From    float64 `json:"from"`
	To      float64 `json:"to"`
}

// A Stage is what was measured in a part of the window. A request belongs to the stage in which it ended.
type Stage struct {
	Planned    PlanStage `json:"planned"`
	OK         int64     `json:"ok"`
	Failed     int64     `json:"failed"`
	Throughput *float64  `json:"throughput_per_second,omitempty"` // good responses; nil if the run ended before the stage
	// InFlight is how many requests were in flight on average, by Little's law: the sum of their times over the length of the stage.
	InFlight *float64 `json:"in_flight,omitempty"`
	Times    Times    `json:"times,omitempty"` // by their tags in latency.hlog
}

// A Slow is one of a trial's slowest requests.
type Slow struct {
	TraceID  string  `json:"trace_id"`
	At       float64 `json:"at_seconds"` // when it was written, since the warm-up began
	Response float64 `json:"response_seconds"`
	Service  float64 `json:"service_seconds"`
	Status   string  `json:"status,omitempty"`
}

// Variant returns the plan of a variant. For one that is not in the plan, it returns only
// its loop.
func (p *Plan) Variant(name string) PlanVariant {
	for _, v := range p.Variants {
		if v.Name == name {
			return v
		}
	}
	return PlanVariant{Name: name, Loop: p.Loop}
}

// PrimaryMetric is the metric on which verdicts depend.
func (p *Plan) PrimaryMetric() string {
	switch {
	case p.Metric != "":
		return p.Metric
	case p.Capacity != nil:
		return MetricCapacity
	case p.Loop == "open":
		last := PlanVariant{Loop: p.Loop}
		if n := len(p.Variants); n > 0 {
			last = p.Variants[n-1]
		}
		return last.Latency() + ".p99"
	}
	return MetricThroughput
}

// Per names what a run's figures are per: an event where there are subscribers, else a request.
func (p *Plan) Per() string {
	if slices.ContainsFunc(p.Variants, func(v PlanVariant) bool { return v.Subscribers > 0 }) {
		return "event"
	}
	return "request"
}

// Latency names the times that judge a variant. For events, that is the delivery time to
// their subscribers. For requests, it is the response time where arrivals did not wait
// for responses, and otherwise the service time: a closed loop did not send what it was
// too slow to send.
func (v PlanVariant) Latency() string {
	switch {
	case v.Subscribers > 0:
		return TagDelivery
	case v.Loop == "open":
		return TagResponse
	}
	return TagService
}

// An Environment is the machine and its settings.
type Environment struct {
	Hostname        string            `json:"hostname,omitempty"`
	OS              string            `json:"os"`
	Arch            string            `json:"arch"`
	Kernel          string            `json:"kernel,omitempty"`
	CPUModel        string            `json:"cpu_model,omitempty"`
	CPUs            int               `json:"cpus"`
	AllowedCPUs     []int             `json:"allowed_cpus,omitempty"` // on which dyno may run
	Sysctls         map[string]string `json:"sysctls,omitempty"`      // as they were found
	SysctlsSet      map[string]string `json:"sysctls_set,omitempty"`  // by the run, and put back after it
	MemoryBytes     *int64            `json:"memory_bytes,omitempty"`
	Virtualization  string            `json:"virtualization,omitempty"`
	ClockSource     string            `json:"clock_source,omitempty"`
	Governor        string            `json:"cpu_governor,omitempty"`
	DescriptorLimit *int64            `json:"descriptor_limit,omitempty"`
	GoVersion       string            `json:"go_version"`
	Files           map[string]string `json:"files,omitempty"` // the SHA-256 of programs that are started, and of files that their commands name or the load reads
	GeneratorCPUs   []int             `json:"generator_cpus,omitempty"`
	TargetCPUs      []int             `json:"target_cpus,omitempty"`
	AwakeCPUs       []int             `json:"awake_cpus,omitempty"`  // in use, and kept from halting
	Unavailable     []Message         `json:"unavailable,omitempty"` // what could not be observed here, and why
}

// A Variant sums up the trials of one variant.
type Variant struct {
	Name   string `json:"name"`
	Trials int    `json:"trials"` // complete ones, which the figures use
	// Figures are the known figures, by the metric's name in expressions, such as response.p99. Throughput and what is per
	// request are of events where there are subscribers.
	Figures map[string]Estimate `json:"figures,omitempty"`
	// Few are quantiles with fewer than ten values beyond them, by the metric's name. Nothing is decided by them.
	Few  map[string]float64 `json:"figures_of_few,omitempty"`
	Ends *Ends              `json:"ends,omitempty"`
	// Omitted is the share of a closed loop's time in which users waited in vain. They did not
	// send their next requests in that time.
	Omitted  float64        `json:"omitted_share,omitempty"`
	Counts   Counts         `json:"counts"`
	Agents   []Agent        `json:"agents,omitempty"`   // that carried the load, in any of the trials; without any, dyno's machine did
	Streams  *Streams       `json:"streams,omitempty"`  // of subscribers
	Tokens   *Tokens        `json:"tokens,omitempty"`   // of language models
	Messages *Messages      `json:"messages,omitempty"` // nil where responses do not consist of several
	Loaded   *Loaded        `json:"loaded,omitempty"`   // nil of a program
	Steps    []ScenarioStep `json:"steps,omitempty"`    // of a scenario
	Stages   []Stage        `json:"stages,omitempty"`   // of the window
	Users    *Users         `json:"users,omitempty"`
	// Placed are the processes that ran on agents' machines in any of the trials. Each has the largest clock error of
	// its trials.
	Placed []Placement `json:"placed,omitempty"`
}

// Figure returns a figure of the variant, also one of few values; without an estimate if it is not known.
func (v *Variant) Figure(metric string) Estimate {
	if few, ok := v.Few[metric]; ok {
		return Estimate{Estimate: &few}
	}
	return v.Figures[metric]
}

// Variant returns a variant; of one that the run does not have, only its name.
func (r *Run) Variant(name string) *Variant {
	for i := range r.Variants {
		if r.Variants[i].Name == name {
			return &r.Variants[i]
		}
	}
	return &Variant{Name: name}
}

// Known returns the estimate of a figure; nil if it is not known.
func (v *Variant) Known(metric string) *float64 { return v.Figure(metric).Estimate }

// Tokens are of answers of language models, of which only good ones count: those that ended inside the window.
type Tokens struct {
	Count     int64    `json:"count"`
	PerSecond *float64 `json:"per_second,omitempty" sum:"-" metric:"tokens_per_second" unit:"/s" better:"more" about:"tokens of good answers a second"`
	// PromptPerSecond is missing if the server does not say it of each answer.
	PromptPerSecond *float64 `json:"prompt_per_second,omitempty" sum:"-" metric:"prompt_tokens_per_second" unit:"/s" better:"more" about:"tokens of the prompts of good answers a second"`
	// Within are the answers that keep within the goal of the load; without a goal, all do.
	Within  int64    `json:"within_goal"`
	Goodput *float64 `json:"goodput_per_second,omitempty" sum:"-" metric:"goodput" unit:"/s" better:"more" about:"answers a second that keep within both bounds of an SLO"`
}

// Messages are those of responses that consist of several, as streams of a server do: that arrived in the window.
type Messages struct {
	Count     int64    `json:"count"`
	PerSecond *float64 `json:"per_second,omitempty" sum:"-" metric:"messages_per_second" unit:"/s" better:"more" about:"messages of responses a second"`
}

// Loaded says what of the target was really loaded. Of several trials, counts are sums. What was open or allowed at once
// is that of the trial with the least.
type Loaded struct {
	// Protocols are the connections by what they spoke, such as HTTP/2; by ALPN if that follows its name.
	Protocols map[string]int64 `json:"protocols,omitempty"`
	Requested int64            `json:"connections_requested"`
	Peak      int64            `json:"connections_peak"`            // open at once
	Streams   int64            `json:"streams_requested,omitempty"` // on each connection; nothing: 1
	// Allowed is how many the target allows at once on a connection; nothing where it sets no limit.
	Allowed   int64     `json:"streams_allowed,omitempty"`
	Addresses []Address `json:"addresses,omitempty"`
}

// An Address is one that the target's name stands for. Connections, subscriptions included, are those from the beginning to
// the end. Requests are those of the window, and those carried into it; dropped ones had no address.
type Address struct {
	Address  string `json:"address"`
	Opened   int64  `json:"connections_opened"`
	Failed   int64  `json:"connections_failed"`
	Requests int64  `json:"requests"`
	Bad      int64  `json:"requests_failed"`
	// Unreachable is why no connection went to it: it accepted none when the load began.
	Unreachable string `json:"unreachable,omitempty"`
}

// An Estimate is a figure with its interval and the value of each trial, in the order of the
// rounds. An end of the interval that the data do not bound is nil. Throughput is in responses
// per second.
type Estimate struct {
	Estimate   *float64  `json:"estimate,omitempty"`
	Low        *float64  `json:"low,omitempty"`
	High       *float64  `json:"high,omitempty"`
	Confidence float64   `json:"confidence,omitempty"` // of the interval, such as 0.95
	Values     []float64 `json:"values,omitempty"`
	Interval   string    `json:"interval,omitempty"` // what Low and High are, or NoInterval
}

// SetInterval gives an estimate its interval. An infinite end is one that the data do not bound.
func (e *Estimate) SetInterval(low, high, confidence float64, method string) {
	e.Confidence, e.Interval = confidence, method
	e.Low, e.High = nil, nil
	if !math.IsInf(low, 0) {
		e.Low = &low
	}
	if !math.IsInf(high, 0) {
		e.High = &high
	}
}

// Quantiles summarise a latency histogram of Count values. A quantile is nil if no value lies
// beyond it. If fewer than Beyond do, nothing is decided by it (see Few).
type Quantiles struct {
	Count int64    `json:"count"`
	Mean  *float64 `json:"mean_seconds,omitempty"`
	P50   *float64 `json:"p50_seconds,omitempty"`
	P75   *float64 `json:"p75_seconds,omitempty"`
	P90   *float64 `json:"p90_seconds,omitempty"`
	P95   *float64 `json:"p95_seconds,omitempty"`
	P99   *float64 `json:"p99_seconds,omitempty"`
	P999  *float64 `json:"p999_seconds,omitempty"`
	P9999 *float64 `json:"p9999_seconds,omitempty"`
	Max   *float64 `json:"max_seconds,omitempty"`
}

// Ends says what ended the good responses, and the events, of the window: the arrival of
// their last segment at this machine, by the kernel's time stamp, or the generator's
// read. Response, service, first byte and the times of events end in that way.
type Ends struct {
	Clock        string   `json:"clock" sum:"-"` // arrival, if any ended so, or read
	ByArrival    int64    `json:"by_arrival"`
	ByRead       int64    `json:"by_read"`
	ArrivalShare *float64 `json:"by_arrival_share,omitempty" sum:"-"`

	// These ended by the read because their stamp was not credible: later than the read;
	// earlier than the write; or of a segment that the kernel held back because one
	// before it was lost or overtaken.
	Late  int64 `json:"refused_late,omitempty"`
	Early int64 `json:"refused_early,omitempty"`
	Stale int64 `json:"refused_stale,omitempty"`

	// Shared counts events by arrival that were followed by more events in the same read,
	// and have its stamp. The times shared_stamp say how much earlier they may have arrived.
	Shared int64 `json:"shared,omitempty"`

	Steps              int64   `json:"clock_steps,omitempty"`                   // of the real-time clock, which stamps are of
	UncertaintySeconds float64 `json:"uncertainty_seconds,omitempty" sum:"max"` // of the clocks' difference, at most
}

// The clocks that Ends names.
const (
	EndsByArrival = "arrival"
	EndsByRead    = "read"
)

// Complete sets the fields that follow from the counts.
func (e *Ends) Complete() {
	e.Clock = EndsByRead
	if e.ByArrival > 0 {
		e.Clock = EndsByArrival
	}
	e.ArrivalShare = nil
	if all := e.ByArrival + e.ByRead; all > 0 {
		share := float64(e.ByArrival) / float64(all)
		e.ArrivalShare = &share
	}
}

// Machine describes the rest of the machine during the window.
type Machine struct {
	StealShare   *float64 `json:"steal_share,omitempty"`   // of all CPUs' time
	ForeignShare *float64 `json:"foreign_share,omitempty"` // of all CPUs' time: busy with neither target nor generator
	// LateWakeupShare is the share of 5 ms sleeps that ended more than 1 ms late. A
	// thread that does nothing else sleeps on the generator's CPUs. Above 0.001 the p99.9
	// of the lateness is above 1 ms.
	LateWakeupShare *float64 `json:"late_wakeup_share,omitempty"`
	// TargetLateWakeupShare is that share on the target's CPUs, where they are its own.
	TargetLateWakeupShare *float64 `json:"target_late_wakeup_share,omitempty"`
	// MemoryStall and IOStall are shares of the window in which all non-idle tasks waited
	// for memory or for I/O. They are the "full" values of pressure stall information.
	MemoryStall *float64 `json:"memory_stall_share,omitempty"`
	IOStall     *float64 `json:"io_stall_share,omitempty"`
}

// A Comparison is of two variants in one metric. The ratio is variant over base.
type Comparison struct {
	Base    string   `json:"base"`
	Variant string   `json:"variant"`
	Metric  string   `json:"metric"`
	Role    string   `json:"role,omitempty"`    // see the Role constants
	Primary bool     `json:"primary,omitempty"` // in the plan's metric
	Good    string   `json:"good"`              // which direction is: higher or lower
	Rounds  int      `json:"rounds"`            // that it uses
	Ratio   Estimate `json:"ratio"`
	// Figure and BaseFigure are the metric of variant and base in the rounds of the ratio. The
	// ratio is their quotient. They are nil if a round was lost.
	Figure     *float64 `json:"figure,omitempty"`
	BaseFigure *float64 `json:"base_figure,omitempty"`
	P          *float64 `json:"p,omitempty"` // two-sided, for a ratio of one, of the test that belongs to the interval
	// SignFlipP is the exact p-value that assumes no distribution.
	SignFlipP *float64 `json:"sign_flip_p,omitempty"`
	// AdjustedP is P within its family, by the method named. Where there is one, a
	// verdict of better or worse needs it.
	AdjustedP  *float64 `json:"adjusted_p,omitempty"`
	Adjustment string   `json:"adjustment,omitempty"`
	// Equivalence is the interval that lies within the margin when the two are
	// equivalent.
	Equivalence *Estimate `json:"equivalence,omitempty"`
	// Detectable is the smallest change, a share, that this number of rounds finds in four
	// comparisons of five.
	Detectable *float64 `json:"detectable,omitempty"`
	// FurtherRounds is how many more would settle an inconclusive comparison, if
	// the spread stays as it is.
	FurtherRounds *int `json:"further_rounds,omitempty"`
	// AllRounds is the ratio including the disturbed rounds that were measured again.
	AllRounds *Estimate `json:"all_rounds,omitempty"`
	Verdict   string    `json:"verdict,omitempty"` // better, worse, equivalent, inconclusive or invalid
}

// The verdicts of a comparison.
const (
	Better     = "better"
	Worse      = "worse"
	Equivalent = "equivalent"
	Invalid    = "invalid" // the ratio is not identified

	Inconclusive = "inconclusive"
)

// A Step is a step of a ladder, in the primary metric. Comparisons holds the same pairs
// with all their figures.
type Step struct {
	Variant      string    `json:"variant"`
	Marginal     *Estimate `json:"marginal,omitempty"` // ratio to the step before; none of the first
	Verdict      string    `json:"verdict,omitempty"`  // on the marginal effect
	Total        *Estimate `json:"total,omitempty"`    // ratio to the first step
	TotalVerdict string    `json:"total_verdict,omitempty"`
	// LeftOut is the ratio of the whole ladder to the ladder without this step,
	// where that was measured.
	LeftOut        *Estimate `json:"left_out,omitempty"`
	LeftOutVerdict string    `json:"left_out_verdict,omitempty"`
}

// A Sweep describes a metric along one variable of a sweep whose values are numbers, with
// the others fixed.
type Sweep struct {
	Variable string            `json:"variable"`
	Fixed    map[string]string `json:"fixed,omitempty"`
	Metric   string            `json:"metric"`
	Levels   []Level           `json:"levels"`
	Knee     *float64          `json:"knee,omitempty"` // the level after which the curve bends most; a summary, not a limit
}

// A Level is one value of a sweep's variable.
type Level struct {
	Value   float64  `json:"value"`
	Variant string   `json:"variant"`
	Figure  Estimate `json:"figure"`
}

// A Capacity says how the highest rate at which a variant kept all thresholds was found. The rate is the
// variant's figure of that name. It is over rounds, each with a search of its own.
type Capacity struct {
	Variant      string    `json:"variant"`
	Searches     []Bracket `json:"searches"`                // by round
	Limit        string    `json:"limit,omitempty"`         // the threshold or flag that the lowest bad rates broke most often
	LimitBecause *Message  `json:"limit_because,omitempty"` // instead of that, where a threshold could not be judged: why
	Detail       *Message  `json:"detail,omitempty"`        // such as that the edge lies outside the range searched
}

// A Bracket is the result of one search: Low is the highest rate that was good and High
// the lowest that was bad. One of them is nil when the edge lies outside the range.
type Bracket struct {
	Round  int      `json:"round"`
	Low    *float64 `json:"low_per_second,omitempty"`
	High   *float64 `json:"high_per_second,omitempty"`
	Trials int      `json:"trials"`
	// HighDisturbed tells that the trials at High may be bad only because something disturbed
	// them: the edge may lie above it.
	HighDisturbed bool `json:"high_disturbed,omitempty"`
	// OwnLimit is the limit of dyno's own that made the trials at High bad, and how to raise it.
	OwnLimit *Message `json:"own_limit,omitempty"`
	// AtLow and AtHigh are the thresholds as a trial at that rate measured them: at the low one the
	// trial in the middle.
	AtLow  []Threshold `json:"at_low,omitempty"`
	AtHigh []Threshold `json:"at_high,omitempty"`
}

// A Trend describes how a gauge of the target grew during a variant's trials.
type Trend struct {
	Variant string `json:"variant"`
	Trial   int    `json:"trial"`
	Metric  string `json:"metric"` // as expressions name it: rss, descriptors, threads, goroutines
	// Slope is relative to the level at the window's beginning, per second.
	Slope  Estimate `json:"slope_per_second"`
	Growth *float64 `json:"growth,omitempty"` // of the line over the window, relative to its begin
	P      *float64 `json:"p,omitempty"`      // Mann-Kendall, of there being no trend
	Values int      `json:"values"`
	Detail *Message `json:"detail,omitempty"`
}

// A Pilot holds the results of the pilots. The warm-up of all variants is one and a half
// times the longest.
type Pilot struct {
	WarmupSeconds float64        `json:"warmup_seconds"`
	Variants      []PilotVariant `json:"variants"`
}

// A PilotVariant is the pilot of one variant.
type PilotVariant struct {
	Variant       string   `json:"variant"`
	SteadySeconds float64  `json:"steady_after_seconds"`
	Steady        bool     `json:"steady"`           // false: it was still changing in the pilot's second half
	Series        string   `json:"series,omitempty"` // the one that took longest: throughput, p50 or cpu_per_request
	Detail        *Message `json:"detail,omitempty"`
}

// An Examined trial is a trial with all its checks.
type Examined struct {
	Number         int         `json:"number"`
	Round          int         `json:"round"`
	Variant        string      `json:"variant"`
	Purpose        string      `json:"purpose,omitempty"`
	Rate           *float64    `json:"rate_per_second,omitempty"` // of a probe
	Good           *bool       `json:"good,omitempty"`            // of a probe: it kept the thresholds
	Replaced       bool        `json:"replaced,omitempty"`        // a later trial took its place; no figure uses it
	Excluded       bool        `json:"excluded,omitempty"`        // its round was disturbed, and another measured in its place
	Disturbed      bool        `json:"disturbed,omitempty"`       // the machine or the generator disturbed it beyond a limit fixed beforehand
	DisturbedShare *float64    `json:"disturbed_share,omitempty"` // of the requests: what something else may have moved noticeably
	Lost           bool        `json:"lost,omitempty"`            // its target ended by itself, or answered nothing
	Checks         []Check     `json:"checks"`
	Dependence     *Dependence `json:"dependence,omitempty"`
}

// A Check is one condition on a trial. The measured value and the limit are in the
// check's own unit.
type Check struct {
	Kind     string   `json:"kind"`
	Measured *float64 `json:"measured,omitempty"`
	Limit    *float64 `json:"limit,omitempty"`
	Unit     Unit     `json:"unit,omitempty"`
	Outcome  string   `json:"outcome"`         // see the Check constants
	About    string   `json:"about,omitempty"` // whose doing it is when it is not ok: see the About constants
	Agent    string   `json:"agent,omitempty"` // the one that fares worst, where agents carried the load
	Detail   *Message `json:"detail,omitempty"`
}

// A Dependence says how much a window's throughput, in bins, resembles itself one bin
// later, and its effective sample size.
type Dependence struct {
	BinSeconds    float64  `json:"bin_seconds"`
	Bins          int      `json:"bins"`
	Lag1          float64  `json:"lag1"`
	EffectiveSize float64  `json:"effective_size"`
	Trend         *float64 `json:"trend_per_second,omitempty"` // relative
	TrendP        *float64 `json:"trend_p,omitempty"`
}

// A Threshold is a condition and whether it held for a variant. It is OK if it was kept, for sure or as measured.
type Threshold struct {
	Text     string   `json:"text"`
	Variant  string   `json:"variant,omitempty"`
	OK       bool     `json:"ok"`
	Outcome  string   `json:"outcome"`            // ok, kept as measured, broken or inconclusive
	Measured *float64 `json:"measured,omitempty"` // in the metric's own unit
	Low      *float64 `json:"low,omitempty"`      // of Measured
	High     *float64 `json:"high,omitempty"`
	Detail   *Message `json:"detail,omitempty"` // why it is not sure, or could not be decided
	// NotIdentified names a figure of the threshold that is not identified, and its
	// disturbance.
	NotIdentified *Message `json:"not_identified,omitempty"`
}

// The outcomes of a claim.
const (
	Holds       = "holds"
	Agrees      = "agrees"  // as large as published, by a fifth
	Larger      = "larger"  // the sign is right, the size is not
	Smaller     = "smaller" // the sign is right, the size is not
	Refuted     = "refuted"
	NotSettled  = "not settled"
	NotTestable = "not testable here"
)

// A Claim is a statement with its outcome.
type Claim struct {
	ID        string   `json:"id"`
	Says      string   `json:"says"`
	Published string   `json:"published,omitempty"` // a size
	Measures  string   `json:"measures,omitempty"`  // the expression of what is held against it
	Holds     string   `json:"holds,omitempty"`     // the condition of a claim without a size
	Outcome   string   `json:"outcome"`
	Measured  *float64 `json:"measured,omitempty"`
	Low       *float64 `json:"low,omitempty"` // of Measured
	High      *float64 `json:"high,omitempty"`
	Detail    *Message `json:"detail,omitempty"` // the reason, where the outcome needs one; of a claim that is not testable, the author's
	// NotIdentified is as a threshold's.
	NotIdentified *Message `json:"not_identified,omitempty"`
}

// A Flag is a doubt about a trial, or about the run when Trial is 0.
type Flag struct {
	Kind    string   `json:"kind"`
	About   string   `json:"about,omitempty"` // see the About constants
	Trial   int      `json:"trial,omitempty"`
	Variant string   `json:"variant,omitempty"`
	Detail  *Message `json:"detail,omitempty"`
	// Measured, Limit and Unit are those of the check that raised the flag.
	Measured *float64 `json:"measured,omitempty"`
	Limit    *float64 `json:"limit,omitempty"`
	Unit     Unit     `json:"unit,omitempty"`
	// Biases are the beginnings of the names of the figures that it can move, such as
	// throughput or response. Run.Validity says how far.
	Biases   []string `json:"biases,omitempty"`
	Agent    string   `json:"agent,omitempty"` // whose machine it is about, where agents carried the load
	Disturbs bool     `json:"disturbs"`        // it is beyond a limit fixed beforehand, not only worth a word
	// Breaks says that the target did not do what was asked of it. The figures are right,
	// and the run is not a success.
	Breaks bool `json:"breaks,omitempty"`
}

// A Validity says how far one figure of a variant, or the ratio of two, can be trusted.
// Package verdict says how the bounds are made.
type Validity struct {
	Figure  string `json:"figure"` // the metric's name in expressions, such as response.p99
	Variant string `json:"variant"`
	Base    string `json:"base,omitempty"` // the figure is Variant's over Base's
	State   string `json:"state"`          // see the State constants
	// Low and High bound the true value, with the sampling error, in the metric's own unit.
	// For a figure that is not identified, one of them may be known.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	Why  *Message `json:"why,omitempty"`
	// Causes are the kinds of checks that led to it, the most important first.
	Causes []string `json:"causes,omitempty"`
	// Asked tells that the plan's metric, a threshold, a claim or a search needs it.
	Asked bool `json:"asked,omitempty"`
	// TooDisturbed tells that the bounds are too far apart to say anything: by more than a factor of two.
	TooDisturbed bool `json:"too_disturbed,omitempty"`
}

// TooDisturbed is the kind of the message in place of an interval that says nothing.
const TooDisturbed = "why.too_disturbed"

// A Message is a sentence as data, which reports write in their reader's language. Text
// from others is a message of the kind verbatim.
type Message = texts.Message

// A Trial is trial.json: one measured window of one variant.
type Trial struct {
	SchemaVersion  int              `json:"schema_version"`
	Number         int              `json:"number"` // from 1, in the order measured
	Round          int              `json:"round"`  // from 1; 0 for a pilot
	Variant        string           `json:"variant"`
	Purpose        string           `json:"purpose,omitempty"`         // see the Purpose constants; an ordinary trial has none
	Rate           *float64         `json:"rate_per_second,omitempty"` // of a probe
	Duet           *Duet            `json:"duet,omitempty"`            // nil of a trial that was alone
	StartedAt      time.Time        `json:"started_at"`
	Request        string           `json:"request,omitempty"` // as of the variant, with the addresses that are known in the trial only
	WarmupSeconds  float64          `json:"warmup_seconds"`
	WindowSeconds  float64          `json:"window_seconds"`                   // as measured
	PlannedSeconds float64          `json:"planned_window_seconds,omitempty"` // of a trial that its target ended: the window that was to be
	Complete       bool             `json:"complete"`
	Interrupted    bool             `json:"interrupted,omitempty"`    // not complete: it was ended within its window, by a signal or because a service ended; its figures are of the window until then
	Error          string           `json:"error,omitempty"`          // why the trial failed
	Fault          string           `json:"fault,omitempty"`          // whose doing that was: see the Fault constants
	Teardown       string           `json:"teardown_error,omitempty"` // why the scenario's teardown failed
	Counts         Counts           `json:"counts"`
	Conservation   Conservation     `json:"conservation"`
	Throughput     *float64         `json:"throughput_per_second,omitempty" metric:"throughput" unit:"/s" better:"more" about:"good responses a second; with subscribers, events" en:"throughput" zh:"吞吐量" shown:"figures dimensions"`
	Tokens         *Tokens          `json:"tokens,omitempty"`   // of language models; nil without
	Messages       *Messages        `json:"messages,omitempty"` // nil where responses do not consist of several
	Times          Times            `json:"times,omitempty"`    // by their tags in latency.hlog
	Ends           *Ends            `json:"ends,omitempty"`     // nil of a program, and where nothing came
	Failures       map[string]int64 `json:"failures,omitempty"` // failed requests, by what was wrong
	GoAways        map[string]int64 `json:"go_aways,omitempty"` // connections that the target ended by GOAWAY for an error, by its text
	// Deviations counts responses that depart from HTTP/1.1 and were read nevertheless, by what
	// departs: folded_lines, bare_lf or spaces_at_chunk_sizes.
	Deviations  map[string]int64 `json:"deviations,omitempty"`
	Slowest     []Slow           `json:"slowest,omitempty"` // requests of the window, where these have trace ids; the slowest first
	Silence     Silence          `json:"silence"`           // of requests
	TLS         *TLS             `json:"tls,omitempty"`     // nil without
	Streams     *Streams         `json:"streams,omitempty"` // of subscribers; nil without
	Loaded      *Loaded          `json:"loaded,omitempty"`  // nil of a program
	Steps       []ScenarioStep   `json:"steps,omitempty"`   // of a scenario
	Users       *Users           `json:"users,omitempty"`   // nil without a scenario
	Target      Target           `json:"target"`
	Server      *Server          `json:"server,omitempty"` // the target's process, where dyno did not start it and it is known
	Generator   Generator        `json:"generator"`
	Connections Connections      `json:"connections"`
	Agents      []Agent          `json:"agents,omitempty"` // that carried the load; without any, dyno's machine did
	// StartSkew is the time between the first and the last start of several agents. It may be larger by up to
	// StartSkewError.
	StartSkew      *float64 `json:"start_skew_seconds,omitempty"`
	StartSkewError *float64 `json:"start_skew_error_seconds,omitempty"`
	Machine        Machine  `json:"machine"`
	ObserverCPU    *float64 `json:"observer_cpu_seconds,omitempty"` // what observing cost the generator's side, in the whole trial
	// Observed are the values of the endpoints and commands that the plan names: by
	// column, how much a counter grew per second of the window, and the mean of a gauge.
	Observed    map[string]float64 `json:"observed,omitempty"`
	Profiles    []Profile          `json:"profiles,omitempty"`    // that were taken in the window
	Unavailable []Message          `json:"unavailable,omitempty"` // what could not be observed, and why

	// Measures are the figures that a program printed, by name. The end of the name says
	// the unit (_seconds, _bytes, _per_second). A figure with no such end is a count.
	Measures map[string]float64 `json:"measures,omitempty"`
	Flags    []Flag             `json:"flags"`

	// Placed are the processes that ran on agents' machines. The target and the services that are not among them ran on dyno's.
	Placed []Placement `json:"placed,omitempty"`
	Pods   []Pod       `json:"pods,omitempty"` // that the target consisted of, where agents observed them
}

// An Agent carried a part of a trial's load on another machine. Of a variant, it sums up the trials in which the
// agent took part. Share and Generator are then typical values, and Work is the sum. Clock and start are those of the
// trial whose start is the least certain.
type Agent struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Trials  int    `json:"trials,omitempty"` // of a variant
	// ClockOffset is how far its clock was ahead of dyno's before the load. It may be wrong by
	// up to ClockError.
	ClockOffset float64 `json:"clock_offset_seconds"`
	ClockError  float64 `json:"clock_error_seconds"`
	// StartDeviation is how long after the common start its last worker began. It is wrong by at most ClockError.
	StartDeviation float64   `json:"start_deviation_seconds"`
	Share          float64   `json:"share"`            // of the load, that it was to carry
	Work           int64     `json:"work"`             // good responses, or events delivered, in the window
	Generator      Generator `json:"generator"`        // the cost of its part
	Machine        Machine   `json:"machine,omitzero"` // its own; not of a variant
}

// PlacedTarget is the process of a Placement that is the target.
const PlacedTarget = "target"

// A Placement says on which agent's machine a process of a trial ran.
type Placement struct {
	Process string `json:"process"` // target, or the name of a service
	Agent   string `json:"agent"`
	Address string `json:"address"` // of the agent
	CPUs    int    `json:"cpus"`    // of its machine
	// ClockError is by how much the times of its readings may be wrong on dyno's time line.
	ClockError float64 `json:"clock_error_seconds"`
}

// A Pod is one of Kubernetes that the target consisted of.
type Pod struct {
	Name        string   `json:"name"`
	Node        string   `json:"node"`
	CPUSeconds  *float64 `json:"cpu_seconds,omitempty"`  // in the window, of processes that ended too
	MemoryBytes *int64   `json:"memory_bytes,omitempty"` // the most in the window, page cache included
}

// A Server is a process that dyno did not start.
type Server struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// FaultTarget is the Trial.Fault of an incomplete trial: its target could not be reached,
// or ended by itself. Such a trial counts: the target did nothing for the rest of it. Its
// throughput is over the window as it was planned.
const FaultTarget = "target"

// FaultAgent is the Trial.Fault of a void trial: an agent was lost that carried the load, or ran the target or a
// service. Such a trial has no figures and does not count. The pilot, round or search that it belongs to is measured
// again.
const FaultAgent = "agent"

// IsMeasured tells whether a trial counts: it is complete, or the target is at fault that it is not.
func (t *Trial) IsMeasured() bool { return t.Complete || t.Fault == FaultTarget }

// Substitutes returns the numbers of the interrupted trials that figures are made of. A variant
// without a measured trial has the figures of its last interrupted one. In a duet, it has those
// of the last one with each other variant.
func Substitutes(trials []*Trial) map[int]bool {
	type key struct{ variant, peer string }
	measured, last := map[string]bool{}, map[key]int{}
	for _, t := range trials {
		switch {
		case t.Purpose != "":
		case t.IsMeasured():
			measured[t.Variant] = true
		case t.Interrupted:
			at := key{t.Variant, t.Peer()}
			last[at] = max(last[at], t.Number)
		}
	}
	numbers := map[int]bool{}
	for at, number := range last {
		if !measured[at.variant] {
			numbers[number] = true
		}
	}
	return numbers
}

// AddUnavailable records something that could not be observed here, and why.
func (e *Environment) AddUnavailable(err error) {
	e.Unavailable = append(e.Unavailable, texts.OfError(err))
}

// AddUnavailable records something that could not be observed, and why.
func (t *Trial) AddUnavailable(err error) {
	t.Unavailable = append(t.Unavailable, texts.OfError(err))
}

// Failure says why the trial failed. Text from a process or the kernel is in it
// unchanged.
func (t *Trial) Failure() Message {
	number := strconv.Itoa(t.Number)
	if why, ok := strings.CutPrefix(t.Error, "trial "+number+", variant "+t.Variant+": "); ok {
		return texts.New("reason.trial", "trial", number, "variant", t.Variant, "error", why)
	}
	return texts.Verbatim(t.Error)
}

// Lost tells whether the target lost the trial, whatever its figures say: it could not be
// reached, ended by itself, or answered nothing. Responses that were larger than the generator
// takes are answers.
func (t *Trial) Lost() bool {
	if t.Fault == FaultTarget {
		return true
	}
	if t.Streams != nil && t.Streams.Delivered > 0 {
		return false
	}
	return t.Complete && t.Counts.CompletedInWindow == 0 && t.Counts.Due() > 0 && t.Counts.ByKind["limit"] == 0
}

// Work is the number of units of work in the window: events delivered where there are
// subscribers, otherwise good responses. A figure per request is per unit of work.
func (t *Trial) Work() int64 {
	if t.Streams != nil {
		return t.Streams.Delivered
	}
	return t.Counts.CompletedInWindow
}

// A Profile is a file of a trial of purpose profile, in pprof's format.
type Profile struct {
	Kind    string  `json:"kind"` // cpu, off_cpu, allocs, heap, goroutine, mutex or block
	File    string  `json:"file"`
	By      string  `json:"by"` // how it was taken: sampling or pprof
	Seconds float64 `json:"seconds"`
	Samples int64   `json:"samples"`
	Lost    int64   `json:"lost,omitempty"` // samples that did not reach the file
	Detail  string  `json:"detail,omitempty"`
	Module  string  `json:"module,omitempty"` // of a Go program: the path of its main module
}

// Counts are of the requests that were due in the window, however late they ended. The
// exception is CompletedInWindow: the good responses that ended in the window, whenever
// they were due. scheduled = sent + dropped; sent = ok + errors + generator + timeouts +
// unfinished.
type Counts struct {
	Scheduled         int64   `json:"scheduled"`
	Sent              int64   `json:"sent"`
	Dropped           int64   `json:"dropped"`
	OK                int64   `json:"ok"`
	Errors            int64   `json:"errors"` // timeouts not included
	Timeouts          int64   `json:"timeouts"`
	Unfinished        int64   `json:"unfinished"`
	Generator         int64   `json:"generator,omitempty"`      // failed because dyno was out of descriptors, ports or memory; not among the errors
	Unsent            int64   `json:"unsent,omitempty"`         // of the dropped: because of that, no connection was opened for them
	CompletedInWindow int64   `json:"completed_in_window"`      // good responses
	ReceivedBytes     int64   `json:"received_bytes,omitempty"` // in the window, TLS and framing included
	Redirects         *int64  `json:"redirects,omitempty"`      // followed, of requests due in the window; nil where none are
	Carried           Carried `json:"carried,omitzero"`
	// Missed counts the requests that would have been due in the rest of the window after
	// the target ended. It assumes the pace until then.
	Missed   int64            `json:"missed,omitempty"`
	ByKind   map[string]int64 `json:"by_kind,omitempty"`   // failures, by the names of wire.Kind
	ByStatus map[string]int64 `json:"by_status,omitempty"` // responses, by HTTP status code, or by the name of gRPC's status
}

// Carried are the requests that were due before the window and unanswered when it began,
// with their outcomes. They are in none of the other counts. scheduled = ok + errors +
// generator + timeouts + dropped + unfinished.
type Carried struct {
	Scheduled  int64 `json:"scheduled"`
	OK         int64 `json:"ok"`
	Errors     int64 `json:"errors"`
	Timeouts   int64 `json:"timeouts"`
	Dropped    int64 `json:"dropped"`
	Unfinished int64 `json:"unfinished"`
	Generator  int64 `json:"generator,omitempty"`
	Unsent     int64 `json:"unsent,omitempty"`
}

// Due is how many requests the target owed an answer: those of the window, those carried
// into it, and those it missed by ending. Requests that dyno itself could not send are
// not among them.
func (c *Counts) Due() int64 {
	return c.Scheduled + c.Carried.Scheduled + c.Missed - c.NotSent()
}

// Answered counts the due requests that were answered well.
func (c *Counts) Answered() int64 { return c.OK + c.Carried.OK }

// Unanswered counts the due requests that failed, timed out, were dropped, unfinished or missed.
func (c *Counts) Unanswered() int64 {
	return c.Errors + c.Timeouts + c.Dropped - c.Unsent + c.Unfinished + c.Missed +
		c.Carried.Errors + c.Carried.Timeouts + c.Carried.Dropped - c.Carried.Unsent + c.Carried.Unfinished
}

// Failures returns the failures by kind, and the share of the due requests that went unanswered. ratio
// is nil if none was due.
func (c *Counts) Failures() (byKind map[string]int64, ratio *float64) {
	byKind = maps.Clone(c.ByKind)
	maps.DeleteFunc(byKind, func(kind string, n int64) bool { return kind == "generator" || n == 0 })
	if due := c.Due(); due > 0 {
		ratio = new(float64(c.Unanswered()) / float64(due))
	}
	return byKind, ratio
}

// NotSent counts the requests that dyno could not send because it was out of descriptors, ports or memory. They are
// not the target's failures.
func (c *Counts) NotSent() int64 {
	return c.Generator + c.Unsent + c.Carried.Generator + c.Carried.Unsent
}

// A Silence is how long the target answered nothing while load was live: requests were
// due and unanswered, or had failed since the last good response. For subscribers,
// anything that reached one of them counts as an answer. Times are from the beginning of
// the warm-up.
type Silence struct {
	Longest float64  `json:"longest_seconds"`                // in the window
	From    float64  `json:"longest_from_seconds,omitempty"` // when that began
	Last    *float64 `json:"last_answer_seconds,omitempty"`  // when the last answer came, the drain included
	Ending  float64  `json:"ending_seconds"`                 // how long it lasted when the measurement ended, the drain included
	Failing int64    `json:"failing"`                        // requests that had failed since the last answer
}

// Streams describe the subscribers to events. Counts run from the beginning of the ramp
// to the end of the drain, unless they are of the window. Slow subscribers are only in
// Slow and in the counts of connections.
type Streams struct {
	Requested      int64   `json:"requested" sum:"max"` // subscribers
	Untried        int64   `json:"untried,omitempty"`   // subscribers whose first attempt had not ended when the load began
	Opened         int64   `json:"opened"`              // subscriptions that the target accepted, including those of subscribers that came back
	Failed         int64   `json:"failed"`              // attempts that it did not
	Reconnects     int64   `json:"reconnects" metric:"streams.reconnects" over:"sum" about:"streams that were opened again"`
	Ended          int64   `json:"ended"`               // subscriptions that the target ended
	Broken         int64   `json:"broken"`              // subscriptions in which it broke the protocol's rules
	Closed         int64   `json:"closed"`              // subscribers that it asked not to come back
	Peak           int64   `json:"peak" sum:"max"`      // subscriptions open at once
	Generator      int64   `json:"generator,omitempty"` // of the failed: because dyno was out of descriptors, ports or memory
	Served         int64   `json:"served"`              // subscribers that received something in the window: an event, or a comment that keeps a stream alive
	Silent         int64   `json:"silent"`              // subscribers with a stream that received nothing in the window
	Quiet          int64   `json:"quiet"`               // subscribers that received something in the window, but nothing more when it ended
	Away           int64   `json:"away"`                // subscribers without a stream when the window ended, whose last attempt at one had failed
	Subscribed     float64 `json:"subscribed_seconds"`  // how long subscribers had a stream in the window, summed
	Silence        Silence `json:"silence" sum:"-"`     // of all subscribers together
	Delivered      int64   `json:"delivered"`           // events that arrived in the window
	DeliveredBytes int64   `json:"delivered_bytes"`     // theirs
	AllDelivered   int64   `json:"all_delivered"`
	Lost           int64   `json:"lost" metric:"streams.lost" over:"sum" about:"events that never arrived, without a word of the target"`
	Announced      int64   `json:"announced" metric:"streams.announced" over:"sum" about:"events that never arrived, as the target said"`
	Uncertain      int64   `json:"uncertain"` // never arrived, and perhaps were not published: that failed after the request was sent
	Pending        int64   `json:"pending"`   // had not arrived when the measurement ended, their subscriber being without a connection
	Gaps           int64   `json:"gaps" metric:"streams.gaps" over:"sum" about:"events by which the target said that others are missing"`
	Repeated       int64   `json:"repeated" metric:"streams.repeated" over:"sum" about:"events that arrived more than once"`
	Disordered     int64   `json:"disordered" metric:"streams.disordered" over:"sum" about:"events that arrived after a later one of their publisher"`
	Unstamped      int64   `json:"unstamped"` // without a publisher and a number: whether others are missing is unknown
	Untracked      int64   `json:"untracked"` // of more publishers than are distinguished: whether others are missing is unknown
	// DeliveryError is how wrong the delivery times may be, in either direction. It is 0 unless publishers and
	// subscribers ran on machines with different clocks.
	DeliveryError float64 `json:"delivery_error_seconds,omitempty" sum:"max"`

	Slow *SlowStreams `json:"slow,omitempty"` // nil where none was
}

// SlowStreams describe subscribers that read slowly.
type SlowStreams struct {
	Requested int64 `json:"requested" sum:"max"`
	Opened    int64 `json:"opened"`
	Ended     int64 `json:"ended"`     // subscriptions that the target ended
	Delivered int64 `json:"delivered"` // events that were read
	Gaps      int64 `json:"gaps"`
	Announced int64 `json:"announced"` // events missing between others, which the target announced
	Missing   int64 `json:"missing"`   // events missing between others, which the target did not announce
}

// Conservation says whether the counts add up.
type Conservation struct {
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// Connections describe the connections that were asked for and those that were opened.
type Connections struct {
	Requested   int64   `json:"requested" metric:"connections.requested" about:"connections that the load asked for"`
	Unopened    int64   `json:"unopened,omitempty"` // of a closed loop: not open when the load began
	Opened      int64   `json:"opened" metric:"connections.opened" about:"connections that were opened"`
	Multiplexed int64   `json:"multiplexed,omitempty"` // of the opened: speak HTTP/2
	Failed      int64   `json:"failed" metric:"connections.failed" about:"connections that could not be opened"`
	Generator   int64   `json:"generator,omitempty"`                                                                    // of the failed: because dyno was out of descriptors, ports or memory
	Served      int64   `json:"served" metric:"connections.served" about:"connections with a good answer"`              // places for a connection on which a request of the window, or carried into it, was answered well
	Unanswered  int64   `json:"unanswered" metric:"connections.unanswered" about:"connections on which no answer came"` // places on which there were such requests, and none was answered at all
	Hung        int64   `json:"hung"`                                                                                   // places whose last such request had waited for a second or more when the measurement ended
	HungSeconds float64 `json:"hung_seconds,omitempty"`                                                                 // how long those had waited, summed
	// Omitted is how long users of a closed loop waited in vain within the window,
	// summed. The requests that they would have sent are in no count (coordinated
	// omission).
	Omitted float64 `json:"omitted_seconds,omitempty"`
	// Unqueued is the mean service time of an open loop's requests before the first one waited for a connection.
	Unqueued       float64 `json:"unqueued_service_seconds,omitempty"`
	PeerClosed     int64   `json:"peer_closed"`                                                         // closed by the peer while idle
	Unsolicited    int64   `json:"unsolicited"`                                                         // closed by dyno because the peer sent bytes without a request
	Pushed         int64   `json:"pushed_messages,omitempty"`                                           // of WebSocket: messages of the target that nobody awaited
	ReusedRequests int64   `json:"reused_requests"`                                                     // sent on a connection that had carried one before
	Peak           int64   `json:"peak" metric:"connections.peak" about:"the most connections at once"` // open at once

	// Of HTTP/2. Each connection carries this many requests at once, if the target lets it;
	// the users of a closed loop are as many on each connection. A request is refused that the
	// target says it has not processed (GOAWAY, REFUSED_STREAM): it is sent again, or fails.
	Streams int64 `json:"streams,omitempty"` // nothing: 1
	GoAways int64 `json:"go_aways,omitempty"`
	Refused int64 `json:"refused_requests,omitempty"`
	Resent  int64 `json:"resent_requests,omitempty"` // of the refused ones: sent again

	// Of keepalive.
	Pings           int64 `json:"pings,omitempty"`            // sent
	PingsUnanswered int64 `json:"pings_unanswered,omitempty"` // connections that were given up because nothing answered a ping
}

// Users is how many users a closed loop with these connections has.
func (c *Connections) Users() int64 { return c.Requested * max(1, c.Streams) }

// A ScenarioStep says what became of the requests of a scenario's step, of those due in the
// window. The steps' requests are all there are, but for arrivals that found no user.
type ScenarioStep struct {
	Name              string           `json:"name"`
	OK                int64            `json:"ok"`
	ByKind            map[string]int64 `json:"by_kind,omitempty"` // those that failed
	Dropped           int64            `json:"dropped,omitempty"`
	Skipped           int64            `json:"skipped,omitempty"`                                                                   // times that its condition did not hold: no requests
	CompletedInWindow int64            `json:"completed_in_window"`                                                                 // good responses that ended in the window
	Throughput        *float64         `json:"throughput_per_second,omitempty" sum:"-" metric:"throughput" unit:"/s" better:"more"` // of these
	Tokens            *Tokens          `json:"tokens,omitempty"`                                                                    // where responses are answers of language models
}

// Failed is how many of the step's requests failed, timeouts and unfinished ones included.
func (s *ScenarioStep) Failed() (n int64) {
	for _, k := range s.ByKind {
		n += k
	}
	return n
}

// StepTag is the tag of a step's times in latency.hlog, of a clock such as response. They are
// of the whole window, in one interval.
func StepTag(clock, step string) string { return clock + "/" + step }

// StepMetric is the name of a metric of one step's requests, such as
// response.p99{step=login}.
func StepMetric(metric, step string) string { return metric + "{step=" + step + "}" }

// SplitStep takes the name of a metric apart. The step is empty where it is of all requests.
func SplitStep(name string) (metric, step string) {
	metric, rest, found := strings.Cut(name, "{step=")
	if step, closed := strings.CutSuffix(rest, "}"); found && closed && step != "" {
		return metric, step
	}
	return name, ""
}

// Users says what became of those who carried out a scenario.
type Users struct {
	Count      int64 `json:"count" sum:"max"` // there were; of an open loop, there could be at once
	Started    int64 `json:"started"`         // also those who took the place of others
	Ended      int64 `json:"ended"`           // had no step left, or no row of data
	Iterations int64 `json:"iterations_in_window"`
	Arrivals   int64 `json:"arrivals,omitempty"`    // of the window of an open loop, whose rate is theirs
	TurnedAway int64 `json:"turned_away,omitempty"` // those of them that found no user, and were dropped
	// FailedLogins are those of the whole load: how often a user had to begin again with the steps
	// that are carried out once. LoggedOut are the users of a closed loop who waited to try again
	// when the load ended.
	FailedLogins int64 `json:"failed_logins,omitempty"`
	LoggedOut    int64 `json:"logged_out,omitempty"`
	// Misses are the extractions that found nothing, in the whole load, also where that is
	// no failure.
	Misses []Miss `json:"misses,omitempty" sum:"-"`
}

// A Miss says how often an extraction found nothing.
type Miss struct {
	Step     string `json:"step"`
	Variable string `json:"variable"`
	Count    int64  `json:"count"`
}

// A TLS says what became of the handshakes, those of the warm-up included.
type TLS struct {
	Handshakes int64 `json:"handshakes"` // completed
	Resumed    int64 `json:"resumed"`    // of these: they resumed a session
	Retried    int64 `json:"retried,omitempty"`
	Failed     int64 `json:"failed"` // ended by an error, or by the target's closing the connection
	// ResumedShare is of the completed ones; nil without any.
	ResumedShare *float64 `json:"resumed_share,omitempty"`
	// Agreed is what they agreed on, the most frequent first.
	Agreed []Agreement `json:"agreed,omitempty"`
}

// An Agreement is what a number of TLS handshakes agreed on.
type Agreement struct {
	Version     string `json:"version"`         // such as TLS 1.3
	CipherSuite string `json:"cipher_suite"`    // IANA's name
	Group       string `json:"group,omitempty"` // of the key exchange
	ALPN        string `json:"alpn,omitempty"`  // the protocol that the target chose, if it chose one
	Handshakes  int64  `json:"handshakes"`
}
