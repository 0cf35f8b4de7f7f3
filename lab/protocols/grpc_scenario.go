package protocols

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"dyno/lab/plan"
	"dyno/load/rpc"
	"dyno/load/rpc/diag"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/grpc"
	"dyno/load/wire/http1"
)

// calls are what all that carry out a scenario over gRPC have in common.
var calls = scenario.Calls{
	Statuses: grpc.CodeNames(),
	Error:    func(status int) *wire.Error { return grpc.StatusError(grpc.Code(min(max(status, 0), int(grpc.Codes)))) }, //nolint:gosec // bounded
}

// grpcScript says what a scenario's users do over gRPC. Offline, methods are known only if files
// describe them.
func grpcScript(ctx context.Context, v *plan.Variant, offline bool) (script, error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return script{}, err
	}
	p, err := describeCalls(ctx, v, end, offline)
	if err != nil {
		return script{}, err
	}
	return script{
		by:   scenario.Protocol{Calls: &calls},
		step: p.step,
		check: func(s *scenario.Scenario) error {
			_, err := p.calls(s)
			return err
		},
	}, nil
}

// stepCalls are the calls of a scenario's steps.
type stepCalls struct {
	load   call
	end    http1.Endpoint
	schema *rpc.Schema // nil: no description was read
	steps  map[string]*stepCall
}

// A stepCall describes a step's method.
type stepCall struct {
	method   rpc.Method
	messages [][]byte // of a stream of the client's
}

// describeCalls finds out what services there are.
func describeCalls(ctx context.Context, v *plan.Variant, end http1.Endpoint, offline bool) (p *stepCalls, err error) {
	l := call{v.Load.Call}
	p = &stepCalls{load: l, end: end, steps: map[string]*stepCall{}}
	if offline && len(l.Protos) == 0 && l.Protoset == "" {
		return p, nil
	}
	if p.schema, err = readSchema(ctx, v, end); err != nil {
		return nil, fmt.Errorf("load.call: %w", err)
	}
	return p, nil
}

// step says a call, and prepares its message.
func (p *stepCalls) step(st *scenario.Step, content string) (sent scenario.StepRequest, err error) {
	folder := strings.TrimSuffix(p.end.Target, "/")
	sent = scenario.StepRequest{Method: st.Method, Path: folder + methodPath(st.Method), Body: content, Timeout: cmp.Or(st.Deadline, p.load.Deadline)}
	if p.schema == nil {
		return sent, nil
	}
	method, err := p.schema.Method(st.Method)
	if err != nil {
		return sent, faultOf("method", err)
	}
	call := &stepCall{method: method}
	p.steps[st.Name] = call
	sent.Path = folder + method.Path
	field, _ := st.Content()
	switch {
	case method.ClientStreaming && p.load.Web != plan.WebNone:
		return sent, &scenario.Fault{Path: "method", Problem: "gRPC-Web has no streams of the client's", Hint: "speak gRPC, or call another method"}
	case method.ClientStreaming && strings.Contains(content, "{{"):
		return sent, &scenario.Fault{Path: field, Problem: "the messages of a stream of the client's cannot vary", Hint: "leave templates out; metadata may have them"}
	case method.ClientStreaming:
		sent.Body = ""
		if call.messages, err = method.EncodeAll([]byte(content)); err != nil {
			return sent, faultOf(field, err)
		}
		if len(call.messages) == 0 {
			call.messages = [][]byte{nil}
		}
		return sent, nil
	}
	sent.Body = cmp.Or(content, "{}")
	sent.Encode = func(pieces ...[]byte) (scenario.Encoder, error) {
		e, err := method.Prepare(pieces...)
		if err != nil {
			return nil, err
		}
		return e, nil
	}
	return sent, nil
}

// methodPath returns how a method is called: by /pkg.Service/Method.
func methodPath(name string) string {
	name = strings.TrimPrefix(name, "/")
	if at := strings.LastIndexByte(name, '.'); at >= 0 && !strings.Contains(name, "/") {
		name = name[:at] + "/" + name[at+1:]
	}
	return "/" + name
}

