package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/anishathalye/porcupine"
)

// A policyStep is what a client did with a policy. Kinds are put, release, promote, rollback, read, and list, which reads
// all versions. A version has the form RULES/RELEASE, where a number tells rules apart.
type policyStep struct {
	client    int
	kind, key string
	number    int // of put and release: the rules; of rollback: the version
	outcome   outcome
	seen      string // of a read or a change: the version's number and form; of a list: all forms
	call, ret int64
}

// policyModel is one policy: its versions. What is of unknown outcome happens at any time, or after everything.
var policyModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		versions, s := strings.Fields(state.(string)), input.(policyStep)
		rules, release, _ := strings.Cut(last(versions), "/")
		made := ""
		switch {
		case s.kind == "list":
			return s.seen == state, state
		case s.kind == "read":
			return s.seen == seen(len(versions), last(versions)), state
		case s.kind == "put":
			made = fmt.Sprint(s.number, "/", release)
		case s.kind == "release" && len(versions) > 0:
			made = fmt.Sprint(rules, "/", s.number)
		case s.kind == "promote" && release != "":
			made = release + "/"
		case s.kind == "rollback" && s.number <= len(versions):
			rules, _, _ = strings.Cut(versions[s.number-1], "/")
			made = rules + "/"
		}
		if made == "" {
			return s.outcome != done, state
		}
		versions = append(versions, made)
		return s.outcome == unknown || s.outcome == done && s.seen == seen(len(versions), made), strings.Join(versions, " ")
	},
}

func last(versions []string) string {
	if len(versions) == 0 {
		return ""
	}
	return versions[len(versions)-1]
}

func seen(version int, form string) string { return fmt.Sprint(version, " ", form) }

// A policySight is a version of a policy that a client of xDS has accepted.
type policySight struct {
	gray    bool // it has the label of gray releases
	key     string
	version int
	rules   string
}

// judgePolicies returns what is wrong with steps, and with what clients of xDS were sent.
func judgePolicies(steps []policyStep, sights []policySight, patience time.Duration) (faults []string) {
	byKey := map[string][]porcupine.Operation{}
	truth := map[string][]string{}
	for _, s := range steps {
		byKey[s.key] = append(byKey[s.key], porcupine.Operation{ClientId: s.client, Input: s, Call: s.call, Return: s.ret})
		if s.kind == "list" {
			truth[s.key] = strings.Fields(s.seen)
		}
	}
	faults = explain(policyModel, byKey, patience)
	for _, s := range sights {
		form := "none"
		if versions := truth[s.key]; s.version <= len(versions) {
			form = versions[s.version-1]
		}
		want, release, _ := strings.Cut(form, "/")
		if s.gray && release != "" {
			want = release
		}
		if s.rules != want {
			faults = append(faults, fmt.Sprintf("version %d of %s was sent with the rules %s to a client, and is %s", s.version, s.key, s.rules, form))
		}
	}
	return faults
}

// TestJudgePolicies: what can be is taken for right, and what cannot is refused.
func TestJudgePolicies(t *testing.T) {
	step := func(from, to int64, kind string, number int, o outcome, seen string) policyStep {
		return policyStep{kind: kind, key: "p", number: number, outcome: o, seen: seen, call: from, ret: to}
	}
	const never = math.MaxInt64
	sight := func(gray bool, version int, rules string) policySight { return policySight{gray, "p", version, rules} }
	all := []policyStep{
		step(0, 1, "read", 0, done, "0 "), step(2, 3, "promote", 0, refused, ""), step(4, 5, "put", 1, done, "1 1/"), step(6, 7, "release", 2, done, "2 1/2"),
		step(8, 9, "promote", 0, done, "3 2/"), step(10, 11, "rollback", 1, done, "4 1/"), step(12, 13, "read", 0, done, "4 1/"), step(14, 15, "list", 0, done, "1/ 1/2 2/ 1/"),
	}
	for name, c := range map[string]struct {
		steps  []policyStep
		sights []policySight
		right  bool
	}{
		"one after the other":            {all, []policySight{sight(false, 2, "1"), sight(true, 2, "2"), sight(true, 3, "2")}, true},
		"a release stays":                {append(slices.Clone(all[:4]), step(8, 9, "put", 3, done, "3 3/2")), nil, true},
		"of unknown outcome":             {[]policyStep{step(0, never, "put", 1, unknown, ""), step(1, never, "promote", 0, unknown, ""), step(2, 3, "put", 2, done, "2 2/"), step(4, 5, "list", 0, done, "1/ 2/")}, nil, true},
		"never made":                     {[]policyStep{step(0, never, "put", 1, unknown, ""), step(4, 5, "list", 0, done, "")}, nil, true},
		"lost":                           {[]policyStep{step(0, 1, "put", 1, done, "1 1/"), step(4, 5, "list", 0, done, "")}, nil, false},
		"stale":                          {append(slices.Clone(all[:4]), step(8, 9, "read", 0, done, "1 1/")), nil, false},
		"refused and made":               {append(slices.Clone(all[:4]), step(8, 9, "promote", 0, refused, ""), step(10, 11, "list", 0, done, "1/ 1/2 2/")), nil, false},
		"promoted by nobody":             {append(slices.Clone(all[:3]), step(8, 9, "promote", 0, done, "2 1/")), nil, false},
		"rolled back to another version": {append(slices.Clone(all[:5]), step(8, 9, "rollback", 1, done, "4 2/")), nil, false},
		"other rules were sent":          {all, []policySight{sight(false, 2, "2")}, false},
		"a release was not sent":         {all, []policySight{sight(true, 2, "1")}, false},
		"a version that there is not":    {all, []policySight{sight(true, 5, "1")}, false},
	} {
		if faults := judgePolicies(c.steps, c.sights, time.Minute); (len(faults) == 0) != c.right {
			t.Errorf("%s: %q", name, faults)
		}
	}
}

