package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// The bounds of kubectl.
const (
	commandTimeout = 30 * time.Second // of a command; with --request-timeout, kubectl would not find the cluster that it runs in
	outputDelay    = time.Second      // of a descendant that keeps the output open, such as a plugin
	maxOutput      = 16 << 20
	maxMessage     = 4 << 10
)

// A kubectl is the program, and the flags that name a cluster.
type kubectl struct {
	path  string
	flags []string
}

// find finds the program.
func find(c *Config) (*kubectl, error) {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return nil, &Error{"kubectl is not there: " + err.Error(), "install kubectl, and have it on PATH"}
	}
	k := &kubectl{path: path}
	if c.Context != "" {
		k.flags = append(k.flags, "--context="+c.Context)
	}
	if c.Namespace != "" {
		k.flags = append(k.flags, "--namespace="+c.Namespace)
	}
	return k, nil
}

// command returns a command that a signal from the terminal does not reach.
func (k *kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, k.path, slices.Concat(k.flags, args)...) //nolint:gosec // the user's kubectl
	cmd.WaitDelay = outputDelay
	separate(cmd)
	return cmd
}

// run returns what a command prints.
func (k *kubectl) run(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	timed, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := k.command(timed, args...)
	cmd.Stdin = bytes.NewReader(input)
	output, message := &bounded{most: maxOutput}, &bounded{most: maxMessage}
	cmd.Stdout, cmd.Stderr = output, message
	err := runTied(cmd)
	switch {
	case err == nil && output.left > 0:
		err = fmt.Errorf("more than %d MiB of output", maxOutput>>20)
	case err != nil && context.Cause(ctx) != nil:
		return nil, context.Cause(ctx) // interrupted
	case err != nil && timed.Err() != nil:
		err = fmt.Errorf("no answer within %v", commandTimeout)
	case err != nil && message.String() != "":
		err = errors.New(strings.Join(strings.Fields(message.String()), " "))
	}
	if err != nil {
		return nil, explain(fmt.Errorf("kubectl %s: %w", args[0], err))
	}
	return output.Bytes(), nil
}

// runTied runs a command to its end. On Linux the kernel ends it with the thread that started it: this one ends
// after it, or with dyno.
func runTied(cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		ended <- cmd.Run()
	}()
	return <-ended
}

// A bounded writer keeps the beginning of what is written.
type bounded struct {
	bytes.Buffer
	most, left int
}

func (b *bounded) Write(p []byte) (int, error) {
	kept := min(len(p), b.most-b.Len())
	b.left += len(p) - kept
	_, err := b.Buffer.Write(p[:kept])
	return len(p), err
}

// A forward is a kubectl that forwards a port of this machine to one of a pod. It ends with the connection to the pod.
type forward struct {
	address string        // set before ready is closed
	ready   chan struct{} // closed when the port is open
	stop    func()
	ended   chan struct{} // closed when kubectl has ended

	mu      sync.Mutex // guards message
	message bounded
}

var _ io.Writer = (*forward)(nil)

// forward starts forwarding to a pod, until close. An interruption of the command does not end it: results are fetched
// after that.
func (k *kubectl) forward(ctx context.Context, pod string) *forward {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &forward{ready: make(chan struct{}), stop: stop, ended: make(chan struct{}), message: bounded{most: maxMessage}}
	cmd := k.command(ctx, "port-forward", "--address=127.0.0.1", "pod/"+pod, fmt.Sprintf(":%d", port))
	cmd.Stdout, cmd.Stderr = f, f
	go func() {
		defer close(f.ended)
		if err := runTied(cmd); err != nil {
			_, _ = fmt.Fprintln(f, err) // bounded
		}
	}()
	return f
}

var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+) ->`)

// Write implements io.Writer for what kubectl prints.
func (f *forward) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.message.Write(p)
	if found := forwarding.FindStringSubmatch(f.message.String()); found != nil && f.address == "" {
		f.address = found[1]
		close(f.ready)
	}
	return n, err
}

// wait waits until the port is open, and returns its address.
func (f *forward) wait(ctx context.Context) (address string, err error) {
	select {
	case <-f.ready:
		return f.address, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-time.After(commandTimeout):
		return "", explain(fmt.Errorf("kubectl port-forward: no answer within %v", commandTimeout))
	case <-f.ended:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return "", explain(fmt.Errorf("kubectl port-forward: %s", strings.Join(strings.Fields(f.message.String()), " ")))
}

// close closes the port.
func (f *forward) close() {
	f.stop()
	<-f.ended
}

// isOpen tells whether the port is open.
func (f *forward) isOpen() bool {
	select {
	case <-f.ended:
		return false
	default:
		return true
	}
}

// An Error says why agents cannot run, and what helps.
type Error struct{ Message, Hint string }

func (e *Error) Error() string { return e.Message }

// hints are what helps when a text is in an error of kubectl. The first that matches counts.
var hints = []struct{ text, hint string }{
	{"exceeded quota", sizeHint},
	{"is forbidden", "--kubernetes-rbac prints the role that dyno needs in a namespace"},
	{"is invalid:", "--kubernetes-cpu and --kubernetes-memory are quantities such as 500m and 512Mi; --kubernetes-image names an image"},
	{"quantities must match", "--kubernetes-cpu and --kubernetes-memory are quantities such as 500m and 512Mi"},
	{`namespaces "`, "--kubernetes-namespace names a namespace that is there"},
	{"context", "--kubernetes-context names one of kubectl config get-contexts"},
}

// explain adds the hint that goes with an error of kubectl.
func explain(err error) error {
	for _, of := range hints {
		if strings.Contains(err.Error(), of.text) {
			return &Error{err.Error(), of.hint}
		}
	}
	return &Error{err.Error(), "does kubectl get pods answer? --kubernetes-context names another cluster"}
}

const sizeHint = "fewer agents, or smaller ones: --kubernetes-cpu and --kubernetes-memory"
