package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// client is for requests that are answered at once.
func client(connections int, token string) *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: bearer{&http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}, token}}
}

// A bearer shows a token, if there is one, with every request.
type bearer struct {
	*http.Transport
	token string
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.Transport.RoundTrip(r)
}

// ask sends a document; any status but a good one is an error.
func ask(ctx context.Context, c *http.Client, method, url, body string) error {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: %s: %.200s", method, url, answer.Status, text)
	}
	answer.Body.Close()
	return err
}

// A mark says, among the labels of a policy or in a configuration, when its write was due:
// nanoseconds since the program began.
var began = time.Now()

const rules = `"rules":[{"match":{"services":["checkout"],"methods":["POST"],"path_prefix":"/v1/orders"},"action":"limit","limit":{"requests_per_second":500,"burst":50}},{"action":"allow"}]`

// applied is what a subscriber makes of an event.
type applied struct {
	Resource struct {
		Labels struct {
			Due string `json:"due"`
		} `json:"labels"`
		Rules []json.RawMessage `json:"rules"`
	} `json:"resource"`
}

// push writes policies at a rate, each of which one subscriber waits for.
func push(ctx context.Context, o options) (map[string]float64, error) {
	c := client(o.writers, o.token)
	defer c.CloseIdleConnections()
	address := strings.TrimPrefix(strings.TrimSuffix(o.watch, "/"), "http://")
	put := func(i int, due time.Duration) error {
		return ask(ctx, c, http.MethodPut, o.url+"/v1/policies/p"+strconv.Itoa(i), fmt.Sprintf(`{"labels":{"due":"%d"},%s}`, due, rules))
	}
	if err := together(o.writers, o.subscribers, func(i int) error { return put(i, 0) }); err != nil {
		return nil, err
	}
	streams, err := dialled(ctx, o.subscribers, address, o.token, func(i int) string { return "kind=policy&name=p" + strconv.Itoa(i) })
	if err != nil {
		return nil, err
	}
	var pushed times
	var reading sync.WaitGroup
	newest := make([]atomic.Int64, o.subscribers) // that each subscriber has applied
	for i, s := range streams {
		reading.Go(func() {
			s.events(func(data []byte) {
				var a applied
				if json.Unmarshal(data, &a) != nil || a.Resource.Labels.Due == "" {
					return // the mark of an end
				}
				due, err := strconv.ParseInt(a.Resource.Labels.Due, 10, 64)
				if err != nil || due == 0 || due <= newest[i].Load() {
					return
				}
				newest[i].Store(due)
				pushed.add(time.Since(began) - time.Duration(due))
			})
		})
	}
	defer func() {
		for _, s := range streams {
			s.conn.Close()
		}
		reading.Wait()
	}()

	w, err := paced(ctx, o, put)
	if err != nil {
		return nil, err
	}
	missing := withoutNewest(newest, w.last)
	figures := w.figures()
	figures["missing"] = float64(missing)
	pushed.into(figures, "push")
	return figures, nil
}

// writes are what became of those that were due on a schedule.
type writes struct {
	made, failed, dropped int
	took                  time.Duration
	times                 times   // from when a write was due until it was acknowledged
	last                  []int64 // when the newest write of each resource was due
}

func (w *writes) figures() map[string]float64 {
	figures := map[string]float64{"writes_per_second": float64(w.made) / w.took.Seconds(), "failed": float64(w.failed), "dropped": float64(w.dropped)}
	w.times.into(figures, "write")
	return figures
}

// withoutNewest waits up to five seconds until each subscriber got the newest write of its resource. It returns
// how many did not. Several connections may write one resource in another order.
func withoutNewest(newest []atomic.Int64, last []int64) (missing int) {
	deadline := time.Now().Add(5 * time.Second)
	for i := range newest {
		for newest[i].Load() < last[i] && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		if newest[i].Load() == 0 && last[i] != 0 {
			missing++
		}
	}
	return missing
}