// What clients of policies do.
const (
	policyWriters = 3
	policyPause   = 6 * pace
	stepsOfPolicy = 300 // of two policies, before clients go on to others
	routesType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
)

// subscribers are the clients of xDS. Each wants the routes to a service. The last one refuses those with policies.
var subscribers = []struct{ name, service string }{{"gray", "checked"}, {"plain", "checked"}, {"strict", "strict"}}

// policyLoad is clients that change policies, and clients of xDS.
type policyLoad struct {
	*load
	grpc           []string     // addresses of replicas
	numbers        atomic.Int64 // of rules
	mu             sync.Mutex   // guards what follows
	steps          []policyStep
	sights         []policySight
	versions       map[string]int            // the newest that an answer had
	held           map[string]map[string]int // versions by subscriber and policy
	sent, refusals int
	wrong          []string
	fates          map[outcome]int
}

func newPolicyLoad(c *cluster, l *load) *policyLoad {
	p := &policyLoad{load: l, grpc: c.grpc, versions: map[string]int{}, held: map[string]map[string]int{}, fates: map[outcome]int{}}
	for _, s := range subscribers {
		p.held[s.name] = map[string]int{}
	}
	return p
}

// register makes the service strict known: there are routes only to services with instances.
func (l *policyLoad) register(ctx context.Context) {
	l.insist(ctx, 0, http.MethodPut, "/v1/services/strict/instances/1", `{"address":"127.0.0.1","port":1,"ttl_seconds":3600}`)
}

// policyOf reads the version that an answer has.
func policyOf(doc map[string]json.RawMessage) (version int, form string) {
	type rules []struct {
		Seconds float64 `json:"timeout_seconds"`
	}
	var own rules
	var release struct{ Rules rules }
	if json.Unmarshal(doc["version"], &version) != nil {
		return 0, ""
	}
	_ = json.Unmarshal(doc["rules"], &own) // the form shows what is not there
	_ = json.Unmarshal(doc["release"], &release)
	for _, r := range own {
		form += fmt.Sprint(math.Round(r.Seconds * 1000))
	}
	form += "/"
	for _, r := range release.Rules {
		form += fmt.Sprint(math.Round(r.Seconds * 1000))
	}
	return version, form
}

