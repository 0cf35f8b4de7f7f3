package main

import (
	"bytes"
	"context"
	"crypto/md5" // the protocol names contents by it
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A peer is a client of a system that keeps configurations and tells those who watch them.
type peer interface {
	// write makes a content that of configuration i. It returns when that is acknowledged.
	write(ctx context.Context, i int, content string) error
	// follow returns once configuration i is watched, and calls take with each content that
	// it gets, until ctx ends.
	follow(ctx context.Context, i int, take func(content []byte)) error
	close() // after ctx has ended
}

// peers writes configurations at a rate, each of which one subscriber watches.
func peers(ctx context.Context, o options) (map[string]float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := newPeer(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		cancel()
		p.close()
	}()
	put := func(i int, due time.Duration) error {
		text := fmt.Sprintf("due=%d;", due)
		return p.write(ctx, i, text+strings.Repeat("x", max(0, o.size-len(text))))
	}
	if err := together(o.writers, o.subscribers, func(i int) error { return put(i, 0) }); err != nil {
		return nil, err
	}
	var pushed times
	newest := make([]atomic.Int64, o.subscribers) // that each subscriber got
	if err := together(min(64, o.subscribers), o.subscribers, func(i int) error {
		return p.follow(ctx, i, func(content []byte) {
			_, rest, ok := bytes.Cut(content, []byte("due="))
			digits, _, end := bytes.Cut(rest, []byte{';'})
			due, err := strconv.ParseInt(string(digits), 10, 64)
			if !ok || !end || err != nil || due <= newest[i].Load() {
				return
			}
			newest[i].Store(due)
			pushed.add(time.Since(began) - time.Duration(due))
		})
	}); err != nil {
		return nil, err
	}
	before, err := usedBy(o.pids)
	if err != nil {
		return nil, err
	}
	w, err := paced(ctx, o, put)
	if err != nil {
		return nil, err
	}
	missing := withoutNewest(newest, w.last)
	after, err := usedBy(o.pids)
	if err != nil {
		return nil, err
	}
	figures := w.figures()
	figures["missing"] = float64(missing)
	pushed.into(figures, "push")
	figures["told_share"] = float64(len(pushed.list)) / float64(max(1, w.made))
	figures["cpu_us_per_write"] = float64((after - before).Microseconds()) / float64(max(1, w.made))
	return figures, nil
}

// usedBy is the CPU time of processes, by their numbers with commas between them.
func usedBy(pids string) (sum time.Duration, err error) {
	for text := range strings.SplitSeq(pids, ",") {
		if text == "" {
			continue
		}
		pid, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("pids: %q: must be numbers", pids)
		}
		one, err := used(pid)
		if err != nil {
			return 0, err
		}
		sum += one.cpu
	}
	return sum, nil
}

func newPeer(ctx context.Context, o options) (peer, error) {
	switch o.system {
	case "control":
		return &controlPeer{url: o.url, http: client(o.writers)}, nil
	case "nacos":
		return &nacosPeer{url: o.url + "/nacos/v1/cs/configs", http: client(o.writers), poll: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.subscribers}}}, nil
	case "etcd":
		p := &etcdPeer{ctx: ctx, address: o.url}
		p.free = make(chan *clientv3.Client, o.writers)
		for range o.writers {
			c, err := p.dial()
			if err != nil {
				return nil, errors.Join(err, p.closed())
			}
			p.free <- c
		}
		return p, nil
	}
	return nil, fmt.Errorf("system: %q: must be control, etcd or nacos", o.system)
}

// name is that of a configuration, of the same length in all systems.
func name(i int) string { return fmt.Sprintf("c%06d", i) }

// A controlPeer watches by server-sent events.
type controlPeer struct {
	url     string
	http    *http.Client
	mu      sync.Mutex // guards streams
	streams []*stream
	reading sync.WaitGroup
}

func (p *controlPeer) write(ctx context.Context, i int, content string) error {
	return ask(ctx, p.http, http.MethodPut, p.url+"/v1/configs/"+name(i), `{"content":"`+content+`"}`)
}

func (p *controlPeer) follow(ctx context.Context, i int, take func([]byte)) error {
	s, err := watch(ctx, strings.TrimPrefix(p.url, "http://"), "kind=config&name="+name(i))
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.streams = append(p.streams, s)
	p.mu.Unlock()
	got := make(chan struct{})
	first := sync.OnceFunc(func() { close(got) })
	p.reading.Go(func() {
		s.events(func(data []byte) {
			take(data)
			if bytes.Contains(data, []byte("due=")) {
				first()
			}
		})
		first()
	})
	<-got
	return nil
}