// faultOf says where in a step the faults of its call are.
func faultOf(field string, err error) error {
	var f *diag.Fault
	if !errors.As(err, &f) {
		return &scenario.Fault{Path: field, Problem: err.Error()}
	}
	bare := *f
	bare.Hint = ""
	return &scenario.Fault{Path: field, Problem: bare.Error(), Hint: f.Hint}
}

// calls returns what users send, in the order of the scenario's outlines.
func (p *stepCalls) calls(s *scenario.Scenario) (all []grpc.Call, err error) {
	steps := s.Steps()
	for _, o := range s.Outlines() {
		info := &steps[o.Step]
		call := p.load.common(p.end)
		call.Path, call.Timeout, call.Keep = o.Path, info.Timeout, info.MaxBody
		if call.Metadata, err = p.load.metadata(o.Header); err != nil {
			return nil, &scenario.Fault{Path: info.Path, Problem: err.Error()}
		}
		for _, f := range o.Header {
			m := grpc.Metadata{Name: strings.ToLower(f.Name), Value: f.Value, Varies: f.Varies}
			if strings.HasSuffix(m.Name, "-bin") && !f.Varies {
				b, err := plan.MetadataBytes(f.Value)
				if err != nil {
					return nil, &scenario.Fault{Path: info.Path + ".metadata." + f.Name, Problem: "the value is not base64", Hint: "values of names that end in -bin are bytes, written in base64"}
				}
				m.Value = string(b)
			}
			call.Metadata = append(call.Metadata, m)
		}
		call.Varies = o.VariesBody
		if !o.VariesBody {
			call.Messages = [][]byte{[]byte(o.Body)}
		}
		if known := p.steps[info.Name]; known != nil {
			call.ClientStream, call.ServerStream = known.method.ClientStreaming, known.method.ServerStreaming
			if call.ClientStream {
				call.Messages = known.messages
				call.Lockstep = call.ServerStream && p.load.Answered
			}
			if info.WantsBody {
				call.Translate = known.method.AppendJSON
			}
		}
		if err := call.Validate(webForms[p.load.Web]); err != nil {
			return nil, &scenario.Fault{Path: info.Path, Problem: err.Error()}
		}
		all = append(all, call)
	}
	return all, nil
}

// metadata returns all calls' metadata, except what a step sets itself.
func (l call) metadata(own []scenario.OutlineField) (all []grpc.Metadata, err error) {
	for _, m := range l.Metadata {
		if slices.ContainsFunc(own, func(f scenario.OutlineField) bool { return strings.EqualFold(f.Name, m.Name) }) {
			continue
		}
		name, value := strings.ToLower(m.Name), m.Value
		if strings.HasSuffix(name, "-bin") {
			b, err := plan.MetadataBytes(value)
			if err != nil {
				return nil, fmt.Errorf("load.call.metadata: %s: %w", m.Name, err)
			}
			value = string(b)
		}
		all = append(all, grpc.Metadata{Name: name, Value: value})
	}
	return all, nil
}

// playCalls makes what carries out a scenario.
func playCalls(ctx context.Context, v *plan.Variant, c *Codecs, end http1.Endpoint) (config grpc.Config, err error) {
	p, err := describeCalls(ctx, v, end, false)
	if err != nil {
		return config, err
	}
	if err = readyFor(v, c, script{by: scenario.Protocol{Calls: &calls}, step: p.step}); err != nil {
		return config, err
	}
	if config.Calls, err = p.calls(c.Scenario); err != nil {
		return config, err
	}
	if p.load.Check {
		var methods []rpc.Method
		steps := c.Scenario.Steps()
		for _, o := range c.Scenario.Outlines() {
			methods = append(methods, p.steps[steps[o.Step].Name].method)
		}
		config.Check = func(call int, message []byte) error { return methods[call].Check(message) }
	}
	// The steps say what is expected of responses.
	config.Judged, config.Fields, config.Trailers = true, c.Scenario.HeaderNames(), c.Scenario.TrailerNames()
	return config, nil
}
