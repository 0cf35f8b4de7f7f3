package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"dyno/lab/fleet/registry"
)

const tenantsPrefix = "tenants."

// DefaultTenant has the tasks that name no tenant.
const DefaultTenant = "default"

// Bounds.
const (
	MaxWeight     = 1000
	maxTenantName = 63
	maxHolders    = 1000
)

// A Tenant is a group of users that shares the workers with other groups. Weighted fair queueing divides the workers'
// time: the tenant that has used the least time for its weight comes next. A tenant that comes back has no credit for
// the time that it did not use. Submitters name their tenant, so tenants share, and are not protected from each other.
type Tenant struct {
	Weight     int `json:"weight"`                // of its share
	MaxWaiting int `json:"max_waiting,omitempty"` // tasks; 0: up to the queue's own bound
	MaxRunning int `json:"max_running,omitempty"` // tasks; 0: as many as there are workers
	// Used is the time of workers for finished tasks, divided by the weight, and Start is what it was when the latest
	// task began: the virtual time of start-time fair queueing (Goyal, Vin, Cheng, 1996).
	Used  float64 `json:"used_seconds"`
	Start float64 `json:"start_seconds"`
	// Holders are the leases of workers that run its tasks. A dead one does not count.
	Holders []string `json:"holders,omitempty"`
}

// Check validates a document as a tenant.
func (t *Tenant) Check(string) error {
	switch {
	case t.Weight < 1 || t.Weight > MaxWeight:
		return fmt.Errorf("weight: %d", t.Weight)
	case t.MaxWaiting < 0 || t.MaxRunning < 0:
		return fmt.Errorf("max_waiting: %d, max_running: %d", t.MaxWaiting, t.MaxRunning)
	case !(t.Used >= 0 && t.Start >= 0) || math.IsInf(t.Used+t.Start, 0):
		return fmt.Errorf("used_seconds: %v, start_seconds: %v", t.Used, t.Start)
	case len(t.Holders) > maxHolders:
		return fmt.Errorf("holders: %d", len(t.Holders))
	}
	return nil
}

// CheckTenant says what is wrong with a tenant's name.
func CheckTenant(name string) error {
	for i, c := range []byte(name) {
		if letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'; !letter && (c != '-' || i == 0) {
			return fmt.Errorf("%.80q: a tenant's name has letters from a to z, digits and hyphens", name)
		}
	}
	if name == "" || len(name) > maxTenantName {
		return fmt.Errorf("%.80q: a tenant's name has from 1 to %d letters", name, maxTenantName)
	}
	return nil
}

// TenantName returns the name of the task's tenant.
func (t *Task) TenantName() string { return cmp.Or(t.Tenant, DefaultTenant) }

// Tenants returns all readable tenants by name, and the unreadable ones.
func (q *Queue) Tenants(ctx context.Context) (map[string]Tenant, []registry.Broken, error) {
	return registry.Documents[Tenant](ctx, q.Registry, tenantsPrefix)
}

// SetTenant changes a tenant, or makes one.
func (q *Queue) SetTenant(ctx context.Context, name string, f func(*Tenant)) (Tenant, error) {
	return q.changeTenant(ctx, name, func(t *Tenant) error { f(t); return nil })
}

func (q *Queue) changeTenant(ctx context.Context, name string, f func(*Tenant) error) (Tenant, error) {
	return registry.Change(ctx, q.Registry, tenantsPrefix+name, func(t *Tenant) error {
		t.Weight = max(t.Weight, 1)
		return f(t)
	})
}

// QuotaError says that as many tasks of a tenant wait as may.
type QuotaError struct {
	Tenant  string
	Waiting int
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("%d tasks of tenant %s wait already, and no more may", e.Waiting, e.Tenant)
}

// checkQuota says whether one more task of its tenant may wait.
func checkQuota(t *Task, tasks []Task, tenants map[string]Tenant) error {
	most := tenants[t.TenantName()].MaxWaiting
	waiting := 0
	for i := range tasks {
		if tasks[i].State == Queued && tasks[i].TenantName() == t.TenantName() {
			waiting++
		}
	}
	if most > 0 && waiting >= most {
		return &QuotaError{t.TenantName(), waiting}
	}
	return nil
}

