package rundir

import "time"

// SchemaVersion is the version of run.json and trial.json written here.
// Readers refuse any other.
const SchemaVersion = 1

// NoInterval stands in Estimate.Interval where values are shown but nothing
// is claimed about where the truth lies.
const NoInterval = "none claimed"

// A Run is run.json. Times are seconds, sizes bytes, ratios and shares plain
// numbers. A nil pointer is a value that is not known; it is left out.
type Run struct {
	SchemaVersion int          `json:"schema_version"`
	Name          string       `json:"name"`
	Question      string       `json:"question,omitempty"`
	StartedAt     time.Time    `json:"started_at"`
	FinishedAt    *time.Time   `json:"finished_at,omitempty"`
	Complete      bool         `json:"complete"`         // every planned trial was measured
	Reason        string       `json:"reason,omitempty"` // why the run is not complete or not valid
	Valid         bool         `json:"valid"`            // no flag makes the figures unfit for conclusions
	TrialsPlanned int          `json:"trials_planned"`   // rounds × variants
	Plan          Plan         `json:"plan"`             // what was to be measured
	Environment   Environment  `json:"environment"`      // where
	Variants      []Variant    `json:"variants"`         // in the plan's order
	Comparisons   []Comparison `json:"comparisons"`
	Thresholds    []Threshold  `json:"thresholds"`
	Claims        []Claim      `json:"claims"`
	Flags         []Flag       `json:"flags"`
	Notes         []string     `json:"notes,omitempty"`        // what a reader should know beside the figures
	Command       []string     `json:"command_line,omitempty"` // how dyno was called
	DynoVersion   string       `json:"dyno_version,omitempty"`
}

// A Plan is what the run set out to do.
type Plan struct {
	File       string        `json:"file,omitempty"`   // the experiment file's name
	Source     string        `json:"source,omitempty"` // its text
	Short      bool          `json:"short"`
	Rounds     int           `json:"rounds"`
	Seed       uint64        `json:"seed"`
	Base       string        `json:"base,omitempty"`
	Thresholds []string      `json:"thresholds,omitempty"`
	Claims     []PlanClaim   `json:"claims,omitempty"`
	Protocol   string        `json:"protocol"`
	Loop       string        `json:"loop"` // closed or open
	Variants   []PlanVariant `json:"variants"`
}

// A PlanClaim is a statement to check, with its expressions.
type PlanClaim struct {
	ID          string `json:"id"`
	Says        string `json:"says"`
	Holds       string `json:"holds,omitempty"`
	Direction   string `json:"direction,omitempty"`    // weaker: it holds in direction only
	NotTestable string `json:"not_testable,omitempty"` // the reason
}

// A PlanVariant is a variant with its variables, as they were resolved.
type PlanVariant struct {
	Name          string            `json:"name"`
	Variables     map[string]string `json:"variables,omitempty"`
	Loop          string            `json:"loop"` // closed or open
	Connections   int               `json:"connections"`
	Rate          *float64          `json:"rate_per_second,omitempty"` // open loop without stages
	WarmupSeconds float64           `json:"warmup_seconds"`
	WindowSeconds float64           `json:"window_seconds"`
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
	Sysctls         map[string]string `json:"sysctls,omitempty"`
	MemoryBytes     *int64            `json:"memory_bytes,omitempty"`
	Virtualization  string            `json:"virtualization,omitempty"`
	CgroupVersion   int               `json:"cgroup_version,omitempty"`
	ClockSource     string            `json:"clock_source,omitempty"`
	Governor        string            `json:"cpu_governor,omitempty"`
	DescriptorLimit *int64            `json:"descriptor_limit,omitempty"`
	GoVersion       string            `json:"go_version"`
	GeneratorCPUs   []int             `json:"generator_cpus,omitempty"`
	TargetCPUs      []int             `json:"target_cpus,omitempty"`
	Unavailable     []string          `json:"unavailable,omitempty"` // what could not be observed here, and why
}

// A Variant sums up the trials of one variant.
type Variant struct {
	Name       string    `json:"name"`
	Trials     int       `json:"trials"` // complete ones, those behind the figures
	Throughput Estimate  `json:"throughput"`
	Response   Quantiles `json:"response"`
	Service    Quantiles `json:"service"`
	SendLag    Quantiles `json:"send_lag"`
	Connect    Quantiles `json:"connect"`
	FirstByte  Quantiles `json:"first_byte"`
	Errors     Errors    `json:"errors"`
	Counts     Counts    `json:"counts"`
	Target     Target    `json:"target"`
	Generator  Generator `json:"generator"`
}

