package main

import (
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/rpc"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"dyno/experiments/subjects/measurement"
	"dyno/lab/fleet/queue"
	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// A Dispatch measures how a task that does nothing gets to one of several workers, in the stages of the report: a
// scheduler in the process (local); workers that register with the control plane, and that a scheduler finds there and
// calls (registered); a list in Redis that workers take tasks from, and confirm (redis); dyno's queue, which keeps each
// task in etcd and gives it a lease (queue). Workers are goroutines of this process in all stages.
//
// Figures: dispatch_seconds, the median from submission to begin, one task at a time; tasks_per_second, submitted
// one after another, until all have started.
type Dispatch struct {
	Stage   string `yaml:"stage" oneof:"local registered redis queue" default:"local" doc:"who brings tasks to workers"`
	Workers int    `yaml:"workers" range:"1..64" default:"4" doc:"how many"`
	Tasks   int    `yaml:"tasks" range:"1..900" default:"300" doc:"how many at once"`
	Single  int    `yaml:"single" range:"1..900" default:"50" doc:"how many one at a time"`
}

// A stage brings tasks to workers.
type stage interface {
	submit(ctx context.Context, n int) error
	close() error
}

// Run measures once.
func (d Dispatch) Run(ctx context.Context) (_ measurement.Result, err error) {
	begins := make(chan int, d.Tasks+d.Single)
	started := func(n int) { begins <- n }
	open := map[string]func(context.Context, int, func(int)) (stage, error){
		"local": newLocal, "registered": newRegistered, "redis": newRedis, "queue": newQueued,
	}[d.Stage]
	of, err := open(ctx, d.Workers, started)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, of.close()) }()
	await := func(n int) error {
		for range n {
			select {
			case <-begins:
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(readyIn):
				return errors.New("a task does not begin")
			}
		}
		return nil
	}
	var single []float64
	for n := range d.Single {
		began := time.Now()
		if err := errors.Join(of.submit(ctx, n), await(1)); err != nil {
			return nil, err
		}
		single = append(single, time.Since(began).Seconds())
	}
	began := time.Now()
	for n := range d.Tasks {
		if err := of.submit(ctx, d.Single+n); err != nil {
			return nil, err
		}
	}
	if err := await(d.Tasks); err != nil {
		return nil, err
	}
	return measurement.Result{
		"tasks_per_second": float64(d.Tasks) / time.Since(began).Seconds(), "dispatch_seconds": quantile(sorted(single), 0.5),
	}, nil
}

// A local is a heap of tasks by priority, and goroutines that wait for it.
type local struct {
	mu      sync.Mutex // guards waiting and closed
	more    *sync.Cond
	waiting priorities
	closed  bool
	ends    sync.WaitGroup
}

type priorities []int

func (p priorities) Len() int           { return len(p) }
func (p priorities) Less(i, j int) bool { return p[i] < p[j] }
func (p priorities) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *priorities) Push(n any)        { *p = append(*p, n.(int)) }
func (p *priorities) Pop() any {
	n := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return n
}

func newLocal(_ context.Context, workers int, started func(int)) (stage, error) {
	l := &local{}
	l.more = sync.NewCond(&l.mu)
	for range workers {
		l.ends.Go(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			for {
				for len(l.waiting) == 0 && !l.closed {
					l.more.Wait()
				}
				if len(l.waiting) == 0 {
					return
				}
				n := heap.Pop(&l.waiting).(int)
				l.mu.Unlock()
				started(n)
				l.mu.Lock()
			}
		})
	}
	return l, nil
}

func (l *local) submit(_ context.Context, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	heap.Push(&l.waiting, n)
	l.more.Signal()
	return nil
}

func (l *local) close() error {
	l.mu.Lock()
	l.closed = true
	l.more.Broadcast()
	l.mu.Unlock()
	l.ends.Wait()
	return nil
}

// A registered is a scheduler that finds workers in the control plane, and calls them in turn.
type registered struct {
	bench         *bench
	client        *client.Client
	listeners     []net.Listener
	registrations []*client.Registration
	workers       []*rpc.Client
}

// A Worker is what a registered worker offers.
type Worker struct{ started func(int) }

// Begin begins a task.
func (w *Worker) Begin(n int, done *bool) error {
	w.started(n)
	*done = true
	return nil
}

