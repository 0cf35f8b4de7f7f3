package transport

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"dyno/services/control/resource"
	"dyno/services/control/traffic"
)

// Without a budget, a fifth of the requests under way may be further attempts, and minRetries in any case.
const (
	defaultBudget = 20
	minRetries    = 3
)

// defaultOn are the conditions of a retry rule that names none.
var defaultOn = []string{"connect-failure", "reset", "5xx"}

// attempts sends a request to instances until an answer is good, or no further attempt is allowed.
func (t *Transport) attempts(ctx context.Context, s *service, route *traffic.Route, r *http.Request) (*http.Response, error) {
	if !s.begin() {
		return answer(r, http.StatusServiceUnavailable, "a policy bounds the requests under way"), nil
	}
	var tried []*instance
	for n := 0; ; n++ {
		response, err := t.once(ctx, s, route, r, &tried)
		again, next := s.repeats(ctx, route, r, n, response, err)
		if !again {
			if err != nil {
				s.end()
				return nil, err
			}
			response.Body = endedBy(response.Body, s.end)
			return response, nil
		}
		if response != nil {
			_ = response.Body.Close() // another attempt follows
		}
		pause := wait(ctx, backoff(route.Retry.Backoff, n))
		s.retried()
		if pause != nil {
			s.end()
			return nil, pause
		}
		r = next
	}
}

// begin counts a request under way, if there may be one more.
func (s *service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.table.Circuit; c != nil && c.Requests > 0 && s.active >= c.Requests {
		return false
	}
	s.active++
	return true
}

func (s *service) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
}

// repeats decides whether a request is tried again, and returns its copy. It counts a retry, until retried.
func (s *service) repeats(ctx context.Context, route *traffic.Route, r *http.Request, n int, response *http.Response, err error) (bool, *http.Request) {
	t := route.Retry
	if t == nil || n >= t.Attempts || ctx.Err() != nil || !isRetriable(t.On, response, err) {
		return false, nil
	}
	again, fault := copyOf(ctx, r)
	if fault != nil {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.table.Circuit; c != nil && c.Retries > 0 {
		if s.retries >= c.Retries {
			return false, nil
		}
	} else if s.retries >= max(minRetries, int(float64(s.active)*cmp.Or(t.Budget, defaultBudget)/100)) {
		return false, nil
	}
	s.retries++
	return true, again
}

func (s *service) retried() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retries--
}

// isRetriable reports whether one of the conditions holds for an outcome.
func isRetriable(on []string, response *http.Response, err error) bool {
	if len(on) == 0 {
		on = defaultOn
	}
	for _, one := range on {
		var dial *net.OpError
		connecting := errors.As(err, &dial) && dial.Op == "dial"
		switch one {
		case "connect-failure":
			if connecting || errors.Is(err, errNoInstance) {
				return true
			}
		case "reset":
			if err != nil && !connecting {
				return true
			}
		case "5xx":
			if err != nil || response.StatusCode >= 500 {
				return true
			}
		case "gateway-error":
			if err != nil || response.StatusCode >= 502 && response.StatusCode <= 504 {
				return true
			}
		case "retriable-4xx":
			if err == nil && response.StatusCode == http.StatusConflict {
				return true
			}
		}
	}
	return false
}

// backoff is the pause before another attempt: at random up to a bound that doubles, to ten times the first.
func backoff(first float64, n int) time.Duration {
	most := first * min(math.Pow(2, float64(n)), 10)
	return seconds(most * rand.Float64()) //nolint:gosec // not a secret
}

