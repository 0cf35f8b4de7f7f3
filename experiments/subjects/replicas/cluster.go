package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// startTimeout bounds how long replicas may take until they are ready.
const startTimeout = 20 * time.Second

// A cluster is a control plane of some replicas, in processes of their own. Their data is in a temporary folder.
type cluster struct {
	folder   string
	replicas []*replica
}

// A replica is one process, and how it is started again.
type replica struct {
	url, admin string
	arguments  []string
	process    *exec.Cmd
	complaint  bytes.Buffer // its log
}

// open starts n replicas of a program, and waits until they are ready.
func open(ctx context.Context, program string, n int) (_ *cluster, err error) {
	c := &cluster{}
	if c.folder, err = os.MkdirTemp("", "replicas-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	addresses, err := free(3 * n)
	if err != nil {
		return nil, err
	}
	var peers string
	for i := range n {
		peers += ",r" + strconv.Itoa(i) + "=" + addresses[3*i+2]
	}
	for i := range n {
		r := &replica{url: "http://" + addresses[3*i], admin: "http://" + addresses[3*i+1]}
		r.arguments = []string{program, "--listen", addresses[3*i], "--admin", addresses[3*i+1], "--drain-timeout", "1s", "--data", filepath.Join(c.folder, strconv.Itoa(i))}
		if n > 1 {
			r.arguments = append(r.arguments, "--name", "r"+strconv.Itoa(i), "--peers", peers[1:])
		}
		c.replicas = append(c.replicas, r)
		if err := r.start(); err != nil {
			return nil, err
		}
	}
	for _, r := range c.replicas {
		if err := r.ready(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// free returns addresses of ports that are free now.
func free(n int) (addresses []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all are open until the last has been found, or one would be given twice
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

func (r *replica) start() error {
	r.complaint.Reset()
	r.process = exec.Command(r.arguments[0], r.arguments[1:]...)
	r.process.Stderr = &r.complaint
	r.process.SysProcAttr = withParent
	return r.process.Start()
}

// ready waits until the replica answers.
func (r *replica) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.admin+"/readyz", nil)
		if err != nil {
			return err
		}
		if answer, err := http.DefaultClient.Do(request); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", r.url, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// kill ends the replica at once.
func (r *replica) kill() {
	if r.process != nil && r.process.Process != nil {
		_ = r.process.Process.Kill() // it may have ended
		_ = r.process.Wait()         // it was killed
	}
}

func (c *cluster) close() error {
	for _, r := range c.replicas {
		r.kill()
	}
	return os.RemoveAll(c.folder)
}

// urls are the addresses of all replicas.
func (c *cluster) urls() (list []string) {
	for _, r := range c.replicas {
		list = append(list, r.url)
	}
	return list
}

// A watcher is a client that watches one configuration.
type watcher struct {
	client *client.Client
	watch  *client.Watch
}

// name is that of the configuration.
const name = "limits"

// watchers opens n clients that watch the configuration.
func watchers(urls []string, n int) (list []watcher, err error) {
	for i := range n {
		cfg := client.Defaults()
		cfg.Servers, cfg.Name = urls, "client-"+strconv.Itoa(i)
		one, err := client.New(cfg)
		if err != nil {
			return list, err
		}
		list = append(list, watcher{client: one})
		if list[i].watch, err = one.Watch(client.Query{Kinds: []resource.Kind{resource.Configs}, Names: []string{name}}); err != nil {
			return list, err
		}
	}
	return list, nil
}

func closeAll(list []watcher) {
	for _, w := range list {
		w.client.Close()
	}
}

// until waits until the client has a content that is wanted.
func (w watcher) until(ctx context.Context, wanted func(content string) bool) error {
	for generation := uint64(0); ; {
		s, err := w.watch.Next(ctx, generation)
		if err != nil {
			return err
		}
		generation = s.Generation
		for _, item := range s.Items {
			if c, ok := item.Resource.(*resource.Config); ok && wanted(c.Content) {
				return nil
			}
		}
	}
}

// content is what the client has now.
func (w watcher) content(ctx context.Context) (string, error) {
	var now string
	err := w.until(ctx, func(content string) bool { now = content; return true })
	return now, err
}
