package export

import (
	"io"
	"strconv"

	"dyno/load/hist"
)

// oha writes what oha --output-format json writes. Times are in seconds.
func oha(w io.Writer, l *load) error {
	succeeded := l.ratio(l.Counts.Answered())
	summary := map[string]any{"successRate": succeeded, "total": l.seconds, "requestsPerSec": l.perSecond()}
	if total, mean, known := l.received(); known {
		summary["totalData"], summary["sizePerRequest"], summary["sizePerSec"] = total, int64(mean), over(float64(total), l.seconds)
	}
	metrics := map[string]any{"success_rate": succeeded, "requests_per_sec": l.perSecond()}
	all := map[string]any{
		"summary": summary, "metrics": metrics,
		"statusCodeDistribution": l.statuses(), "errorDistribution": l.failures(),
	}
	h := l.good
	summary["fastest"], summary["average"], summary["slowest"] = float64(h.Min())/1e9, h.Mean()/1e9, float64(h.Max())/1e9
	inMS := map[string]float64{"min": float64(h.Min()) / 1e6, "mean": h.Mean() / 1e6, "max": float64(h.Max()) / 1e6}
	for name, q := range map[string]float64{"p50": 0.5, "p95": 0.95, "p99": 0.99} {
		inMS[name] = float64(h.Quantile(q)) / 1e6
	}
	metrics["latency_ms"] = inMS
	all["responseTimeHistogram"], all["latencyPercentiles"] = ohaHistogram(h), ohaPercentiles(h)
	if h := l.firstByte; h.Count() > 0 || l.good.Count() == 0 { // or it was not measured
		all["firstByteHistogram"], all["firstBytePercentiles"] = ohaHistogram(h), ohaPercentiles(h)
		all["details"] = map[string]any{"firstByte": map[string]float64{
			"fastest": float64(h.Min()) / 1e9, "average": h.Mean() / 1e9, "slowest": float64(h.Max()) / 1e9,
		}}
	}
	return writeJSON(w, all)
}

func ohaHistogram(h *hist.Histogram) map[string]int64 {
	counts := map[string]int64{}
	if h.Count() == 0 {
		return counts
	}
	bounds, n := buckets(h)
	for i, bound := range bounds {
		counts[strconv.FormatFloat(bound/1e9, 'f', -1, 64)] += n[i]
	}
	return counts
}

func ohaPercentiles(h *hist.Histogram) map[string]float64 {
	percentiles := map[string]float64{}
	for _, percent := range []float64{10, 25, 50, 75, 90, 95, 99, 99.9, 99.99} {
		percentiles["p"+strconv.FormatFloat(percent, 'f', -1, 64)] = float64(h.Quantile(percent/100)) / 1e9
	}
	return percentiles
}
