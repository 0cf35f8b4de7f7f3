// Package tenants has the commands about those who share a queue: their shares and bounds, and which tasks are late.
package tenants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/cli/output"
	"dyno/internal/exit"
	"dyno/internal/terminal"
	"dyno/lab/fleet/queue"
)

// An Action is what a command does with a queue.
type Action = func(ctx context.Context, q *queue.Queue, argument string) error

// Command sets the share and the bounds of a tenant.
func Command() (*cobra.Command, Action) {
	var set queue.Tenant
	cmd := &cobra.Command{
		Use:   "tenant NAME",
		Short: "Set the share and the bounds of a tenant",
		Long: `Set the share and the bounds of a tenant (dyno submit --tenant NAME). The tenant that has used the least
time of workers for its weight comes next. A tenant without settings has weight 1 and no bounds.
Tasks without a tenant are those of the tenant ` + queue.DefaultTenant + `.`,
		Example: `  dyno queue tenant checkout --weight 3 --max-running 2 --max-waiting 100`,
		Args:    arguments.ExactArgs(1, "a tenant's name"),
	}
	f := cmd.Flags()
	f.IntVar(&set.Weight, "weight", 1, "its share, next to the weights of others")
	f.IntVar(&set.MaxRunning, "max-running", 0, "how many of its tasks run at once at most; 0: any number")
	f.IntVar(&set.MaxWaiting, "max-waiting", 0, "how many of its tasks wait at most; more are refused; 0: any number")
	return cmd, func(ctx context.Context, q *queue.Queue, name string) error {
		if err := queue.CheckTenant(name); err != nil {
			return exit.With(exit.Usage, err, "as in: dyno queue tenant checkout --weight 3")
		}
		if set.Weight < 1 || set.Weight > queue.MaxWeight {
			return exit.Misused(fmt.Sprintf("from 1 to %d", queue.MaxWeight), "--weight: %d", set.Weight)
		}
		if set.MaxRunning < 0 || set.MaxWaiting < 0 {
			return exit.Misused("0 is no bound", "--max-running: %d, --max-waiting: %d", set.MaxRunning, set.MaxWaiting)
		}
		_, err := q.SetTenant(ctx, name, func(t *queue.Tenant) {
			if f.Changed("weight") {
				t.Weight = set.Weight
			}
			if f.Changed("max-running") {
				t.MaxRunning = set.MaxRunning
			}
			if f.Changed("max-waiting") {
				t.MaxWaiting = set.MaxWaiting
			}
		})
		return err
	}
}

// List writes a table of all tenants.
func List(ctx context.Context, q *queue.Queue, to io.Writer) error {
	tenants, broken, err := q.Tenants(ctx)
	if err != nil {
		return err
	}
	tasks, _, err := q.Tasks(ctx)
	if err != nil {
		return err
	}
	waiting, running := map[string]int{}, map[string]int{}
	for i := range tasks {
		name := tasks[i].TenantName()
		switch tasks[i].State {
		case queue.Queued:
			waiting[name]++
		case queue.Running:
			running[name]++
		default:
			continue
		}
		if _, ok := tenants[name]; !ok {
			tenants[name] = queue.Tenant{Weight: 1}
		}
	}
	bound := func(n int) string {
		if n == 0 {
			return "-"
		}
		return fmt.Sprint(n)
	}
	rows := [][]string{{"TENANT", "WEIGHT", "RUNNING", "AT MOST", "WAITING", "AT MOST", "USED"}}
	for _, name := range slices.Sorted(maps.Keys(tenants)) {
		t := tenants[name]
		rows = append(rows, []string{
			name, fmt.Sprint(t.Weight), fmt.Sprint(running[name]), bound(t.MaxRunning), fmt.Sprint(waiting[name]), bound(t.MaxWaiting),
			output.Seconds(t.Used * float64(t.Weight)),
		})
	}
	for _, b := range broken {
		rows = append(rows, []string{b.Name, "-", "-", "-", "-", "-", string(queue.Broken) + ": " + b.Reason})
	}
	return output.Table(to, rows)
}