// paced makes writes at a rate, of one resource after another. Who writes takes the next
// one that is due.
func paced(ctx context.Context, o options, put func(i int, due time.Duration) error) (*writes, error) {
	type write struct {
		resource int
		due      time.Duration
	}
	w := &writes{last: make([]int64, o.subscribers)}
	due := make(chan write, 1<<16)
	var mu sync.Mutex // guards w.failed
	var writing sync.WaitGroup
	for range o.writers {
		writing.Go(func() {
			for one := range due {
				if err := put(one.resource, one.due); err != nil {
					mu.Lock()
					w.failed++
					mu.Unlock()
					continue
				}
				w.times.add(time.Since(began) - one.due)
			}
		})
	}
	start := time.Since(began)
	n := int(o.rate * o.length.Seconds())
	for k := range n {
		at := start + time.Duration(float64(k)/o.rate*float64(time.Second))
		if wait := at - time.Since(began); wait > time.Millisecond {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		select {
		case due <- write{k % o.subscribers, at}:
			w.last[k%o.subscribers] = int64(at)
		default:
			w.dropped++
		}
	}
	close(due)
	writing.Wait()
	w.took = time.Since(began) - start
	w.made = n - w.dropped - w.failed
	return w, nil
}

// together calls do for 0 to n-1, some at a time, and returns the first error.
func together(at, n int, do func(i int) error) error {
	errs := make([]error, at)
	var wg sync.WaitGroup
	for w := range at {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += at {
				errs[w] = do(i)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// watchers hold streams of one configuration, which is changed some times. One of them
// reads nothing.
func watchers(ctx context.Context, o options) (map[string]float64, error) {
	c := client(1, o.token)
	defer c.CloseIdleConnections()
	address := strings.TrimPrefix(o.url, "http://")
	put := func(due time.Duration) error {
		return ask(ctx, c, http.MethodPut, o.url+"/v1/configs/shared", fmt.Sprintf(`{"content":"due=%d;"}`, due))
	}
	if err := put(0); err != nil {
		return nil, err
	}
	before, err := used(o.pid)
	if err != nil {
		return nil, err
	}
	streams, err := dialled(ctx, o.watchers, address, o.token, func(int) string { return "kind=config&name=shared" })
	if err != nil {
		return nil, err
	}
	var reached times
	var seen atomic.Int64
	var reading sync.WaitGroup
	for _, s := range streams[1:] {
		reading.Go(func() {
			s.events(func(data []byte) {
				_, rest, ok := bytes.Cut(data, []byte("due="))
				digits, _, end := bytes.Cut(rest, []byte{';'})
				if due, err := strconv.ParseInt(string(digits), 10, 64); ok && end && err == nil && due > 0 {
					reached.add(time.Since(began) - time.Duration(due))
					seen.Add(1)
				}
			})
		})
	}
	defer func() {
		for _, s := range streams {
			s.conn.Close()
		}
		reading.Wait()
	}()
	held, err := used(o.pid)
	if err != nil {
		return nil, err
	}
	for i := range o.changes {
		if err := put(time.Since(began)); err != nil {
			return nil, err
		}
		want := int64(i+1) * int64(len(streams)-1)
		for deadline := time.Now().Add(10 * time.Second); seen.Load() < want; {
			if time.Now().After(deadline) {
				return nil, fmt.Errorf("change %d has reached %d of %d", i+1, seen.Load()-int64(i)*int64(len(streams)-1), len(streams)-1)
			}
			time.Sleep(time.Millisecond)
		}
	}
	figures := map[string]float64{"watchers": float64(len(streams)), "bytes_each": (held.bytes - before.bytes) / float64(len(streams))}
	reached.into(figures, "reach")
	return figures, nil
}

// instances registers many instances and sends their heartbeats, a thousand in a request.
func instances(ctx context.Context, o options) (map[string]float64, error) {
	const services, batch = 100, 1000
	c := client(64, o.token)
	defer c.CloseIdleConnections()
	name := func(i int) (service, id string) {
		return "service-" + strconv.Itoa(i%services), strconv.Itoa(i / services)
	}
	start := time.Now()
	if err := together(64, o.instances, func(i int) error {
		service, id := name(i)
		return ask(ctx, c, http.MethodPut, o.url+"/v1/services/"+service+"/instances/"+id,
			fmt.Sprintf(`{"address":"10.%d.%d.%d","port":80,"ttl_seconds":%v}`, i>>16&0xff, i>>8&0xff, i&0xff, 3*o.interval.Seconds()))
	}); err != nil {
		return nil, err
	}
	figures := map[string]float64{"instances": float64(o.instances), "registered_per_second": float64(o.instances) / time.Since(start).Seconds()}
	before, err := used(o.pid)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	unknown := 0
	var slowest time.Duration
	for next := began; time.Since(began) < o.length; {
		for from := 0; from < o.instances; from += batch {
			var b strings.Builder
			b.WriteString(`{"instances":[`)
			for i := from; i < min(from+batch, o.instances); i++ {
				service, id := name(i)
				if i > from {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, `{"service":%q,"id":%q}`, service, id)
			}
			b.WriteString("]}")
			at := time.Now()
			lost, err := beat(ctx, c, o.url, b.String())
			if err != nil {
				return nil, err
			}
			unknown += len(lost)
			slowest = max(slowest, time.Since(at))
		}
		next = next.Add(o.interval)
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	after, err := used(o.pid)
	if err != nil {
		return nil, err
	}
	figures["unknown"] = float64(unknown)
	figures["slowest_seconds"] = slowest.Seconds()
	figures["cpu_share"] = (after.cpu - before.cpu).Seconds() / time.Since(began).Seconds()
	figures["rss_bytes"] = after.bytes
	return figures, nil
}

// beat sends signs of life, and returns the IDs of instances that the control plane has lost. That one
// is not heard for another reason is an error.
func beat(ctx context.Context, c *http.Client, url, body string) (lost []string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/heartbeats", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("heartbeats: %s", answer.Status)
	}
	var out struct {
		Unknown []struct {
			ID string `json:"id"`
		} `json:"unknown"`
		Failed []json.RawMessage `json:"failed"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&out); err != nil {
		return nil, fmt.Errorf("heartbeats: %w", err)
	}
	if len(out.Failed) > 0 {
		return nil, fmt.Errorf("heartbeats: %d failed, the first: %s", len(out.Failed), out.Failed[0])
	}
	for _, u := range out.Unknown {
		lost = append(lost, u.ID)
	}
	return lost, nil
}
