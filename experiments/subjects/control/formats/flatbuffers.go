// Package formats has what report R0 compares Protocol Buffers with: FlatBuffers and gob, as formats
// that a control plane can be given.
package formats

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"

	"dyno/experiments/subjects/control/formats/controlfb"
	"dyno/services/control/format"
	"dyno/services/control/resource"
)

// firstRoom is what most documents fit into.
const firstRoom = 1 << 10

// FlatBuffers has resources as controlfb.Resource (control.fbs).
var FlatBuffers format.Format = tables{}

type tables struct{}

func (tables) MediaTypes() []string { return []string{"application/x-flatbuffers"} }

func (tables) Append(dst []byte, d *format.Document) ([]byte, error) {
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

var tableKinds = map[resource.Kind]controlfb.Kind{resource.Policies: controlfb.KindPolicy, resource.Configs: controlfb.KindConfig, resource.Instances: controlfb.KindInstance}

func resourceTable(b *flatbuffers.Builder, d *format.Document) flatbuffers.UOffsetT {
	var document flatbuffers.UOffsetT
	kind := controlfb.DocumentNONE
	switch {
	case d.Policy != nil:
		kind, document = controlfb.DocumentPolicy, policyTable(b, d.Policy)
	case d.Config != nil:
		kind, document = controlfb.DocumentConfig, configTable(b, d.Config)
	case d.Instance != nil:
		kind, document = controlfb.DocumentInstance, instanceTable(b, d.Instance)
	}
	namespace, name, id := text(b, d.Ref.Namespace), text(b, d.Ref.Name), text(b, d.Ref.ID)
	controlfb.RefStart(b)
	controlfb.RefAddKind(b, tableKinds[d.Ref.Kind])
	offset(b, controlfb.RefAddNamespace, namespace)
	offset(b, controlfb.RefAddName, name)
	offset(b, controlfb.RefAddId, id)
	ref := controlfb.RefEnd(b)
	change := d.Change()
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
	if document != 0 {
		controlfb.ResourceAddDocumentType(b, kind)
		controlfb.ResourceAddDocument(b, document)
	}
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

func configTable(b *flatbuffers.Builder, c *resource.Config) flatbuffers.UOffsetT {
	labels, content, kind := pairs(b, c.Labels), text(b, c.Content), text(b, c.ContentType)
	controlfb.ConfigStart(b)
	offset(b, controlfb.ConfigAddLabels, labels)
	offset(b, controlfb.ConfigAddContent, content)
	offset(b, controlfb.ConfigAddContentType, kind)
	controlfb.ConfigAddSecret(b, c.Secret)
	return controlfb.ConfigEnd(b)
}

func instanceTable(b *flatbuffers.Builder, i *resource.Instance) flatbuffers.UOffsetT {
	address, zone, metadata, status, holder := text(b, i.Address), text(b, i.Zone), pairs(b, i.Metadata), text(b, string(i.Status)), text(b, i.Holder)
	controlfb.InstanceStart(b)
	offset(b, controlfb.InstanceAddAddress, address)
	controlfb.InstanceAddPort(b, small(i.Port))
	offset(b, controlfb.InstanceAddZone, zone)
	controlfb.InstanceAddWeight(b, small(i.Weight))
	offset(b, controlfb.InstanceAddMetadata, metadata)
	offset(b, controlfb.InstanceAddStatus, status)
	controlfb.InstanceAddTtlSeconds(b, i.TTL)
	offset(b, controlfb.InstanceAddHolder, holder)
	return controlfb.InstanceEnd(b)
}

// maxDecoded bounds the bytes of what one message becomes: as much as JSON may make of a document.
const maxDecoded = 2 * resource.MaxDocument

var (
	errDamaged = errors.New("the message is damaged")
	errTwice   = errors.New("a map has a key twice")
	errLarge   = fmt.Errorf("the message becomes more than %d bytes", maxDecoded)
)

// A reader makes a document of a table. FlatBuffers in Go has no verifier, but follows no offset
// out of the bytes: Go's own checks of bounds panic there, and that is what tells a damaged message. Tables
// may lie over one another, and a list may name one many times, so what they become is counted.
type reader struct{ left int }

// take counts what is made; it panics with errLarge, which Decode recovers.
func (r *reader) take(bytes int) {
	if r.left -= bytes; r.left < 0 {
		panic(errLarge)
	}
}

// tableBytes is about what a table or an entry of a list becomes.
const tableBytes = 64

func (tables) Decode(b []byte) (d *format.Document, err error) {
	defer func() {
		switch fault := recover(); {
		case fault == nil:
		case fault == any(errLarge), fault == any(errTwice):
			d, err = nil, fault.(error)
		default:
			d, err = nil, errDamaged
		}
	}()
	r := reader{maxDecoded}
	return r.document(controlfb.GetRootAsResource(b, 0))
}

func (r *reader) text(b []byte) string {
	r.take(len(b))
	return string(b)
}

func (r *reader) texts(n int, at func(int) []byte) (list []string) {
	for i := range n {
		r.take(tableBytes)
		list = append(list, r.text(at(i)))
	}
	return list
}

func (r *reader) pairs(n int, at func(*controlfb.Pair, int) bool) map[string]string {
	if n == 0 {
		return nil
	}
	m := map[string]string{}
	var p controlfb.Pair
	for i := range n {
		r.take(tableBytes)
		at(&p, i)
		key := r.text(p.Key())
		if _, twice := m[key]; twice {
			panic(errTwice)
		}
		m[key] = r.text(p.Value())
	}
	return m
}

func (r *reader) document(m *controlfb.Resource) (*format.Document, error) {
	d := new(format.Document)
	if ref := m.Ref(nil); ref != nil {
		d.Ref = resource.Ref{Namespace: r.text(ref.Namespace()), Name: r.text(ref.Name()), ID: r.text(ref.Id())}
		for kind, name := range tableKinds {
			if name == ref.Kind() {
				d.Ref.Kind = kind
			}
		}
		if d.Ref.Kind == "" && ref.Kind() != controlfb.KindUnspecified {
			return nil, fmt.Errorf("ref.kind: %d is none", ref.Kind())
		}
	}
	var table flatbuffers.Table
	if !m.Document(&table) {
		return d, nil
	}
	switch m.DocumentType() {
	case controlfb.DocumentPolicy:
		var one controlfb.Policy
		one.Init(table.Bytes, table.Pos)
		d.Policy = r.policy(&one)
	case controlfb.DocumentConfig:
		var one controlfb.Config
		one.Init(table.Bytes, table.Pos)
		d.Config = &resource.Config{
			Labels: r.pairs(one.LabelsLength(), one.Labels), Content: r.text(one.Content()), ContentType: r.text(one.ContentType()), Secret: one.Secret(),
		}
	case controlfb.DocumentInstance:
		var one controlfb.Instance
		one.Init(table.Bytes, table.Pos)
		d.Instance = &resource.Instance{
			Address: r.text(one.Address()), Port: int(one.Port()), Zone: r.text(one.Zone()), Weight: int(one.Weight()),
			Metadata: r.pairs(one.MetadataLength(), one.Metadata), Status: resource.Status(r.text(one.Status())), TTL: one.TtlSeconds(),
		}
	default:
		return nil, errDamaged
	}
	return d, nil
}

func (r *reader) policy(m *controlfb.Policy) *resource.Policy {
	p := &resource.Policy{Labels: r.pairs(m.LabelsLength(), m.Labels)}
	var (
		rule    controlfb.Rule
		match   controlfb.Match
		limit   controlfb.RateLimit
		backend controlfb.Backend
		retry   controlfb.Retries
	)
	for i := range m.RulesLength() {
		r.take(tableBytes)
		m.Rules(&rule, i)
		one := resource.Rule{Action: resource.Action(r.text(rule.Action())), Timeout: rule.TimeoutSeconds()}
		if rule.Match(&match) != nil {
			one.Match = resource.Match{
				Services: r.texts(match.ServicesLength(), match.Services), Sources: r.pairs(match.SourcesLength(), match.Sources),
				Methods: r.texts(match.MethodsLength(), match.Methods), PathPrefix: r.text(match.PathPrefix()), Headers: r.pairs(match.HeadersLength(), match.Headers),
			}
		}
		if rule.Limit(&limit) != nil {
			one.Limit = &resource.RateLimit{PerSecond: limit.RequestsPerSecond(), Burst: int(limit.Burst())}
		}
		for j := range rule.RouteLength() {
			r.take(tableBytes)
			rule.Route(&backend, j)
			one.Route = append(one.Route, resource.Backend{Service: r.text(backend.Service()), Weight: int(backend.Weight())})
		}
		if rule.Retry(&retry) != nil {
			one.Retry = &resource.Retries{Attempts: int(retry.Attempts()), Backoff: retry.BackoffSeconds()}
		}
		p.Rules = append(p.Rules, one)
	}
	return p
}