func newRegistered(ctx context.Context, workers int, started func(int)) (_ stage, err error) {
	r := &registered{}
	if r.bench, err = newBench(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	c := client.Defaults()
	c.Servers = []string{r.bench.url}
	if r.client, err = client.New(c); err != nil {
		return nil, err
	}
	for n := range workers {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed with the stage
		if err != nil {
			return nil, err
		}
		r.listeners = append(r.listeners, l)
		server := rpc.NewServer()
		if err := server.RegisterName("Worker", &Worker{started}); err != nil {
			return nil, err
		}
		go serveRPC(server, l)
		port := l.Addr().(*net.TCPAddr).Port
		of, err := r.client.Register(resource.Instance{Service: "workers", ID: "w" + strconv.Itoa(n), Address: "127.0.0.1", Port: port, TTL: 10})
		if err != nil {
			return nil, err
		}
		r.registrations = append(r.registrations, of)
		if err := of.Ready(ctx); err != nil {
			return nil, err
		}
	}
	answer, err := r.client.Do(ctx, client.Request{Method: http.MethodGet, Path: "/v1/services/workers/instances", Query: url.Values{}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // only read
	var found struct {
		Items []resource.Instance `json:"items"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&found); err != nil {
		return nil, err
	}
	for _, i := range found.Items {
		w, err := rpc.Dial("tcp", net.JoinHostPort(i.Address, strconv.Itoa(i.Port)))
		if err != nil {
			return nil, err
		}
		r.workers = append(r.workers, w)
	}
	if len(r.workers) != workers {
		return nil, fmt.Errorf("%d workers are registered, and %d started", len(r.workers), workers)
	}
	return r, nil
}

// serveRPC serves connections until the listener is closed.
func serveRPC(server *rpc.Server, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go server.ServeConn(conn)
	}
}

func (r *registered) submit(_ context.Context, n int) error {
	var done bool
	return r.workers[n%len(r.workers)].Call("Worker.Begin", n, &done)
}

func (r *registered) close() (err error) {
	for _, w := range r.workers {
		err = errors.Join(err, w.Close())
	}
	for _, l := range r.listeners {
		err = errors.Join(err, l.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, of := range r.registrations {
		err = errors.Join(err, of.Close(ctx))
	}
	if r.client != nil {
		r.client.Close()
	}
	r.bench.close()
	return err
}

// A redisQueue is a list of tasks, and a list of those under way: a task is in one of them until it is confirmed.
type redisQueue struct {
	server *process
	client *redis.Client
	dir    string
	stop   context.CancelFunc
	ends   sync.WaitGroup
}

func newRedis(ctx context.Context, workers int, started func(int)) (stage, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tasks")
	if err != nil {
		return nil, err
	}
	server, err := start(ctx, dir, nil, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	if err != nil {
		return nil, err
	}
	q := &redisQueue{server: server, dir: dir, client: redis.NewClient(&redis.Options{Addr: address, PoolSize: workers + 2})}
	working, stop := context.WithCancel(ctx)
	q.stop = stop
	if err := retry(ctx, func() error { return q.client.Ping(ctx).Err() }); err != nil {
		return nil, errors.Join(err, q.close())
	}
	for range workers {
		q.ends.Go(func() {
			for working.Err() == nil {
				text, err := q.client.BLMove(working, "waiting", "running", "RIGHT", "LEFT", time.Second).Result()
				if err != nil {
					continue // none came, or the stage ends
				}
				n, err := strconv.Atoi(text)
				if err == nil {
					err = q.client.LRem(working, "running", 1, text).Err()
				}
				if err == nil {
					started(n)
				}
			}
		})
	}
	return q, nil
}

func (q *redisQueue) submit(ctx context.Context, n int) error {
	return q.client.LPush(ctx, "waiting", n).Err()
}

func (q *redisQueue) close() error {
	q.stop()
	q.ends.Wait()
	err := q.client.Close()
	q.server.stop()
	return errors.Join(err, os.RemoveAll(q.dir))
}

// A queued is dyno's queue with workers that run nothing.
type queued struct {
	bench *bench
	stop  context.CancelFunc
	ended chan error
}

func newQueued(ctx context.Context, workers int, started func(int)) (stage, error) {
	b, err := newBench(ctx)
	if err != nil {
		return nil, err
	}
	working, stop := context.WithCancel(ctx)
	q := &queued{b, stop, make(chan error, 1)}
	go func() {
		q.ended <- work(working, b, workers, func(_ context.Context, t *queue.Task) queue.Outcome {
			n, err := strconv.Atoi(t.Name)
			if err == nil {
				started(n)
			}
			return queue.Outcome{Done: err == nil}
		})
	}()
	return q, nil
}

func (q *queued) submit(ctx context.Context, n int) error {
	return q.bench.queue.Submit(ctx, []*queue.Submission{{Task: queue.Task{Name: strconv.Itoa(n)}}}, func(*queue.Task) {})
}

func (q *queued) close() error {
	q.stop()
	err := <-q.ended
	q.bench.close()
	return err
}
