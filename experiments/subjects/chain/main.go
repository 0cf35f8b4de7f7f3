// Command chain is three services for report R1: a gateway calls A, which reads a user from PostgreSQL, and B, which
// counts the user's visits in Redis. Each role is a process of its own, and speaks HTTP.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"dyno/internal/command"
)

func main() {
	os.Exit(command.Main(context.Background(), newCommand(), os.Args[1:], os.Stdout, os.Stderr))
}

const (
	users   = 1000
	readyIn = 30 * time.Second // for a database that starts
)

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use: "chain", Short: "Be the gateway, the service of users or the service of visits of report R1", Args: command.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	var listen, a, b, store string
	var parallel, stored bool
	add := func(name, short string, handler func(ctx context.Context) (http.HandlerFunc, func(), error)) *cobra.Command {
		cmd := &cobra.Command{Use: name, Short: short, Args: command.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			h, closeStore, err := handler(cmd.Context())
			if err != nil {
				return err
			}
			defer closeStore()
			return serve(cmd.Context(), listen, h)
		}}
		cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "the `ADDRESS` to listen at")
		root.AddCommand(cmd)
		return cmd
	}
	gateway := add("gateway", "Call both services for each request", func(context.Context) (http.HandlerFunc, func(), error) {
		return newGateway(a, b, parallel), func() {}, nil
	})
	gateway.Flags().StringVar(&a, "users", "", "the `URL` of the service of users")
	gateway.Flags().StringVar(&b, "visits", "", "the `URL` of the service of visits")
	gateway.Flags().BoolVar(&parallel, "parallel", false, "call both at once")
	usersOf := add("users", "Read a user from PostgreSQL", func(ctx context.Context) (http.HandlerFunc, func(), error) {
		if !stored {
			return answer("user"), func() {}, nil
		}
		return newUsers(ctx, store)
	})
	usersOf.Flags().StringVar(&store, "postgres", "", "the `URL` of the database")
	visits := add("visits", "Count a visit in Redis", func(ctx context.Context) (http.HandlerFunc, func(), error) {
		if !stored {
			return answer("1"), func() {}, nil
		}
		return newVisits(ctx, store)
	})
	visits.Flags().StringVar(&store, "redis", "", "the `ADDRESS` of Redis")
	for _, cmd := range []*cobra.Command{usersOf, visits} {
		cmd.Flags().BoolVar(&stored, "store", true, "use the store; without it, the answer is always the same")
	}
	return root
}

func serve(ctx context.Context, listen string, h http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}

// newGateway answers with what both services say.
func newGateway(a, b string, parallel bool) http.HandlerFunc {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1000, IdleConnTimeout: time.Minute}}
	ask := func(ctx context.Context, url string) (string, error) {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return "", err
		}
		r, err := client.Do(q)
		if err != nil {
			return "", err
		}
		defer func() { _ = r.Body.Close() }() // only read
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
		if err == nil && r.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", url, r.Status)
		}
		return string(body), err
	}
	return func(w http.ResponseWriter, q *http.Request) {
		query := "?id=" + cmp.Or(q.URL.Query().Get("id"), "1")
		var answers [2]string
		calls, ctx := errgroup.WithContext(q.Context())
		if !parallel {
			calls.SetLimit(1)
		}
		for i, url := range []string{a, b} {
			calls.Go(func() (err error) {
				answers[i], err = ask(ctx, url+query)
				return err
			})
		}
		if err := calls.Wait(); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s\n", answers[0], answers[1])
	}
}

func newUsers(ctx context.Context, url string) (http.HandlerFunc, func(), error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	err = retry(ctx, func() error {
		_, err := pool.Exec(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS users AS SELECT id, 'user ' || id AS name FROM generate_series(1, %d) id;
			CREATE UNIQUE INDEX IF NOT EXISTS users_id ON users (id)`, users))
		return err
	})
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return func(w http.ResponseWriter, q *http.Request) {
		var name string
		if err := pool.QueryRow(q.Context(), "SELECT name FROM users WHERE id = $1::bigint", q.URL.Query().Get("id")).Scan(&name); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, name)
	}, pool.Close, nil
}

func newVisits(ctx context.Context, address string) (http.HandlerFunc, func(), error) {
	client := redis.NewClient(&redis.Options{Addr: address})
	closeClient := func() { _ = client.Close() }
	if err := retry(ctx, func() error { return client.Ping(ctx).Err() }); err != nil {
		closeClient()
		return nil, nil, err
	}
	return func(w http.ResponseWriter, q *http.Request) {
		n, err := client.Incr(q.Context(), "visits:"+q.URL.Query().Get("id")).Result()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprint(w, n)
	}, closeClient, nil
}

// answer answers without a store.
func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// retry repeats what fails while a store starts.
func retry(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyIn)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
