package resource

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"dyno/internal/fields"
)

// Limits bound sizes and counts. A replica compares counts with its own catalog at the time of a request. So
// simultaneous changes may exceed a limit by their number.
type Limits struct {
	PolicyBytes int `json:"policy_bytes" yaml:"max_policy" kind:"size" range:"1..320KiB" default:"128KiB" doc:"bytes of a policy"`
	Rules       int `json:"rules"` // rules of a policy
	ConfigBytes int `json:"config_bytes" yaml:"max_config" kind:"size" range:"1..4MiB" default:"1MiB" doc:"bytes of a configuration"`
	Labels      int `json:"labels"` // labels of a resource, and entries of metadata
	Policies    int `json:"policies" yaml:"max_policies" live:"true" range:"1..1073741824" default:"1000000" doc:"policies in all"`
	Configs     int `json:"configs" yaml:"max_configs" live:"true" range:"1..1073741824" default:"100000" doc:"configurations in all"`
	Instances   int `json:"instances" yaml:"max_instances" live:"true" range:"1..1073741824" default:"200000" doc:"instances in all"`
	Sessions    int `json:"sessions" yaml:"max_sessions" live:"true" range:"1..1073741824" default:"100000" doc:"sessions in all"`
	Locks       int `json:"locks" yaml:"max_locks" live:"true" range:"1..1073741824" default:"100000" doc:"locks in all that sessions have"`
	Counters    int `json:"counters" yaml:"max_counters" live:"true" range:"1..1073741824" default:"100000" doc:"counters in all"`
	PerService  int `json:"per_service" yaml:"max_per_service" live:"true" range:"1..1073741824" default:"20000" doc:"instances of one service"`
	History     int `json:"history" yaml:"history" live:"true" range:"1..1000" default:"16" doc:"earlier versions that are kept"`
	Principals  int `json:"principals" yaml:"max_principals" live:"true" range:"1..100000" default:"10000" doc:"principals in the store, and roles"`

	TokenTTL time.Duration `json:"-" yaml:"max_token_ttl" live:"true" range:"0..87600h" default:"8760h" doc:"how long tokens that the API makes are valid at most; 0 is no bound"`
}

// DefaultLimits returns the default limits.
func DefaultLimits() Limits {
	l := fields.Default[Limits]()
	l.Rules, l.Labels = 1000, 64
	return l
}

// Most returns how many resources of a kind there may be.
func (l Limits) Most(k Kind) int {
	return map[Kind]int{Policies: l.Policies, Configs: l.Configs, Instances: l.Instances, Sessions: l.Sessions, Locks: l.Locks, Counters: l.Counters, Principals: l.Principals, Roles: l.Principals}[k]
}

// Document bounds a document as it is kept, in JSON: base64 and escapes may make it half as large again.
func (l Limits) Document() int { return max(l.PolicyBytes, l.ConfigBytes)*3/2 + 64<<10 }

// Change bounds one change of the store: the old and the new document, and the record of a change with a key.
func (l Limits) Change() int { return 3*l.Document() + 64<<10 }

// Limits of labels, in bytes.
const (
	maxLabelName  = 128
	maxLabelValue = 1024
)

// checkLabels checks labels or metadata at a place of a document.
func checkLabels(f *faults, pointer string, labels map[string]string, limit int) {
	f.check(len(labels) <= limit, pointer, "has %d entries: must have %d at most", len(labels), limit)
	for name, value := range labels {
		if name != "" && len(name) <= maxLabelName && plain(name) && len(value) <= maxLabelValue && utf8.ValidString(value) {
			continue // allocates no text: every write with labels passes here
		}
		at := pointer + "/" + escape(name)
		f.check(name != "" && len(name) <= maxLabelName && plain(name), at, "the name must have 1 to %d printable bytes", maxLabelName)
		f.check(len(value) <= maxLabelValue && utf8.ValidString(value), at, "must be UTF-8 of %d bytes at most", maxLabelValue)
	}
}

// plain reports whether text is UTF-8 without control characters.
func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// TooMany says that a limit on a count is reached.
type TooMany struct {
	What  string
	Limit int
}

func (e *TooMany) Error() string {
	return fmt.Sprintf("there are %d %s already, and there may be no more", e.Limit, e.What)
}
