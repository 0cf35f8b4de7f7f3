package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestOutage: etcd is away for longer than instances may be silent. None of them is lost,
// and all are visible again soon, from every replica.
func TestOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: stops etcd for as long as leases last")
	}
	const (
		instances = 1000 // and one more at the end
		lease     = 4 * time.Second
		away      = 3*lease + 3*time.Second // more than the lease and the time of grace, by far
		soon      = 10 * time.Second
	)
	c := newCluster(t, true, false)
	l := newLoad(t, c, 1)
	ask := func(replica int, method, path, body string) (int, []byte) {
		r, err := l.callers[replica].request(t.Context(), method, path, body)
		if err != nil {
			t.Fatal(err)
		}
		code, _, text, _ := l.callers[replica].ask(r)
		return code, text
	}
	register := func(i int) {
		t.Helper()
		body := fmt.Sprintf(`{"address":"10.0.%d.%d","port":80,"ttl_seconds":%v}`, i>>8, i&0xff, lease.Seconds())
		if !l.await(t.Context(), func() bool {
			code, _ := ask(i%size, http.MethodPut, fmt.Sprint("/v1/services/away/instances/", i), body)
			return code == http.StatusCreated || code == http.StatusOK
		}) {
			t.Fatalf("instance %d cannot be registered", i)
		}
	}
	for i := range instances {
		register(i)
	}
	// They give signs of life all the time, each to its replica.
	var unknown atomic.Int64
	beating, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	defer ended.Wait()
	defer stop()
	for replica := range size {
		var list []string
		for i := replica; i < instances; i += size {
			list = append(list, fmt.Sprintf(`{"service":"away","id":"%d"}`, i))
		}
		body := `{"instances":[` + strings.Join(list, ",") + `]}`
		ended.Go(func() {
			for beating.Err() == nil {
				if code, text := ask(replica, http.MethodPost, "/v1/heartbeats", body); code == http.StatusOK {
					var out struct {
						Unknown []json.RawMessage `json:"unknown"`
					}
					if err := json.Unmarshal(text, &out); err != nil {
						t.Error(err)
					}
					unknown.Add(int64(len(out.Unknown)))
				}
				pause(beating, lease/4)
			}
		})
	}
	if err := each(c.members, func(n *node) error { return n.signal(syscall.SIGSTOP) })(); err != nil {
		t.Fatal(err)
	}
	pause(t.Context(), away)
	if err := each(c.members, func(n *node) error { return n.signal(syscall.SIGCONT) })(); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	visible := func(replica int) (n int) {
		code, text := ask(replica, http.MethodGet, "/v1/services/away/instances?limit=1000", "")
		var page struct {
			Items []struct {
				Overdue bool `json:"overdue"`
			} `json:"items"`
		}
		if code != http.StatusOK || json.Unmarshal(text, &page) != nil {
			return 0
		}
		for _, i := range page.Items {
			if !i.Overdue {
				n++
			}
		}
		return n
	}
	for replica := range size {
		if !l.await(t.Context(), func() bool { return visible(replica) == instances }) {
			t.Fatalf("replica %d: %d of %d are visible %v after etcd's return", replica, visible(replica), instances, time.Since(back))
		}
	}
	took := time.Since(back)
	if took > soon {
		t.Errorf("all are visible again %v after etcd's return: want %v at most", took, soon)
	}
	register(instances) // changes are made again
	// Who was removed after all would be told so with one of the next signs of life.
	pause(t.Context(), 2*lease)
	if n := unknown.Load(); n != 0 {
		t.Errorf("%d instances were lost", n)
	}
	t.Logf("etcd away for %v, leases of %v, %d instances: %d lost, all visible again from every replica after %v", away, lease, instances, unknown.Load(), took.Round(time.Millisecond))
}
