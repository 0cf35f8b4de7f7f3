package stat

import (
	"fmt"
	"math"

	gonum "gonum.org/v1/gonum/stat"
)

// LeastExchanged is the number of rounds from which Exchanged tells a difference of the
// places from noise. With fewer, the degree of freedom that it costs is worth more.
const LeastExchanged = 6

// An ExchangedMean is a mean of paired differences, without the difference of the two places.
type ExchangedMean struct {
	Mean
	// Values are the differences without the places' own difference. They are spread about the mean so
	// that their standard deviation is one round's.
	Values []float64
}

// Exchanged returns the mean of paired differences of two variants that ran at once in two places, with
// exchanges: second says in which rounds the first variant had the second place. Least squares on
// difference = mean ± c estimates the places' own difference c together with the mean. So the interval
// has N−2 degrees of freedom and does not widen with c. It needs LeastExchanged rounds and one of
// either kind; with less it is PairedMean.
func Exchanged(differences []float64, second []bool, confidence float64) (ExchangedMean, error) {
	if len(differences) != len(second) {
		return ExchangedMean{}, fmt.Errorf("%d differences and %d places", len(differences), len(second))
	}
	if err := checkValues(differences, 2); err != nil {
		return ExchangedMean{}, err
	}
	var by [2][]float64
	for i, d := range differences {
		at := 0
		if second[i] {
			at = 1
		}
		by[at] = append(by[at], d)
	}
	n := len(differences)
	if n < LeastExchanged || len(by[0]) == 0 || len(by[1]) == 0 {
		m, err := PairedMean(differences, confidence)
		return ExchangedMean{m, differences}, err
	}
	means := [2]float64{gonum.Mean(by[0], nil), gonum.Mean(by[1], nil)}
	m := Mean{N: n, Estimate: (means[0] + means[1]) / 2}
	// The standard deviation has N−2 degrees of freedom. As taken from Values, it would have N−1.
	scale := math.Sqrt(float64(n-1) / float64(n-2))
	values, squares := make([]float64, n), 0.0
	for i, d := range differences {
		residual := d - means[0]
		if second[i] {
			residual = d - means[1]
		}
		squares += residual * residual
		values[i] = m.Estimate + scale*residual
	}
	m.StdDev = math.Sqrt(squares / float64(n-2))
	standard := m.StdDev / 2 * math.Sqrt(1/float64(len(by[0]))+1/float64(len(by[1])))
	t := student(n - 1) // of N−2 degrees
	half := t.Quantile((1+confidence)/2) * standard
	m.Interval = Interval{m.Estimate - half, m.Estimate + half}
	if m.Estimate != 0 {
		m.T = m.Estimate / standard
	}
	m.P = min(1, 2*t.CDF(-math.Abs(m.T)))
	return ExchangedMean{m, values}, nil
}
