package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// tokenOfLock is the variable that has a lock's fencing token.
const tokenOfLock = "DYNO_LOCK_TOKEN"

// killDelay is how long a command has to end after it lost its lock.
const killDelay = 5 * time.Second

func (s *session) lockCommand() *cobra.Command {
	var (
		name, value string
		ttl, wait   time.Duration
	)
	cmd := s.asking(&cobra.Command{
		Use:   "lock NAME -- COMMAND…",
		Short: "Run a command while holding a lock",
		Long: `Run a command while holding a lock. The command has the lock's fencing token in ` + tokenOfLock + `.
If the lock is lost, the command gets SIGTERM, and ` + killDelay.String() + ` later SIGKILL. The exit code is the command's.`,
		Example: `  dyno ctl lock backup -- ./backup.sh
  dyno ctl lock leader --value 10.0.0.1:8080 -- ./serve`,
		Args: atLeast(2, "a name and a command"),
	}, func(c *call, args []string) error {
		ctx := c.ctx()
		session, err := c.Begin(ctx, name, ttl)
		if err != nil {
			return err
		}
		defer func() {
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
			defer cancel()
			if err := session.Close(ending); err != nil {
				c.note("the lock is released after %v: %v", ttl, err)
			}
		}()
		waiting, cancel := ctx, func() {}
		if wait > 0 {
			waiting, cancel = context.WithTimeoutCause(ctx, wait, fmt.Errorf("lock %s was not free within %v", args[0], wait))
		}
		lock, err := session.Lock(waiting, args[0], value)
		cancel()
		if err != nil {
			return err
		}
		return runHolding(c.cmd, lock, args[1:])
	})
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "the session's name, for people")
	f.StringVar(&value, "value", "", "the lock's value, such as an elected leader's address")
	f.DurationVar(&ttl, "ttl", resource.DefaultSessionTTL*time.Second, "after this time without contact the lock is lost")
	f.DurationVar(&wait, "wait", 0, "how long to wait for the lock; 0 is without end")
	return cmd
}

// runHolding runs a command until it ends, the lock is lost, or this command is to end.
func runHolding(cmd *cobra.Command, lock *client.Lock, args []string) error {
	ctx, cancel := context.WithCancel(lock.Context())
	defer cancel()
	defer context.AfterFunc(cmd.Context(), cancel)()
	run := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // the user's own command
	run.Stdin, run.Stdout, run.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	run.Env = append(os.Environ(), tokenOfLock+"="+strconv.FormatInt(lock.Token, 10))
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
	run.WaitDelay = killDelay
	err := run.Run()
	var ended *exec.ExitError
	switch {
	case lock.Context().Err() != nil:
		return fmt.Errorf("%s was ended: %w", args[0], context.Cause(lock.Context()))
	case errors.As(err, &ended):
		code := ended.ExitCode()
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			code = exit.Signalled + int(status.Signal())
		}
		return exit.With(code, fmt.Errorf("%s: %w", args[0], err), "")
	}
	return err
}

func (s *session) counterCommand() *cobra.Command {
	var add, set int64
	cmd := s.asking(&cobra.Command{
		Use:     "counter NAME",
		Short:   "Add to a counter, or set it, and show its value",
		Example: "  dyno ctl counter builds --add 1",
		Args:    exactly(1, "a name"),
	}, func(c *call, args []string) error {
		given := c.cmd.Flags().Changed
		r := client.Request{Method: http.MethodGet, Path: resource.Ref{Kind: resource.Counters, Name: args[0]}.Address(), Query: in(s.space())}
		switch {
		case given("add") && given("set"):
			return exit.Misused("one of them", "--add and --set are two changes")
		case given("add"):
			r.Method, r.Body = http.MethodPost, map[string]int64{"add": add}
		case given("set"):
			r.Method, r.Body = http.MethodPut, map[string]int64{"value": set}
		}
		answer, body, err := ask(c.ctx(), c.Client, r)
		if err != nil {
			return err
		}
		var one resource.Counter
		if err := answered(answer.Server, json.Unmarshal(body, &one)); err != nil {
			return err
		}
		return c.say("%d", one.Value)
	})
	cmd.Flags().Int64Var(&add, "add", 0, "what to add; it may be negative")
	cmd.Flags().Int64Var(&set, "set", 0, "the new value")
	return cmd
}
