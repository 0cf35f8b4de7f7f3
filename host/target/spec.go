package target

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"dyno/host/cgroup"
	"dyno/internal/units"
)

// The defaults of a Spec.
const (
	DefaultReadyTimeout = 10 * time.Second
	DefaultStopTimeout  = 5 * time.Second
)

const (
	maxCPU  = units.MaxCPU + 1 // bounds CPU numbers: it is the size of the kernel's fixed cpu_set_t
	maxNode = 1023             // of NUMA nodes: the largest value of the kernel's MAX_NUMNODES
)

// A Spec says which process to start, where to run it, and how to find out that it is
// ready.
type Spec struct {
	Name string   // for messages; default: the last element of Args[0]
	Args []string // the program and its arguments; a name without a slash is looked up in PATH
	Env  []string // "NAME=value", in addition to dyno's own environment; the last one wins
	Dir  string   // working directory; default: dyno's own

	// CPUs are the allowed CPUs of the process and all it starts. Default: those that dyno's own
	// threads may run on when Start is called.
	CPUs []int
	// Cgroup limits the process and all it starts, in a control group next to dyno's own or below it.
	// The group is removed when the last of these processes is gone. Nil: no limits.
	Cgroup *cgroup.Limits
	// Nice is the priority of the process, from -20, the highest, to 19, and of its
	// session (autogroup(7) in sched(7)). Nil: dyno's own.
	Nice *int
	// NUMA is the node that the process gets its memory from. Nil: any.
	NUMA *int

	Ready Probe
	// HidesOthers keeps errors from naming a process that has the probe's address already.
	HidesOthers  bool
	ReadyTimeout time.Duration // from the program's start until ready; default 10 s
	StopTimeout  time.Duration // from SIGTERM until SIGKILL; default 5 s

	// Output receives what the process writes to standard output and standard error. One
	// goroutine calls it. While it blocks, the process blocks too as soon as the pipe is
	// full (64 KiB). Default: the output is dropped, except for the tail that errors
	// show.
	Output io.Writer
}

// A Probe finds out that a process is ready. At most one field is set. If none is, a
// process counts as ready once it has started.
type Probe struct {
	TCP    string // host:port that accepts a connection
	Unix   string // path of a Unix stream socket that accepts a connection
	HTTP   string // URL whose GET is answered with a status below 500
	Output string // regular expression (RE2) that a line of the output matches
}

// withDefaults returns the spec with every default filled in.
func (s Spec) withDefaults() Spec {
	if s.Name == "" && len(s.Args) > 0 {
		s.Name = s.Args[0][strings.LastIndexByte(s.Args[0], '/')+1:]
	}
	if s.ReadyTimeout == 0 {
		s.ReadyTimeout = DefaultReadyTimeout
	}
	if s.StopTimeout == 0 {
		s.StopTimeout = DefaultStopTimeout
	}
	return s
}

// Validate reports every fault of the spec at once, each with its field. It looks only at
// the spec: Start finds out whether the program and the CPUs exist.
func (s Spec) Validate() error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	if len(s.Args) == 0 || s.Args[0] == "" {
		fault("args", "empty; want the program to start and its arguments")
	}
	for i, a := range s.Args {
		if strings.IndexByte(a, 0) >= 0 {
			fault(fmt.Sprintf("args[%d]", i), "%q holds a zero byte", a)
		}
	}
	for i, e := range s.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.IndexByte(e, 0) >= 0 {
			fault(fmt.Sprintf("env[%d]", i), "%q; want NAME=value", e)
		}
	}
	for i, c := range s.CPUs {
		if c < 0 || c >= maxCPU {
			fault(fmt.Sprintf("cpus[%d]", i), "%d; want 0 to %d", c, maxCPU-1)
		} else if slices.Index(s.CPUs, c) < i {
			fault(fmt.Sprintf("cpus[%d]", i), "%d is listed twice", c)
		}
	}
	if s.Cgroup != nil {
		s.Cgroup.Validate(fault)
	}
	if s.Nice != nil && (*s.Nice < -20 || *s.Nice > 19) {
		fault("nice", "%d; want -20 to 19", *s.Nice)
	}
	if s.NUMA != nil && (*s.NUMA < 0 || *s.NUMA > maxNode) {
		fault("numa", "%d; want 0 to %d", *s.NUMA, maxNode)
	}
	if s.ReadyTimeout < 0 {
		fault("ready_timeout", "%v; want more than 0, or 0 for %v", s.ReadyTimeout, DefaultReadyTimeout)
	}
	if s.StopTimeout < 0 {
		fault("stop_timeout", "%v; want more than 0, or 0 for %v", s.StopTimeout, DefaultStopTimeout)
	}
	faults = append(faults, s.Ready.validate()...)
	return errors.Join(faults...)
}

func (p Probe) validate() (faults []error) {
	kinds := 0
	for _, s := range []string{p.TCP, p.Unix, p.HTTP, p.Output} {
		if s != "" {
			kinds++
		}
	}
	if kinds > 1 {
		faults = append(faults, errors.New("ready: more than one probe; want one of tcp, unix, http, output"))
	}
	if p.TCP != "" {
		if _, port, err := net.SplitHostPort(p.TCP); err != nil || port == "" || port == "0" {
			faults = append(faults, fmt.Errorf("ready.tcp: %q; want host:port", p.TCP))
		}
	}
	if len(p.Unix) > maxUnixPath {
		faults = append(faults, fmt.Errorf("ready.unix: path of %d bytes; want at most %d", len(p.Unix), maxUnixPath))
	}
	if p.HTTP != "" {
		u, err := url.Parse(p.HTTP)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
			faults = append(faults, fmt.Errorf("ready.http: %q; want http://host:port/path", p.HTTP))
		}
	}
	if p.Output != "" {
		if _, err := regexp.Compile(p.Output); err != nil {
			faults = append(faults, fmt.Errorf("ready.output: %w", err))
		}
	}
	return faults
}

// maxUnixPath is the length of the longest path that fits a sockaddr_un.
const maxUnixPath = 107
