// Package doctor says what can be measured on a machine and how well, and starts servers with a known answer.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/cli/output"
	"dyno/host/target"
	"dyno/internal/exit"
	"dyno/internal/units"
	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/observe"
	"dyno/report/figure"
	"dyno/selftest/oracle"
)

// What a good generator reaches.
const (
	goodLagP50  = 20 * time.Microsecond
	goodLagP99  = 100 * time.Microsecond
	goodLagP999 = 500 * time.Microsecond
	lagRate     = 5000 // requests/s at which the send lag is measured
)

// A selfTest is what dyno reaches against a server that costs next to nothing.
type selfTest struct {
	TargetCPU           []int    `json:"target_cpu"`
	GeneratorCPU        []int    `json:"generator_cpu"`
	Throughput          float64  `json:"throughput_per_second"`
	RequestsPerCPU      float64  `json:"requests_per_generator_cpu_second"`
	SendLagRate         float64  `json:"send_lag_rate_per_second"`
	SendLagP50          float64  `json:"send_lag_p50_seconds"`
	SendLagP99          float64  `json:"send_lag_p99_seconds"`
	SendLagP999         float64  `json:"send_lag_p999_seconds"`
	GeneratorCPUPerTest float64  `json:"send_lag_cpu_share"`
	ArrivalShare        float64  `json:"arrival_stamp_share"` // of the responses at that rate
	ReadDelayP50        float64  `json:"read_delay_p50_seconds"`
	ReadDelayP99        float64  `json:"read_delay_p99_seconds"`
	ReadDelayP999       float64  `json:"read_delay_p999_seconds"`
	Warnings            []string `json:"warnings,omitempty"`
}

type diagnosis struct {
	observe.Survey
	SelfTest selfTest `json:"self_test"`
}