func (p *controlPeer) close() {
	for _, s := range p.streams {
		s.conn.Close()
	}
	p.reading.Wait()
	p.http.CloseIdleConnections()
}

// An etcdPeer has a connection for each writer and each watcher, as programs of their own have.
type etcdPeer struct {
	ctx     context.Context // of the clients, which end with it
	address string
	free    chan *clientv3.Client
	mu      sync.Mutex // guards all
	all     []*clientv3.Client
	reading sync.WaitGroup
}

func (p *etcdPeer) dial() (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{p.address}, DialTimeout: 5 * time.Second, Context: p.ctx})
	if err == nil {
		p.mu.Lock()
		p.all = append(p.all, c)
		p.mu.Unlock()
	}
	return c, err
}

func (p *etcdPeer) write(ctx context.Context, i int, content string) error {
	c := <-p.free
	defer func() { p.free <- c }()
	_, err := c.Put(ctx, name(i), content)
	return err
}

func (p *etcdPeer) follow(ctx context.Context, i int, take func([]byte)) error {
	c, err := p.dial()
	if err != nil {
		return err
	}
	changes := c.Watch(ctx, name(i), clientv3.WithCreatedNotify())
	select {
	case first, ok := <-changes:
		if !ok || !first.Created {
			return fmt.Errorf("watch of %s: %w", name(i), errors.Join(first.Err(), errors.New("it was not made")))
		}
	case <-time.After(10 * time.Second):
		return fmt.Errorf("watch of %s: there is none after 10 s", name(i))
	}
	p.reading.Go(func() {
		for change := range changes {
			for _, e := range change.Events {
				take(e.Kv.Value)
			}
		}
	})
	return nil
}

func (p *etcdPeer) closed() (err error) {
	for _, c := range p.all {
		err = errors.Join(err, c.Close())
	}
	return err
}

func (p *etcdPeer) close() {
	_ = p.closed() // all has been measured
	p.reading.Wait()
}

// A nacosPeer watches by long polls: the server answers when a content is another than the
// client says it has, by its MD5, and the client then reads it.
type nacosPeer struct {
	url        string
	http, poll *http.Client
	reading    sync.WaitGroup
}

const nacosGroup = "DEFAULT_GROUP"

// r-nacos acknowledges a write when its log has it, and applies it after that: a read in
// between finds nothing.
var errNacosNone = errors.New("there is no such configuration")

const nacosPatience = 10 * time.Second

// form sends one, and returns the answer.
func (p *nacosPeer) form(ctx context.Context, c *http.Client, method, address string, form url.Values, header ...string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode == http.StatusNotFound {
		return nil, errNacosNone
	}
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %.200s", method, address, answer.Status, text)
	}
	return text, err
}

func (p *nacosPeer) write(ctx context.Context, i int, content string) error {
	text, err := p.form(ctx, p.http, http.MethodPost, p.url, url.Values{"dataId": {name(i)}, "group": {nacosGroup}, "content": {content}})
	if err == nil && string(text) != "true" {
		err = fmt.Errorf("write of %s: %.200s", name(i), text)
	}
	return err
}

func (p *nacosPeer) follow(ctx context.Context, i int, take func([]byte)) error {
	read := func() ([]byte, error) {
		return p.form(ctx, p.poll, http.MethodGet, p.url+"?"+url.Values{"dataId": {name(i)}, "group": {nacosGroup}}.Encode(), nil)
	}
	content, err := read()
	for start := time.Now(); errors.Is(err, errNacosNone) && time.Since(start) < nacosPatience && ctx.Err() == nil; content, err = read() {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("read of %s: %w", name(i), err)
	}
	p.reading.Go(func() {
		for ctx.Err() == nil {
			sum := md5.Sum(content)
			listen := strings.Join([]string{name(i), nacosGroup, hex.EncodeToString(sum[:])}, "\x02") + "\x01"
			changed, err := p.form(ctx, p.poll, http.MethodPost, p.url+"/listener", url.Values{"Listening-Configs": {listen}}, "Long-Pulling-Timeout", "30000")
			if err != nil {
				return // the end, or what is missing says so
			}
			if len(changed) == 0 {
				continue
			}
			if content, err = read(); err != nil {
				return
			}
			take(content)
		}
	})
	return nil
}

func (p *nacosPeer) close() {
	p.reading.Wait()
	p.http.CloseIdleConnections()
	p.poll.CloseIdleConnections()
}
