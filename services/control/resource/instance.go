package resource

import (
	"net/netip"
	"time"
)

// A Status is an instance's own statement of its state.
type Status string

// The statuses.
const (
	Up       Status = "up"
	Down     Status = "down"     // running, but wants no requests
	Draining Status = "draining" // ending, and wants no new requests
)

// An Instance is one address at which a service is found.
type Instance struct {
	Namespace string            `json:"namespace"`
	Service   string            `json:"service"`
	ID        string            `json:"id"`
	Address   string            `json:"address"` // IPv4, IPv6 or a host name
	Port      int               `json:"port"`
	Zone      string            `json:"zone,omitempty"`
	Weight    int               `json:"weight"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Status    Status            `json:"status"`
	TTL       float64           `json:"ttl_seconds"` // it expires after this time without a heartbeat; 0 with checks
	// Checks are made by the control plane, instead of heartbeats. An instance that is critical for DeregisterAfter is
	// removed; 0 is never.
	Checks          []Check `json:"checks,omitempty"`
	DeregisterAfter float64 `json:"deregister_after_seconds,omitempty"`
	// Maintenance says why an operator keeps requests away; "" does not.
	Maintenance string `json:"maintenance,omitempty"`
	// Health and Results are what the checks found.
	Health  Health        `json:"health,omitempty"`
	Results []CheckResult `json:"results,omitempty"`
	// Holder is the replica that collects its heartbeats, or makes its checks.
	Holder string `json:"holder,omitempty"`
	Change
}

// Ref names the instance.
func (i *Instance) Ref() Ref {
	return Ref{Kind: Instances, Namespace: i.Namespace, Name: i.Service, ID: i.ID}
}

// Bounds and defaults of an instance's numbers.
const (
	MinTTL        = 1.0
	MaxTTL        = 3600.0
	DefaultTTL    = 30.0
	DefaultWeight = 100
	maxPort       = 65535
)

// Default fills in omitted fields.
func (i *Instance) Default() {
	if i.Status == "" {
		i.Status = Up
	}
	if i.TTL == 0 && !i.Checked() {
		i.TTL = DefaultTTL
	}
}

// Lease is for how long an instance may be silent, or critical, before it is gone.
func (i *Instance) Lease() time.Duration {
	if i.Checked() {
		return or(seconds(i.DeregisterAfter), forever)
	}
	return seconds(i.TTL)
}

// maxWeight bounds an instance's weight.
const maxWeight = 1_000_000

// Check returns Invalid with every fault of the instance.
func (i *Instance) Check(l Limits) error {
	var f faults
	i.Ref().check(&f)
	_, err := netip.ParseAddr(i.Address)
	f.check(err == nil || isHost(i.Address), "/address", "%.80q: must be an IP address or a host name", i.Address)
	f.check(i.Port >= 1 && i.Port <= maxPort, "/port", "%d: must be from 1 to %d", i.Port, maxPort)
	f.check(i.Zone == "" || IsPlain(i.Zone), "/zone", "%.80q: %s", i.Zone, plainRule)
	f.check(i.Weight >= 0 && i.Weight <= maxWeight, "/weight", "%d: must be from 0 (no requests) to %d", i.Weight, maxWeight)
	f.check(i.Status == Up || i.Status == Down || i.Status == Draining, "/status", "%.40q: must be up, down or draining", i.Status)
	if i.Checked() {
		f.check(i.TTL == 0, "/ttl_seconds", "must not be given with checks, which say whether it lives")
	} else {
		f.check(i.TTL >= MinTTL && i.TTL <= MaxTTL, "/ttl_seconds", "%v: must be from %v to %v", i.TTL, MinTTL, MaxTTL)
	}
	i.checkChecks(&f)
	checkLabels(&f, "/metadata", i.Metadata, l.Labels)
	return f.err()
}

// isHost reports whether text is a host name (RFC 1123, section 2.1).
func isHost(text string) bool {
	if len(text) == 0 || len(text) > maxName {
		return false
	}
	begin := 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) && text[i] != '.' {
			continue
		}
		part := []byte(text[begin:i])
		for k, c := range part {
			if c >= 'A' && c <= 'Z' {
				part[k] = c + 'a' - 'A'
			}
		}
		if !isLabel(string(part)) {
			return false
		}
		begin = i + 1
	}
	return true
}