func (t *Tenant) running(live map[string]bool) (n int) {
	for _, holder := range t.Holders {
		if live[holder] {
			n++
		}
	}
	return n
}

// virtualTime returns how far the tenants' use has come: the latest beginning of a task.
func virtualTime(tenants map[string]Tenant) (latest float64) {
	for _, t := range tenants {
		latest = max(latest, t.Start)
	}
	return latest
}

// inTurn returns tasks in the order of taking: those of the tenant that has used the least come first, in their own
// order. Running tasks count with their prediction, or with their time so far. It leaves out tenants of which no more
// tasks may run.
func inTurn(tasks []Task, tenants map[string]Tenant, live map[string]bool, now time.Time) []Task {
	used, running := map[string]float64{}, map[string]float64{} // by tenant, for its weight
	weight := func(name string) float64 { return float64(max(tenants[name].Weight, 1)) }
	for i := range tasks {
		t := &tasks[i]
		name := t.TenantName()
		used[name] += 0
		if t.State == Running && live[t.Holder] {
			running[name] += 1 / weight(name)
			used[name] += max(t.Latest().Predicted, now.Sub(t.Latest().Began).Seconds()) / weight(name)
		}
	}
	virtual := virtualTime(tenants)
	full := map[string]bool{}
	for name := range used {
		of := tenants[name]
		n := of.running(live)
		full[name] = of.MaxRunning > 0 && n >= of.MaxRunning
		if n == 0 {
			of.Used = max(of.Used, virtual)
		}
		used[name] += of.Used
	}
	turn := slices.DeleteFunc(slices.Clone(tasks), func(t Task) bool { return full[t.TenantName()] })
	slices.SortStableFunc(turn, func(a, b Task) int {
		m, n := a.TenantName(), b.TenantName()
		return cmp.Or(cmp.Compare(used[m], used[n]), cmp.Compare(running[m], running[n]), order(&a, &b))
	})
	return turn
}

// errQuota says that as many tasks of a tenant run as may.
var errQuota = errors.New("as many tasks of the tenant run as may")

// enter counts a worker among those of a tenant.
func (t *Tenant) enter(lease string, virtual float64, live map[string]bool) error {
	t.Holders = slices.DeleteFunc(t.Holders, func(holder string) bool { return !live[holder] })
	if t.MaxRunning > 0 && len(t.Holders) >= t.MaxRunning || len(t.Holders) >= maxHolders {
		return errQuota
	}
	if len(t.Holders) == 0 { // it was idle
		t.Used = max(t.Used, virtual)
	}
	t.Holders = append(t.Holders, lease)
	t.Start = t.Used
	return nil
}

// leave takes the worker off, and charges the tenant for its time.
func (t *Tenant) leave(lease string, seconds float64) {
	t.Holders = slices.DeleteFunc(t.Holders, func(holder string) bool { return holder == lease })
	t.Used += max(seconds, 0) / float64(t.Weight)
}

// enter counts a worker among those of a tenant. It returns a function that takes the worker off.
func (q *Queue) enter(ctx context.Context, name, lease string, virtual float64) (leave func(seconds float64) error, err error) {
	_, err = q.changeTenant(ctx, name, func(t *Tenant) error {
		live, err := q.Registry.Leases(ctx)
		if err != nil {
			return err
		}
		return t.enter(lease, virtual, live)
	})
	return func(seconds float64) error {
		_, err := q.changeTenant(context.WithoutCancel(ctx), name, func(t *Tenant) error {
			t.leave(lease, seconds)
			return nil
		})
		return err
	}, err
}

// shared reports whether tenants share the workers. Without tenants, nothing is read or kept of them.
func shared(tasks []Task) bool {
	return slices.ContainsFunc(tasks, func(t Task) bool { return t.Tenant != "" && !t.ended() })
}