// writer changes and reads policies until ctx ends.
func (l *policyLoad) writer(ctx context.Context, n int) {
	random := rand.New(rand.NewPCG(l.seed, uint64(3000+n))) //nolint:gosec // a number of a client
	asking := context.WithoutCancel(ctx)
	for i := 0; ctx.Err() == nil; pause(ctx, policyPause) {
		i++
		l.mu.Lock()
		service := subscribers[1+random.IntN(2)].service
		key := fmt.Sprint(service, len(l.steps)/stepsOfPolicy)
		versions := l.versions[key]
		l.mu.Unlock()
		at := "/v1/policies/" + key
		s := policyStep{client: n, key: key, number: int(l.numbers.Add(1))}
		rules := fmt.Sprintf(`{"labels":{"app":["gray"]},"rules":[{"action":"timeout","match":{"services":[%q],"path":"/%s"},"timeout_seconds":%v}]}`, service, key, float64(s.number)/1000)
		switch random.IntN(7) {
		case 0, 1:
			s.kind = "put"
			l.change(asking, s, http.MethodPut, at, strings.Replace(rules, `{"app":["gray"]}`, `{}`, 1), random)
		case 2, 3:
			s.kind = "release"
			l.change(asking, s, http.MethodPut, at+"/release", rules, random)
		case 4:
			s.kind = "promote"
			l.change(asking, s, http.MethodPost, at+"/promote", "", random)
		case 5:
			s.kind, s.number = "rollback", 1+random.IntN(max(1, versions))
			l.change(asking, s, http.MethodPost, at+"/rollback", fmt.Sprintf(`{"version":%d}`, s.number), random)
		default:
			l.read(asking, s, random.IntN(size))
		}
	}
}

// change makes a change, and repeats it at other replicas while its fate is unknown.
func (l *policyLoad) change(ctx context.Context, s policyStep, method, path, body string, random *rand.Rand) {
	s.call, s.outcome = l.now(), undone
	id := fmt.Sprint("policy-", s.client, "-", s.call)
	var doc map[string]json.RawMessage
	uncertain := false
	for try := 0; try < attempts && (s.outcome == unknown || s.outcome == undone); try++ {
		if try > 0 {
			pause(ctx, 10*pace)
		}
		s.outcome, _, doc = l.ask(ctx, random.IntN(size), method, path, body, id)
		uncertain = uncertain || s.outcome == unknown
	}
	s.ret = l.now()
	switch {
	case s.outcome == done:
		s.seen = seen(policyOf(doc))
	case uncertain: // a former attempt may still be made
		s.outcome, s.ret = unknown, math.MaxInt64
	}
	l.add(s)
}

// read reads a policy.
func (l *policyLoad) read(ctx context.Context, s policyStep, at int) bool {
	s.kind, s.call = "read", l.now()
	var doc map[string]json.RawMessage
	s.outcome, _, doc = l.ask(ctx, at, http.MethodGet, "/v1/policies/"+s.key, "", "")
	s.seen, s.ret = seen(policyOf(doc)), l.now()
	if s.outcome == refused { // there is none
		s.outcome = done
	}
	if s.outcome == done {
		l.add(s)
	}
	return s.outcome == done
}

func (l *policyLoad) add(s policyStep) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.kind != "read" && s.kind != "list" {
		l.fates[s.outcome]++
	}
	if s.outcome == undone {
		return
	}
	l.steps = append(l.steps, s)
	var version int
	_, _ = fmt.Sscan(s.seen, &version) // 0 of none
	l.versions[s.key] = max(l.versions[s.key], version)
}

// end reads every policy at every replica, and all of its versions.
func (l *policyLoad) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for key := range maps.Clone(l.versions) {
		for at := range size {
			for !l.read(ctx, policyStep{client: policyWriters, key: key}, at) && ctx.Err() == nil {
				pause(ctx, pace)
			}
		}
		s := policyStep{client: policyWriters, kind: "list", key: key, call: l.now()}
		var items []map[string]json.RawMessage
		for s.outcome != done && s.outcome != refused && ctx.Err() == nil {
			var doc map[string]json.RawMessage
			s.outcome, _, doc = l.ask(ctx, 0, http.MethodGet, "/v1/policies/"+key+"/history", "", "")
			_ = json.Unmarshal(doc["items"], &items) // checked with the others
			pause(ctx, pace)
		}
		for _, one := range items {
			_, form := policyOf(one)
			s.seen = strings.TrimSpace(s.seen + " " + form)
		}
		s.ret, s.outcome = l.now(), done
		l.add(s)
		l.versions[key] = len(items)
	}
}

// subscriber has a stream to one replica after the other, until ctx ends. It goes on with the routes that it has.
func (l *policyLoad) subscriber(ctx context.Context, n int) {
	random := rand.New(rand.NewPCG(l.seed, uint64(4000+n))) //nolint:gosec // a number of a client
	known := map[string]string{}
	for ctx.Err() == nil {
		life, cancel := context.WithTimeout(ctx, time.Duration(300+random.IntN(3000))*time.Millisecond)
		_ = l.subscribe(life, n, random.IntN(size), known) // it is cut off, in one way or another
		cancel()
		pause(ctx, 5*pace)
	}
}