// Command returns dyno doctor.
func Command() *cobra.Command {
	var (
		asJSON bool
		length string
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "What can be measured on this machine, and how well",
		Long:  "Doctor says what can be measured on this machine, and how well.",
		Example: `  dyno doctor
  dyno doctor --json --duration 5s`,
		Args: arguments.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := units.ParseDuration(length)
			if err != nil || d <= 0 {
				return exit.Misused("such as 2s", "--duration %q: want a duration", length)
			}
			result := diagnosis{Survey: observe.Look()}
			if result.SelfTest, err = runSelfTest(cmd.Context(), d); err != nil {
				if cause := context.Cause(cmd.Context()); cause != nil {
					err = cause
				}
				return err
			}
			if asJSON {
				return output.JSON(cmd.OutOrStdout(), result)
			}
			return printDiagnosis(cmd.OutOrStdout(), &result)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.StringVarP(&length, "duration", "z", "2s", "of each part of the self-test")
	return cmd
}

// runSelfTest loads a null server of this process, which runs on one CPU, from another
// CPU: first as fast as possible, then at a fixed rate to measure the send lag.
func runSelfTest(ctx context.Context, length time.Duration) (t selfTest, err error) {
	cpus, err := target.AllowedCPUs()
	if err != nil {
		return t, err
	}
	t.TargetCPU, t.GeneratorCPU = cpus[:1], cpus[len(cpus)-1:]
	if len(cpus) < 2 {
		t.Warnings = append(t.Warnings, "only one CPU: target and generator disturb each other, so no figure of a run is the target's alone")
	}
	server, err := oracle.StartNull(ctx, oracle.Config{CPUs: t.TargetCPU})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	request, err := http1.Request{Method: "GET", Target: "/", Host: server.Addr().String()}.Encode()
	if err != nil {
		return t, err
	}
	c := config.Config{
		Address:     server.Addr().String(),
		Connections: 64,
		Warmup:      length / 4,
		Window:      length,
		Threads:     options.Threads{CPUs: t.GeneratorCPU},
		NewClients: func(int) func() wire.Client {
			template, err := http1.NewTemplate(http1.Config{Request: request})
			if err != nil {
				panic(err) // cannot happen: the request was encoded above, and the limits are the defaults
			}
			return func() wire.Client { return template.Client() }
		},
	}
	r, err := engine.Run(ctx, c)
	if err != nil {
		return t, err
	}
	t.Throughput = r.Throughput()
	t.RequestsPerCPU = float64(r.Completed) / r.Workers.Total().Seconds()

	if c.Schedule, err = pace.New(pace.Steady(lagRate, 0), pace.Poisson, 1); err != nil {
		return t, err
	}
	if r, err = engine.Run(ctx, c); err != nil {
		return t, err
	}
	if r.Interrupted {
		return t, context.Cause(ctx)
	}
	lag := r.Latency[record.SendLag]
	t.SendLagRate = lagRate
	t.SendLagP50 = time.Duration(lag.Quantile(0.5)).Seconds()
	t.SendLagP99 = time.Duration(lag.Quantile(0.99)).Seconds()
	t.SendLagP999 = time.Duration(lag.Quantile(0.999)).Seconds()
	t.GeneratorCPUPerTest = r.Workers.Total().Seconds() / r.Window.Seconds()
	t.ArrivalShare = float64(r.Ends.ByArrival) / float64(max(r.Ends.ByArrival+r.Ends.ByRead, 1))
	delay := r.Latency[record.ReadDelay]
	t.ReadDelayP50 = time.Duration(delay.Quantile(0.5)).Seconds()
	t.ReadDelayP99 = time.Duration(delay.Quantile(0.99)).Seconds()
	t.ReadDelayP999 = time.Duration(delay.Quantile(0.999)).Seconds()
	if fault := r.Ends.Fault; fault != "" {
		t.Warnings = append(t.Warnings, fault+": responses end when they are read, so they include delays of the generator")
	}
	for _, f := range []struct {
		name      string
		got, want float64
	}{
		{"p50", t.SendLagP50, goodLagP50.Seconds()},
		{"p99", t.SendLagP99, goodLagP99.Seconds()},
		{"p99.9", t.SendLagP999, goodLagP999.Seconds()},
	} {
		if f.got > f.want {
			t.Warnings = append(t.Warnings, fmt.Sprintf("send lag %s is %s, more than %s: the machine is busy, or its CPUs sleep deeply",
				f.name, figure.Seconds(f.got), figure.Seconds(f.want)))
		}
	}
	return t, nil
}

func printDiagnosis(w io.Writer, d *diagnosis) error {
	var b strings.Builder
	e := &d.Environment
	fmt.Fprintf(&b, "%s, %d CPUs, kernel %s\n\n", e.CPUModel, e.CPUs, e.Kernel)
	l := &e.Limits
	rows := [][]string{
		{"CPUs dyno may use", fmt.Sprint(e.AllowedCPUs)},
		{"descriptors", fmt.Sprintf("%d, could be raised to %d", l.Descriptors, l.DescriptorsHard)},
		{"ports to connect from", fmt.Sprintf("%d for each pair of addresses", l.EphemeralHigh-l.EphemeralLow+1)},
		{"longest accept queue", fmt.Sprint(l.Somaxconn)},
		{"congestion control", e.Sysctls["net.ipv4.tcp_congestion_control"]},
	}
	for _, c := range d.Clocks {
		rows = append(rows, []string{"clock " + c.Name, fmt.Sprintf("resolution %s, %s a reading", figure.Seconds(c.ResolutionSeconds), figure.Seconds(c.ReadSeconds))})
	}
	for _, f := range d.Facilities {
		is, detail := "no", f.Reason
		if f.Available {
			is, detail = "yes", f.Detail
		} else if f.Remedy != "" {
			detail += " (" + f.Remedy + ")"
		}
		rows = append(rows, []string{f.Name, is, detail})
	}
	if err := output.Table(&b, rows); err != nil {
		return err
	}
	t := &d.SelfTest
	fmt.Fprintf(&b, "\nself-test against a null server, target on CPU %v, generator on CPU %v\n", t.TargetCPU, t.GeneratorCPU)
	fmt.Fprintf(&b, "  ceiling   %s requests/s, %.0f requests per generator CPU-second\n", figure.Count(t.Throughput), t.RequestsPerCPU)
	fmt.Fprintf(&b, "  send lag  p50 %s  p99 %s  p99.9 %s at %s/s, generator CPU %.0f %%\n", figure.Seconds(t.SendLagP50),
		figure.Seconds(t.SendLagP99), figure.Seconds(t.SendLagP999), figure.Count(t.SendLagRate), 100*t.GeneratorCPUPerTest)
	if t.ArrivalShare > 0 {
		fmt.Fprintf(&b, "  arrival   %.4g %% of responses stamped by the kernel; read p50 %s  p99 %s  p99.9 %s later\n", 100*t.ArrivalShare,
			figure.Seconds(t.ReadDelayP50), figure.Seconds(t.ReadDelayP99), figure.Seconds(t.ReadDelayP999))
	}
	for _, warning := range t.Warnings {
		fmt.Fprintf(&b, "  warning: %s\n", warning)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
