// Package formats has the formats that report R0 compares, for policies of the control plane: Protocol Buffers, FlatBuffers
// and gob. The first two are written field by field, without JSON in between.
package formats

import (
	"maps"
	"math"
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"

	"dyno/experiments/subjects/serialization/formats/controlfb"
	"dyno/services/control/resource"
)

// A Document is a policy with its metadata, in the struct that gob reads and writes.
type Document struct {
	Ref      resource.Ref
	Revision int64 // of the store, when it was last changed
	Version  int64
	Tag      string
	Policy   *resource.Policy
}

// A Format writes policies. Append appends one to dst; any goroutine may call it.
type Format interface {
	Append(dst []byte, d *Document) ([]byte, error)
}

// firstRoom is what most documents fit into.
const firstRoom = 1 << 10

// FlatBuffers has resources as controlfb.Resource (control.fbs).
var FlatBuffers Format = tables{}

type tables struct{}

func (tables) Append(dst []byte, d *Document) ([]byte, error) {
	b := flatbuffers.NewBuilder(firstRoom)
	b.Finish(resourceTable(b, d))
	return append(dst, b.FinishedBytes()...), nil
}

// text writes a text; an empty one is not there.
func text(b *flatbuffers.Builder, s string) flatbuffers.UOffsetT {
	if s == "" {
		return 0
	}
	return b.CreateString(s)
}

// offset adds a field that is elsewhere, if it is there.
func offset(b *flatbuffers.Builder, add func(*flatbuffers.Builder, flatbuffers.UOffsetT), at flatbuffers.UOffsetT) {
	if at != 0 {
		add(b, at)
	}
}

// vector writes a list of what is elsewhere; an empty one is not there.
func vector(b *flatbuffers.Builder, list []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	if len(list) == 0 {
		return 0
	}
	return b.CreateVectorOfTables(list) // texts are written alike
}

func texts(b *flatbuffers.Builder, list []string) flatbuffers.UOffsetT {
	var all []flatbuffers.UOffsetT
	for _, s := range list {
		all = append(all, b.CreateString(s))
	}
	return vector(b, all)
}

// pairs writes a map, in the order of its keys.
func pairs(b *flatbuffers.Builder, m map[string]string) flatbuffers.UOffsetT {
	var all []flatbuffers.UOffsetT
	for _, k := range slices.Sorted(maps.Keys(m)) {
		key, value := b.CreateString(k), text(b, m[k])
		controlfb.PairStart(b)
		controlfb.PairAddKey(b, key)
		offset(b, controlfb.PairAddValue, value)
		all = append(all, controlfb.PairEnd(b))
	}
	return vector(b, all)
}

// small is a number that was bounded when it was put.
func small(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) } //nolint:gosec // so it is

func resourceTable(b *flatbuffers.Builder, d *Document) flatbuffers.UOffsetT {
	document := policyTable(b, d.Policy)
	namespace, name, id := text(b, d.Ref.Namespace), text(b, d.Ref.Name), text(b, d.Ref.ID)
	controlfb.RefStart(b)
	controlfb.RefAddKind(b, controlfb.KindPolicy)
	offset(b, controlfb.RefAddNamespace, namespace)
	offset(b, controlfb.RefAddName, name)
	offset(b, controlfb.RefAddId, id)
	ref := controlfb.RefEnd(b)
	change := d.Policy.Change
	tag, by := text(b, d.Tag), text(b, change.By)
	controlfb.ResourceStart(b)
	controlfb.ResourceAddRef(b, ref)
	controlfb.ResourceAddVersion(b, d.Version)
	controlfb.ResourceAddRevision(b, d.Revision)
	offset(b, controlfb.ResourceAddTag, tag)
	if !change.At.IsZero() {
		controlfb.ResourceAddChangedAtUnixNano(b, change.At.UnixNano())
	}
	offset(b, controlfb.ResourceAddChangedBy, by)
	controlfb.ResourceAddDocumentType(b, controlfb.DocumentPolicy)
	controlfb.ResourceAddDocument(b, document)
	return controlfb.ResourceEnd(b)
}

func policyTable(b *flatbuffers.Builder, p *resource.Policy) flatbuffers.UOffsetT {
	labels := pairs(b, p.Labels)
	var all []flatbuffers.UOffsetT
	for i := range p.Rules {
		all = append(all, ruleTable(b, &p.Rules[i]))
	}
	rules := vector(b, all)
	controlfb.PolicyStart(b)
	offset(b, controlfb.PolicyAddLabels, labels)
	offset(b, controlfb.PolicyAddRules, rules)
	return controlfb.PolicyEnd(b)
}

func ruleTable(b *flatbuffers.Builder, r *resource.Rule) flatbuffers.UOffsetT {
	var match, limit, route, retry flatbuffers.UOffsetT
	if m := r.Match; len(m.Services)+len(m.Sources)+len(m.Methods)+len(m.PathPrefix)+len(m.Headers) > 0 {
		services, sources, methods, prefix, headers := texts(b, m.Services), pairs(b, m.Sources), texts(b, m.Methods), text(b, m.PathPrefix), pairs(b, m.Headers)
		controlfb.MatchStart(b)
		offset(b, controlfb.MatchAddServices, services)
		offset(b, controlfb.MatchAddSources, sources)
		offset(b, controlfb.MatchAddMethods, methods)
		offset(b, controlfb.MatchAddPathPrefix, prefix)
		offset(b, controlfb.MatchAddHeaders, headers)
		match = controlfb.MatchEnd(b)
	}
	if r.Limit != nil {
		controlfb.RateLimitStart(b)
		controlfb.RateLimitAddRequestsPerSecond(b, r.Limit.PerSecond)
		controlfb.RateLimitAddBurst(b, small(r.Limit.Burst))
		limit = controlfb.RateLimitEnd(b)
	}
	var backends []flatbuffers.UOffsetT
	for _, one := range r.Route {
		service := text(b, one.Service)
		controlfb.BackendStart(b)
		offset(b, controlfb.BackendAddService, service)
		controlfb.BackendAddWeight(b, small(one.Weight))
		backends = append(backends, controlfb.BackendEnd(b))
	}
	route = vector(b, backends)
	if r.Retry != nil {
		controlfb.RetriesStart(b)
		controlfb.RetriesAddAttempts(b, small(r.Retry.Attempts))
		controlfb.RetriesAddBackoffSeconds(b, r.Retry.Backoff)
		retry = controlfb.RetriesEnd(b)
	}
	action := text(b, string(r.Action))
	controlfb.RuleStart(b)
	offset(b, controlfb.RuleAddMatch, match)
	offset(b, controlfb.RuleAddAction, action)
	offset(b, controlfb.RuleAddLimit, limit)
	offset(b, controlfb.RuleAddRoute, route)
	offset(b, controlfb.RuleAddRetry, retry)
	controlfb.RuleAddTimeoutSeconds(b, r.Timeout)
	return controlfb.RuleEnd(b)
}