// subscribe follows the routes to a service at a replica. known has the versions of resources.
func (l *policyLoad) subscribe(ctx context.Context, n, at int, known map[string]string) error {
	c, err := grpc.NewClient("passthrough:///"+l.grpc[at], grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	defer c.Close()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(c).DeltaAggregatedResources(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secret))
	if err != nil {
		return err
	}
	who := subscribers[n]
	about, err := structpb.NewStruct(map[string]any{"labels": map[string]any{"app": who.name}})
	if err != nil {
		return err
	}
	next := &discovery.DeltaDiscoveryRequest{Node: &core.Node{Id: who.name, Metadata: about}, ResourceNamesSubscribe: []string{who.service + ".default"}, InitialResourceVersions: maps.Clone(known)}
	for {
		next.TypeUrl = routesType
		if err := stream.Send(next); err != nil {
			return err
		}
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		next = &discovery.DeltaDiscoveryRequest{ResponseNonce: response.GetNonce()}
		for _, one := range response.GetResources() {
			var routes route.RouteConfiguration
			if err := one.GetResource().UnmarshalTo(&routes); err != nil {
				return err
			}
			if l.take(n, at, &routes) {
				known[one.GetName()] = one.GetVersion()
			} else {
				next.ErrorDetail = &status.Status{Message: "it has policies"}
			}
		}
	}
}

// take notes the policies of routes, and reports whether the client accepts these.
func (l *policyLoad) take(n, at int, routes *route.RouteConfiguration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	who := subscribers[n]
	for _, host := range routes.GetVirtualHosts() {
		policies := host.GetMetadata().GetFilterMetadata()["policies"].GetFields()
		if who.name == "strict" && len(policies) > 0 {
			l.refusals++
			return false
		}
		for name, value := range policies {
			s := policySight{gray: who.name == "gray", key: strings.TrimPrefix(name, "default/"), version: int(value.GetNumberValue())}
			before := l.held[who.name][s.key]
			if s.version < before {
				l.wrong = append(l.wrong, fmt.Sprintf("%s was sent version %d of %s by replica %d, after version %d", who.name, s.version, s.key, at, before))
			}
			if s.version == before {
				continue
			}
			l.held[who.name][s.key] = s.version
			for _, r := range host.GetRoutes() {
				if r.GetMatch().GetPath() == "/"+s.key {
					s.rules = fmt.Sprint(r.GetRoute().GetTimeout().AsDuration().Round(time.Millisecond).Milliseconds())
				}
			}
			l.sights = append(l.sights, s)
		}
	}
	return true
}

// settle waits until clients of xDS have the newest version of each policy, and a replica knows that it was refused.
func (l *policyLoad) settle(ctx context.Context) (faults []string) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		faults = nil
		for key, version := range l.versions {
			if version > 0 {
				faults = append(faults, l.missing(ctx, key, version)...)
			}
		}
		if len(faults) == 0 || ctx.Err() != nil {
			return faults
		}
		pause(ctx, 5*pace)
	}
}

// missing returns what is missing of the newest version of a policy.
func (l *policyLoad) missing(ctx context.Context, key string, version int) (faults []string) {
	if strings.HasPrefix(key, "strict") {
		for at := range size {
			var holdings []struct {
				Client, State string
				Version       int
			}
			_, _, doc := l.ask(ctx, at, http.MethodGet, "/v1/policies/"+key+"/rollout", "", "")
			_ = json.Unmarshal(doc["holdings"], &holdings) // none of no answer
			for _, h := range holdings {
				if h.Client == "faults/strict" && h.State == "refused" && h.Version == version {
					return nil
				}
			}
		}
		return []string{fmt.Sprintf("version %d of %s was refused, and no rollout says so", version, key)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, who := range subscribers {
		if held := l.held[who.name][key]; who.service == "checked" && held != version {
			faults = append(faults, fmt.Sprintf("in the end %s has version %d of %s: the newest is %d", who.name, held, key, version))
		}
	}
	return faults
}

// summary says what was done and judged.
func (l *policyLoad) summary() string {
	versions := 0
	for _, n := range l.versions {
		versions += n
	}
	return fmt.Sprintf("policies: %d versions of %d, %d changes acknowledged, %d refused, %d of unknown fate; xDS: %d routes sent, %d versions judged, %d refusals",
		versions, len(l.versions), l.fates[done], l.fates[refused], l.fates[unknown], l.sent, len(l.sights), l.refusals)
}
