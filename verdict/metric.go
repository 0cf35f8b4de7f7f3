package verdict

import "dyno/rundir"

// Figures are what is known of one variant, or of one trial alone.
type figures struct {
	rundir.Variant
	connections connections
}

// connections are medians over trials.
type connections struct {
	requested, opened, failed, peak *float64
}

// A metric is a figure that expressions name. Get returns nil for a figure that
// is not known, or that too few values support.
type metric struct {
	name string
	dim  dimension
	get  func(*figures) *float64
}

// metrics lists every metric, in the order in which a reader is told of them.
func metrics() []metric {
	all := []metric{
		{"throughput", rate, func(f *figures) *float64 { return f.Throughput.Estimate }},
	}
	for _, times := range []struct {
		name string
		of   func(*figures) *rundir.Quantiles
	}{
		{"response", func(f *figures) *rundir.Quantiles { return &f.Response }},
		{"service", func(f *figures) *rundir.Quantiles { return &f.Service }},
		{"send_lag", func(f *figures) *rundir.Quantiles { return &f.SendLag }},
		{"connect", func(f *figures) *rundir.Quantiles { return &f.Connect }},
		{"first_byte", func(f *figures) *rundir.Quantiles { return &f.FirstByte }},
	} {
		for _, q := range []struct {
			name string
			of   func(*rundir.Quantiles) *float64
		}{
			{"p50", func(q *rundir.Quantiles) *float64 { return q.P50 }},
			{"p90", func(q *rundir.Quantiles) *float64 { return q.P90 }},
			{"p99", func(q *rundir.Quantiles) *float64 { return q.P99 }},
			{"p999", func(q *rundir.Quantiles) *float64 { return q.P999 }},
			{"max", func(q *rundir.Quantiles) *float64 { return q.Max }},
			{"mean", func(q *rundir.Quantiles) *float64 { return q.Mean }},
		} {
			all = append(all, metric{times.name + "." + q.name, duration, func(f *figures) *float64 { return q.of(times.of(f)) }})
		}
	}
	return append(all,
		metric{"errors.ratio", plain, func(f *figures) *float64 { return f.Errors.Ratio }},
		metric{"errors.total", plain, func(f *figures) *float64 {
			if f.Trials == 0 {
				return nil
			}
			n := float64(f.Errors.Total)
			return &n
		}},
		metric{"target.cpu_per_request", duration, func(f *figures) *float64 { return f.Target.CPUSecondsPerRequest }},
		metric{"target.cpu_share", plain, func(f *figures) *float64 { return f.Target.CPUShare }},
		metric{"target.user_share", plain, func(f *figures) *float64 { return f.Target.UserShare }},
		metric{"target.rss", size, func(f *figures) *float64 { return whole(f.Target.RSSBytes) }},
		metric{"target.threads", plain, func(f *figures) *float64 { return whole(f.Target.Threads) }},
		metric{"target.descriptors", plain, func(f *figures) *float64 { return whole(f.Target.Descriptors) }},
		metric{"target.voluntary_switches_per_request", plain, func(f *figures) *float64 { return f.Target.VoluntarySwitchesPerRequest }},
		metric{"target.involuntary_switches_per_request", plain, func(f *figures) *float64 { return f.Target.InvoluntarySwitchesPerRequest }},
		metric{"generator.cpu_per_request", duration, func(f *figures) *float64 { return f.Generator.CPUSecondsPerRequest }},
		metric{"generator.cpu_share", plain, func(f *figures) *float64 { return f.Generator.CPUShare }},
		metric{"connections.requested", plain, func(f *figures) *float64 { return f.connections.requested }},
		metric{"connections.opened", plain, func(f *figures) *float64 { return f.connections.opened }},
		metric{"connections.failed", plain, func(f *figures) *float64 { return f.connections.failed }},
		metric{"connections.peak", plain, func(f *figures) *float64 { return f.connections.peak }},
	)
}

func whole(n *int64) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}