// An Estimate is a figure with its interval, and the value of each trial (in
// the order of the rounds) behind it. Throughput is in responses per second.
type Estimate struct {
	Estimate *float64  `json:"estimate,omitempty"`
	Low      *float64  `json:"low,omitempty"`
	High     *float64  `json:"high,omitempty"`
	Values   []float64 `json:"values,omitempty"`
	Interval string    `json:"interval,omitempty"` // what Low and High are, or NoInterval
}

// Quantiles sum up a latency histogram. Count is how many values are behind
// them; quantiles that too few values support are nil.
type Quantiles struct {
	Count int64    `json:"count"`
	Mean  *float64 `json:"mean_seconds,omitempty"`
	P50   *float64 `json:"p50_seconds,omitempty"`
	P90   *float64 `json:"p90_seconds,omitempty"`
	P99   *float64 `json:"p99_seconds,omitempty"`
	P999  *float64 `json:"p999_seconds,omitempty"`
	Max   *float64 `json:"max_seconds,omitempty"`
}

// Errors are failed requests: those with a wire kind other than unfinished.
type Errors struct {
	Total  int64            `json:"total"`
	Ratio  *float64         `json:"ratio,omitempty"` // of the requests sent
	ByKind map[string]int64 `json:"by_kind,omitempty"`
}

// Target is what the load cost the target.
type Target struct {
	CPUSeconds                    *float64 `json:"cpu_seconds,omitempty"`
	CPUSecondsPerRequest          *float64 `json:"cpu_seconds_per_request,omitempty"`
	CPUShare                      *float64 `json:"cpu_share,omitempty"`  // of the CPUs it may use, during the window
	UserShare                     *float64 `json:"user_share,omitempty"` // of its CPU time
	RSSBytes                      *int64   `json:"rss_bytes,omitempty"`  // the peak seen in the window
	Threads                       *int64   `json:"threads,omitempty"`
	Descriptors                   *int64   `json:"descriptors,omitempty"`
	VoluntarySwitchesPerRequest   *float64 `json:"voluntary_switches_per_request,omitempty"`
	InvoluntarySwitchesPerRequest *float64 `json:"involuntary_switches_per_request,omitempty"`
	SyscallsPerRequest            *float64 `json:"syscalls_per_request,omitempty"`
	ConnectionReuseRatio          *float64 `json:"connection_reuse_ratio,omitempty"`
	GCPauseSeconds                *float64 `json:"gc_pause_seconds,omitempty"`
}

// Generator is what the load cost dyno.
type Generator struct {
	CPUSeconds           *float64 `json:"cpu_seconds,omitempty"`
	CPUSecondsPerRequest *float64 `json:"cpu_seconds_per_request,omitempty"`
	CPUShare             *float64 `json:"cpu_share,omitempty"` // of its workers' CPUs, during the window
	UserShare            *float64 `json:"user_share,omitempty"`
	RSSBytes             *int64   `json:"rss_bytes,omitempty"`
	RunQueueWaitShare    *float64 `json:"run_queue_wait_share,omitempty"` // of the window: the worst worker was ready to run and had no CPU
	Workers              int      `json:"workers,omitempty"`
}

// Machine is what else went on during the window.
type Machine struct {
	StealShare   *float64 `json:"steal_share,omitempty"`   // of all CPUs' time
	ForeignShare *float64 `json:"foreign_share,omitempty"` // of all CPUs' time: busy with neither target nor generator
}

// A Comparison is of one variant with the base, in one metric. The ratio is
// variant over base.
type Comparison struct {
	Base    string   `json:"base"`
	Variant string   `json:"variant"`
	Metric  string   `json:"metric"`
	Ratio   Estimate `json:"ratio"`
	P       *float64 `json:"p,omitempty"`
	Verdict string   `json:"verdict,omitempty"` // better, worse, equivalent, inconclusive or invalid
}

// A Threshold is a condition and whether it held for a variant.
type Threshold struct {
	Text     string   `json:"text"`
	Variant  string   `json:"variant,omitempty"`
	OK       bool     `json:"ok"`
	Measured *float64 `json:"measured,omitempty"` // in the metric's own unit
	Detail   string   `json:"detail,omitempty"`   // why it could not be decided
}

