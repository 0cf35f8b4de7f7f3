package formats

import (
	"google.golang.org/protobuf/proto"

	"dyno/services/control/message"
	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// Protobuf is Protocol Buffers: a policy is in a controlpb.Resource.
var Protobuf Format = messages{}

type messages struct{}

func (messages) Append(dst []byte, d *Document) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, &controlpb.Resource{
		Ref: message.Ref(d.Ref), Version: d.Version, Revision: d.Revision, Tag: d.Tag, ChangedBy: d.Policy.By,
		Document: &controlpb.Resource_Policy{Policy: policyMessage(d.Policy)},
	})
}

func policyMessage(p *resource.Policy) *controlpb.Policy {
	m := &controlpb.Policy{Labels: p.Labels, Rules: make([]*controlpb.Rule, len(p.Rules))}
	for i := range p.Rules {
		r := &p.Rules[i]
		one := &controlpb.Rule{Action: string(r.Action), TimeoutSeconds: r.Timeout}
		if a := r.Match; len(a.Services)+len(a.Sources)+len(a.Methods)+len(a.PathPrefix)+len(a.Headers) > 0 {
			one.Match = &controlpb.Match{Services: a.Services, Sources: a.Sources, Methods: a.Methods, PathPrefix: a.PathPrefix, Headers: a.Headers}
		}
		if r.Limit != nil {
			one.Limit = &controlpb.RateLimit{RequestsPerSecond: r.Limit.PerSecond, Burst: small(r.Limit.Burst)}
		}
		for _, b := range r.Route {
			one.Route = append(one.Route, &controlpb.Backend{Service: b.Service, Weight: small(b.Weight)})
		}
		if r.Retry != nil {
			one.Retry = &controlpb.Retries{Attempts: small(r.Retry.Attempts), BackoffSeconds: r.Retry.Backoff}
		}
		m.Rules[i] = one
	}
	return m
}