func wait(ctx context.Context, pause time.Duration) error {
	if pause <= 0 {
		return nil
	}
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errNoInstance = errors.New("no instance may get requests")

// once sends a request to one instance.
func (t *Transport) once(ctx context.Context, s *service, route *traffic.Route, r *http.Request, tried *[]*instance) (*http.Response, error) {
	i := t.choose(s, r, *tried)
	if i == nil {
		return nil, errNoInstance
	}
	*tried = append(*tried, i)
	cancel := context.CancelFunc(func() {})
	if route.Retry != nil && route.Retry.Each > 0 {
		ctx, cancel = context.WithTimeout(ctx, seconds(route.Retry.Each))
	}
	out := r.Clone(ctx)
	out.Body = r.Body
	if out.Host == "" {
		out.Host = r.URL.Host
	}
	out.URL.Host = net.JoinHostPort(i.Address, strconv.Itoa(i.Port))
	if out.URL.Scheme == "" {
		out.URL.Scheme = "http"
	}
	if w := route.Rewrite; w != nil {
		if w.PathPrefix != "" {
			out.URL.Path, out.URL.RawPath = exchange(out.URL.Path, w.Replaced, w.PathPrefix), ""
		}
		if w.Host != "" {
			out.Host = w.Host
		}
	}
	i.active.Add(1)
	response, err := t.base.RoundTrip(out)
	t.judge(s, i, err != nil || response.StatusCode >= 500)
	if err != nil {
		i.active.Add(-1)
		cancel()
		return nil, err
	}
	response.Body = endedBy(response.Body, func() { i.active.Add(-1); cancel() })
	return response, nil
}

// judge counts an instance's errors in a row, and ejects it when there are too many.
func (t *Transport) judge(s *service, i *instance, bad bool) {
	o := s.table.Outliers
	if !bad {
		i.errors.Store(0)
		return
	}
	if n := i.errors.Add(1); o == nil || n < int64(o.Errors) {
		return
	}
	now := time.Since(t.began)
	ejected := 0
	for _, one := range s.instances {
		if one.until.Load() > int64(now) {
			ejected++
		}
	}
	if ejected > 0 && (ejected+1)*100 > cmp.Or(o.MaxPercent, 10)*len(s.instances) {
		return // one may be ejected in any case, as by Envoy
	}
	i.errors.Store(0)
	i.until.Store(int64(now) + int64(seconds(cmp.Or(o.Ejection, 30)))*i.ejections.Add(1))
}

// choose chooses an instance, if there is one, that was not tried.
func (t *Transport) choose(s *service, r *http.Request, tried []*instance) *instance {
	now := int64(time.Since(t.began))
	var list []*instance
	for _, i := range s.instances {
		if i.until.Load() <= now {
			list = append(list, i)
		}
	}
	if fresh := slices.DeleteFunc(slices.Clone(list), func(i *instance) bool { return slices.Contains(tried, i) }); len(fresh) > 0 {
		list = fresh
	}
	balance := resource.Balancer{}
	if s.table.Balance != nil {
		balance = *s.table.Balance
	}
	if balance.Local {
		if near := slices.DeleteFunc(slices.Clone(list), func(i *instance) bool { return i.Zone != t.cfg.Zone }); len(near) > 0 {
			list = near
		}
	}
	if len(list) == 0 {
		return nil
	}
	switch balance.By {
	case "random":
		return byWeight(list, rand.Float64()) //nolint:gosec // not a secret
	case "least-request":
		a, b := byWeight(list, rand.Float64()), byWeight(list, rand.Float64()) //nolint:gosec // not a secret
		if b.active.Load() < a.active.Load() {
			return b
		}
		return a
	case "ring-hash":
		return byHash(list, r.Header.Get(balance.Header))
	}
	// The golden ratio's multiples visit all parts of the weights evenly.
	_, at := math.Modf(float64(s.turn.Add(1)) * (math.Sqrt(5) - 1) / 2)
	return byWeight(list, at)
}

// byWeight returns the instance at a place, from 0 to below 1, of all weights.
func byWeight(list []*instance, at float64) *instance {
	sum := 0
	for _, i := range list {
		sum += i.Weight
	}
	left := at * float64(sum)
	for _, i := range list {
		if left -= float64(i.Weight); left < 0 {
			return i
		}
	}
	return list[len(list)-1]
}

// byHash returns the instance that a value prefers: by the highest hash of both, with the weight ("rendezvous hashing").
func byHash(list []*instance, value string) *instance {
	score := func(i *instance) float64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(value + "\x00" + i.ID)) // a hash accepts every write
		x := h.Sum64()
		x ^= x >> 33
		x *= 0xff51afd7ed558ccd
		x ^= x >> 33
		return -float64(i.Weight) / math.Log((float64(x>>11)+0.5)/(1<<53))
	}
	return slices.MaxFunc(list, func(a, b *instance) int { return cmp.Compare(score(a), score(b)) })
}
