package export

import (
	"io"

	"dyno/load/hist"
)

// k6 writes what k6 run --summary-export writes. Times are in ms.
func k6(w io.Writer, l *load) error {
	requests := map[string]any{"count": l.Counts.Due(), "rate": l.perSecond()}
	metrics := map[string]any{
		"http_reqs":  requests,
		"iterations": requests,
		// Passes are those for which it is true that they failed.
		"http_req_failed": map[string]any{"value": l.ratio(l.Counts.Unanswered()), "passes": l.Counts.Unanswered(), "fails": l.Counts.Answered()},
	}
	if l.Users != nil {
		metrics["iterations"] = map[string]any{"count": l.Users.Iterations, "rate": over(float64(l.Users.Iterations), l.seconds)}
	}
	if l.users > 0 {
		metrics["vus"] = map[string]any{"value": l.users, "min": l.users, "max": l.users}
	}
	if total, _, known := l.received(); known {
		metrics["data_received"] = map[string]any{"count": total, "rate": over(float64(total), l.seconds)}
	}
	metrics["http_req_duration"] = k6Trend(l.times)
	if l.good.Count() > 0 { // k6, too, has it only where there are some
		metrics["http_req_duration{expected_response:true}"] = k6Trend(l.good)
	}
	if l.firstByte.Count() > 0 || l.good.Count() == 0 { // or it was not measured
		metrics["http_req_waiting"] = k6Trend(l.firstByte)
	}
	return writeJSON(w, map[string]any{"metrics": metrics})
}

func k6Trend(h *hist.Histogram) map[string]float64 {
	trend := map[string]float64{"avg": h.Mean() / 1e6, "min": float64(h.Min()) / 1e6, "max": float64(h.Max()) / 1e6}
	for name, q := range map[string]float64{"med": 0.5, "p(90)": 0.9, "p(95)": 0.95} {
		trend[name] = float64(h.Quantile(q)) / 1e6
	}
	return trend
}
