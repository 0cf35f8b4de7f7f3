package rest

import "sync"

// workers are goroutines that carry out requests for the goroutines of connections, which wait. Those are the only
// queue, so the server's bound on connections bounds it.
type workers struct {
	tasks   chan *task
	ended   <-chan struct{}
	running sync.WaitGroup
}

// A task is one request's work, which does not panic.
type task struct {
	q      *request
	handle func(*request) error
	err    error
	done   chan struct{}
}

// startWorkers starts n goroutines, which end when ended is closed.
func startWorkers(n int, ended <-chan struct{}) *workers {
	w := &workers{tasks: make(chan *task), ended: ended}
	for range n {
		w.running.Go(w.work)
	}
	return w
}

func (w *workers) work() {
	for {
		select {
		case t := <-w.tasks:
			t.err = t.handle(t.q)
			close(t.done)
		case <-w.ended:
			return
		}
	}
}

// do passes a request to a worker, or carries it out itself after the workers have ended.
func (w *workers) do(q *request, handle func(*request) error) error {
	t := &task{q: q, handle: handle, done: make(chan struct{})}
	select {
	case w.tasks <- t:
		<-t.done
	case <-w.ended:
		return handle(q)
	}
	return t.err
}