// The outcomes of a claim.
const (
	Holds         = "holds"
	DirectionOnly = "holds in direction only"
	DoesNotHold   = "does not hold"
	NotTestable   = "not testable here"
	Inconclusive  = "inconclusive"
)

// A Claim is a statement with what came out of it.
type Claim struct {
	ID       string   `json:"id"`
	Says     string   `json:"says"`
	Holds    string   `json:"holds,omitempty"` // the expression
	Outcome  string   `json:"outcome"`
	Measured *float64 `json:"measured,omitempty"`
	Detail   string   `json:"detail,omitempty"` // the reason, where the outcome needs one
}

// A Flag is a doubt about a trial, or about the run when Trial is 0.
type Flag struct {
	Kind    string `json:"kind"`
	Trial   int    `json:"trial,omitempty"`
	Variant string `json:"variant,omitempty"`
	Detail  string `json:"detail"`
	Invalid bool   `json:"invalid"` // it makes the trial's figures unfit for conclusions
}

// A Trial is trial.json: one measured window of one variant.
type Trial struct {
	SchemaVersion int              `json:"schema_version"`
	Number        int              `json:"number"` // from 1, in the order measured
	Round         int              `json:"round"`  // from 1
	Variant       string           `json:"variant"`
	StartedAt     time.Time        `json:"started_at"`
	WarmupSeconds float64          `json:"warmup_seconds"`
	WindowSeconds float64          `json:"window_seconds"` // as measured
	Complete      bool             `json:"complete"`
	Error         string           `json:"error,omitempty"` // why the trial failed
	Counts        Counts           `json:"counts"`
	Conservation  Conservation     `json:"conservation"`
	Throughput    *float64         `json:"throughput_per_second,omitempty"` // good responses in the window
	Response      Quantiles        `json:"response"`
	Service       Quantiles        `json:"service"`
	SendLag       Quantiles        `json:"send_lag"`
	Connect       Quantiles        `json:"connect"`
	FirstByte     Quantiles        `json:"first_byte"`
	GeneratorLag  Quantiles        `json:"generator_lag"`      // the part of the send lag that the generator itself caused
	Failures      map[string]int64 `json:"failures,omitempty"` // failed requests, by what was wrong
	Connections   Connections      `json:"connections"`
	Target        Target           `json:"target"`
	Generator     Generator        `json:"generator"`
	Machine       Machine          `json:"machine"`
	ObserverCPU   *float64         `json:"observer_cpu_seconds,omitempty"` // what observing cost the generator's side, in the whole trial
	Unavailable   []string         `json:"unavailable,omitempty"`          // what could not be observed, and why
	Flags         []Flag           `json:"flags"`
}

// Counts are of the requests that were due in the window, however late they
// ended, but for CompletedInWindow: the good responses that ended in the window,
// whenever they were due.
// scheduled = sent + dropped; sent = ok + errors + timeouts + unfinished.
type Counts struct {
	Scheduled         int64            `json:"scheduled"`
	Sent              int64            `json:"sent"`
	Dropped           int64            `json:"dropped"`
	OK                int64            `json:"ok"`
	Errors            int64            `json:"errors"` // timeouts not included
	Timeouts          int64            `json:"timeouts"`
	Unfinished        int64            `json:"unfinished"`
	CompletedInWindow int64            `json:"completed_in_window"` // good responses
	ByKind            map[string]int64 `json:"by_kind,omitempty"`   // failures, by the names of wire.Kind
	ByStatus          map[string]int64 `json:"by_status,omitempty"` // responses, by HTTP status code
}

// Conservation says whether the counts add up.
type Conservation struct {
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// Connections are what was asked for and what was opened.
type Connections struct {
	Requested      int64 `json:"requested"`
	Opened         int64 `json:"opened"`
	Failed         int64 `json:"failed"`
	PeerClosed     int64 `json:"peer_closed"`     // closed by the peer while idle
	Unsolicited    int64 `json:"unsolicited"`     // closed by dyno because of bytes that nobody asked for
	ReusedRequests int64 `json:"reused_requests"` // sent on a connection that had carried one before
	Peak           int64 `json:"peak"`            // open at once
}