// Watch says what is wrong in the queue as soon as it is.
func Watch(to io.Writer) (*cobra.Command, Action) {
	var (
		late    time.Duration
		metrics string
	)
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Say which tasks are late, slow or failed, until SIGINT or SIGTERM",
		Long: `Say which tasks are late, slow or failed, until SIGINT or SIGTERM: one line each, once. A task is late if it has
waited for longer than --late since it was due, and slow if it has run for longer than predicted by that.
With --metrics, Prometheus reads the numbers of tasks, the longest wait and the alarms at /metrics.`,
		Example: `  dyno queue watch --late 5m
  dyno queue watch --metrics 127.0.0.1:9464`,
		Args: arguments.NoArgs,
	}
	f := cmd.Flags()
	f.DurationVar(&late, "late", 5*time.Minute, "how long a task may wait, or run beyond its prediction")
	f.StringVar(&metrics, "metrics", "", "serve metrics for Prometheus at `ADDRESS`")
	return cmd, func(ctx context.Context, q *queue.Queue, _ string) (err error) {
		if late < 0 {
			return exit.Misused("as in: --late 5m", "--late: %v", late)
		}
		m := newQueueMetrics()
		if metrics != "" {
			var lc net.ListenConfig
			listener, err := lc.Listen(ctx, "tcp", metrics)
			if err != nil {
				return exit.With(exit.Usage, fmt.Errorf("--metrics: %w", err), "as in: --metrics 127.0.0.1:9464")
			}
			mux := http.NewServeMux()
			mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
			server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
			served := make(chan error, 1)
			go func() { served <- server.Serve(listener) }()
			defer func() {
				err = errors.Join(err, server.Close())
				if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
					err = errors.Join(err, ended)
				}
			}()
		}
		w := queue.Watch{Grace: late}
		var written error
		followed := q.Follow(ctx, func(tasks []queue.Task) {
			now := time.Now()
			alarms := w.Look(tasks, now)
			m.set(tasks, alarms, now)
			for _, alarm := range alarms {
				t := alarm.Task
				_, err := fmt.Fprintf(to, "%s  %s  %s  %s  tenant %s: %s\n", now.Format(time.DateTime), alarm.Kind, t.ID, t.Name, t.TenantName(), terminal.Line(alarm.Detail))
				written = errors.Join(written, err)
			}
		})
		if ctx.Err() != nil {
			followed = nil // it was ended in order
		}
		return errors.Join(followed, written)
	}
}

// queueMetrics are what Prometheus reads of a queue.
type queueMetrics struct {
	registry *prometheus.Registry
	tasks    *prometheus.GaugeVec
	wait     *prometheus.GaugeVec
	alarms   *prometheus.CounterVec
}

func newQueueMetrics() *queueMetrics {
	m := &queueMetrics{
		prometheus.NewRegistry(),
		prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dyno_queue_tasks", Help: "Tasks that the queue keeps."}, []string{"tenant", "state"}),
		prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dyno_queue_longest_wait_seconds", Help: "How long the oldest task has waited since it was due."}, []string{"tenant"}),
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dyno_queue_alarms_total", Help: "Tasks that were late or slow, and attempts that failed."}, []string{"kind"}),
	}
	m.registry.MustRegister(m.tasks, m.wait, m.alarms)
	for _, kind := range queue.AlarmKinds {
		m.alarms.WithLabelValues(kind)
	}
	return m
}

func (m *queueMetrics) set(tasks []queue.Task, alarms []queue.Alarm, now time.Time) {
	m.tasks.Reset()
	m.wait.Reset()
	longest := map[string]time.Duration{}
	for i := range tasks {
		t := &tasks[i]
		m.tasks.WithLabelValues(t.TenantName(), string(t.State)).Inc()
		longest[t.TenantName()] = max(longest[t.TenantName()], t.Wait(now))
	}
	for tenant, wait := range longest {
		m.wait.WithLabelValues(tenant).Set(wait.Seconds())
	}
	for _, alarm := range alarms {
		m.alarms.WithLabelValues(alarm.Kind).Inc()
	}
}
