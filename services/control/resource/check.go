package resource

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
)

// A Health is what checks say of an instance.
type Health string

// The states, from the best. Critical instances get no requests.
const (
	Passing  Health = "passing"
	Warning  Health = "warning"
	Critical Health = "critical"
)

// Worse reports whether h is worse than another.
func (h Health) Worse(than Health) bool { return h.rank() > than.rank() }

func (h Health) rank() int { return slices.Index([]Health{Passing, Warning, Critical}, h) }

// A Check says how the control plane finds out whether an instance can take requests. It asks the instance itself, at
// its own address. The tags say what a field may hold: see tags.go. Fields that are not given have the values that
// methods return.
type Check struct {
	Name string `json:"name,omitempty" is:"name"` // the type, if not given; unique in an instance
	// http: 2xx and 3xx pass, 429 warns. tcp: it accepts a connection. grpc: grpc.health.v1 says that it serves. tls: a
	// handshake, and the certificate is valid for Days at least, or it warns. command: a program on the control plane's
	// machine ends with 0, or with 1 to warn.
	Type     string  `json:"type" variant:"true" required:"true" oneof:"http tcp grpc tls command"`
	Interval float64 `json:"interval_seconds,omitempty" range:"0..3600"` // from the start of a check to that of the next
	Timeout  float64 `json:"timeout_seconds,omitempty" range:"0..3600"`
	Failures int     `json:"failures,omitempty" range:"0..10"`  // in a row make it critical
	Passes   int     `json:"successes,omitempty" range:"0..10"` // in a row end that

	Port    int    `json:"port,omitempty" of:"http tcp grpc tls" range:"0..65535"` // the instance's, if not given
	Path    string `json:"path,omitempty" of:"http" is:"path"`
	Host    string `json:"host,omitempty" of:"http grpc tls" is:"host"` // also the name that TLS asks for
	Service string `json:"service,omitempty" of:"grpc" is:"text"`
	TLS     bool   `json:"tls,omitempty" of:"http grpc"`
	Verify  bool   `json:"verify,omitempty" of:"http grpc tls"` // its certificate must be one that the control plane's machine trusts
	Days    int    `json:"days,omitempty" of:"tls" range:"0..3650"`

	Command   string   `json:"command,omitempty" of:"command" required:"true" is:"name"` // a file in the folder of --check-commands
	Arguments []string `json:"arguments,omitempty" of:"command" is:"text"`
}

// Defaults of checks.
const (
	defaultInterval = 10 * time.Second
	defaultTimeout  = 2 * time.Second
	defaultFailures = 2
	defaultDays     = 14
	minInterval     = time.Second
	maxChecks       = 16
)

// Title is the check's name in its instance.
func (c *Check) Title() string { return or(c.Name, c.Type) }

// Period is the time from the start of a check to that of the next.
func (c *Check) Period() time.Duration { return or(seconds(c.Interval), defaultInterval) }

// Limit is for how long a check waits for its answer.
func (c *Check) Limit() time.Duration {
	return or(seconds(c.Timeout), min(defaultTimeout, c.Period()))
}

// Needed returns how many failures in a row make it critical, and how many successes end that.
func (c *Check) Needed() (failures, successes int) {
	return or(c.Failures, defaultFailures), or(c.Passes, 1)
}

// Remaining is for how long a certificate must be valid for tls to pass.
func (c *Check) Remaining() time.Duration {
	return time.Duration(or(c.Days, defaultDays)) * 24 * time.Hour
}

// or returns the first value, or the second one if that is zero.
func or[T comparable](given, otherwise T) T {
	var zero T
	if given == zero {
		return otherwise
	}
	return given
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// A CheckResult is the state of a check, since the time when it came into this state.
type CheckResult struct {
	Name   string    `json:"name"`
	Health Health    `json:"health"`
	Output string    `json:"output,omitempty"` // what the check saw then
	Since  time.Time `json:"since"`
}

// MaxOutput bounds the output of a result, in bytes.
const MaxOutput = 256

// checkChecks finds the faults of an instance's checks.
func (i *Instance) checkChecks(f *faults) {
	f.check(len(i.Checks) <= maxChecks, "/checks", "has %d entries: must have %d at most", len(i.Checks), maxChecks)
	known := map[string]bool{}
	for n := range i.Checks {
		c, at := &i.Checks[n], fmt.Sprintf("/checks/%d", n)
		checkTags(f, at, c)
		f.check(!known[c.Title()], at+"/name", "%.80q: another check has this name: give each its own", c.Title())
		known[c.Title()] = true
		f.check(c.Period() >= minInterval, at+"/interval_seconds", "%v: must be at least %v", c.Interval, minInterval.Seconds())
		f.check(c.Limit() <= c.Period(), at+"/timeout_seconds", "%v: must not be more than the interval", c.Timeout)
	}
	f.check(i.DeregisterAfter == 0 || len(i.Checks) > 0, "/deregister_after_seconds", "is for instances with checks")
	f.check(i.DeregisterAfter >= 0 && i.DeregisterAfter <= maxDeregister, "/deregister_after_seconds", "%v: must be from 0 (never) to %v", i.DeregisterAfter, maxDeregister)
	f.check(len(i.Maintenance) <= MaxOutput && plain(i.Maintenance), "/maintenance", "must have %d printable bytes at most", MaxOutput)
}

// maxDeregister bounds DeregisterAfter: a year.
const maxDeregister = 365 * 24 * 3600.0

// Checked reports whether the control plane checks the instance. Then its client sends no heartbeats.
func (i *Instance) Checked() bool { return len(i.Checks) > 0 }

// Accepts reports whether the instance may get new requests, silence apart.
func (i *Instance) Accepts() bool {
	return i.Status == Up && i.Weight > 0 && i.Maintenance == "" && i.Health != Critical
}

// Keep takes over from an earlier registration what its client does not say: maintenance, and results of checks that
// are the same.
func (i *Instance) Keep(old *Instance) {
	i.Maintenance, i.Results = "", nil
	if old != nil {
		i.Maintenance = old.Maintenance
		if old.Address == i.Address && old.Port == i.Port {
			i.Results = slices.DeleteFunc(slices.Clone(old.Results), func(r CheckResult) bool {
				return !slices.ContainsFunc(i.Checks, func(c Check) bool {
					return c.Title() == r.Name && slices.ContainsFunc(old.Checks, func(before Check) bool { return reflect.DeepEqual(c, before) })
				})
			})
		}
	}
	i.Judge()
}

// Judge sets the instance's health: that of its worst check. One without a result is critical. Without checks there
// is none.
func (i *Instance) Judge() {
	i.Health = ""
	for n := range i.Checks {
		one := Critical
		if at := slices.IndexFunc(i.Results, func(r CheckResult) bool { return r.Name == i.Checks[n].Title() }); at >= 0 {
			one = i.Results[at].Health
		}
		if i.Health == "" || one.Worse(i.Health) {
			i.Health = one
		}
	}
}

// Judged reports whether the instance differs from an earlier one only by what the control plane and operators say of
// it: its client has not been heard.
func (i *Instance) Judged(before *Instance) bool {
	return i.Maintenance != before.Maintenance || i.Checked() && before.Checked() && i.Lease() == before.Lease()
}

// forever is a lease that does not end.
const forever = time.Duration(math.MaxInt64 / 4)
