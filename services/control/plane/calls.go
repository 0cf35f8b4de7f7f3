package plane

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"dyno/services/control/access"
	"dyno/services/control/resource"
)

// Calls are the requests that callers of one name send to a service, as their data planes report them.
type Calls struct {
	From     string  `json:"from"` // a service, or the name of a group of data planes
	Service  string  `json:"service"`
	Reports  int     `json:"reports"` // data planes that report
	Requests float64 `json:"requests_per_second"`
	Errors   float64 `json:"errors_per_second"`
	Active   float64 `json:"active"` // under way
}

// calls has the last report of each data plane of this replica. Their number is bounded by that of streams.
type calls struct {
	mu      sync.Mutex // guards reports
	reports map[*CallReports]map[resource.Ref]Calls
}

// MaxCalls bounds the services of one report.
const MaxCalls = 10_000

// CallReports are those of one data plane, until End.
type CallReports struct{ calls *calls }

// ReportCalls begins the reports of a data plane.
func (p *Plane) ReportCalls() *CallReports { return &CallReports{&p.calls} }

// Note replaces the report by a newer one: what is sent to each service.
func (r *CallReports) Note(report map[resource.Ref]Calls) {
	r.calls.mu.Lock()
	defer r.calls.mu.Unlock()
	if r.calls.reports == nil {
		r.calls.reports = map[*CallReports]map[resource.Ref]Calls{}
	}
	r.calls.reports[r] = report
}

// End forgets the report.
func (r *CallReports) End() {
	r.calls.mu.Lock()
	defer r.calls.mu.Unlock()
	delete(r.calls.reports, r)
}

// Calls returns who calls the services of a namespace, by the reports of data planes that are connected to this replica.
func (p *Plane) Calls(_ context.Context, by Caller, namespace string) ([]Calls, error) {
	if err := (resource.Ref{Kind: resource.Policies, Namespace: namespace, Name: "x"}).Check(); err != nil {
		return nil, BadParameterf("%v", err)
	}
	if err := by.may(access.Read, namespace); err != nil {
		return nil, err
	}
	type edge struct{ from, to string }
	sums := map[edge]*Calls{}
	p.calls.mu.Lock()
	defer p.calls.mu.Unlock()
	for _, report := range p.calls.reports {
		for r, one := range report {
			if r.Namespace != namespace {
				continue
			}
			key := edge{one.From, r.Name}
			if sums[key] == nil {
				sums[key] = &Calls{From: one.From, Service: r.Name}
			}
			sum := sums[key]
			sum.Reports++
			sum.Requests += one.Requests
			sum.Errors += one.Errors
			sum.Active += one.Active
		}
	}
	list := make([]Calls, 0, len(sums))
	for _, sum := range sums {
		list = append(list, *sum)
	}
	slices.SortFunc(list, func(a, b Calls) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.Service, b.Service))
	})
	return list, nil
}
