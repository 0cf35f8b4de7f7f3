package pace

import (
	"math"
	"math/big"
	"math/bits"
)

// fixed is a number of arrivals in fixed point, hi + lo/2⁶⁴. Sums of billions of
// them are exact, where a float64 would drift.
type fixed struct{ hi, lo uint64 }

// toFixed rounds down to a multiple of 2⁻⁶⁴.
func toFixed(r *big.Rat) fixed {
	n := new(big.Int).Lsh(r.Num(), 64)
	return toWords(n.Quo(n, r.Denom()))
}

// toWords splits n, which must have at most 128 bits.
func toWords(n *big.Int) fixed {
	return fixed{new(big.Int).Rsh(n, 64).Uint64(), new(big.Int).And(n, maxWord()).Uint64()}
}

func maxWord() *big.Int { return new(big.Int).SetUint64(math.MaxUint64) }

func (a fixed) less(b fixed) bool {
	return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo
}

func (a fixed) plus(b fixed) fixed {
	lo, c := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, c)
	return fixed{hi, lo}
}

// minus returns a-b, or 0 where that would be negative.
func (a fixed) minus(b fixed) fixed {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, borrow := bits.Sub64(a.hi, b.hi, borrow)
	if borrow != 0 {
		return fixed{}
	}
	return fixed{hi, lo}
}

// The product is exact, so it does not matter whether the sum is fused.
func (a fixed) float() float64 { return float64(a.hi) + float64(a.lo)*0x1p-64 }

// scale returns a·num/den rounded to the nearest integer, exactly; false if that does not fit in an
// int64. num has the words of an integer, and den is not 0.
func (a fixed) scale(num fixed, den uint64) (int64, bool) {
	// The product has four words; w0 is the fraction.
	h00, w0 := bits.Mul64(a.lo, num.lo)
	h01, l01 := bits.Mul64(a.lo, num.hi)
	h10, l10 := bits.Mul64(a.hi, num.lo)
	w3, l11 := bits.Mul64(a.hi, num.hi)
	w1, c := bits.Add64(h00, l01, 0)
	w2, c := bits.Add64(h01, l11, c)
	w3 += c
	w1, c = bits.Add64(w1, l10, 0)
	w2, c = bits.Add64(w2, h10, c)
	w3 += c
	// Half of den makes the division's floor round to nearest.
	_, c = bits.Add64(w0, den<<63, 0)
	w1, c = bits.Add64(w1, den>>1, c)
	w2, c = bits.Add64(w2, 0, c)
	w3 += c
	if w3 != 0 || w2 >= den {
		return 0, false
	}
	q, _ := bits.Div64(w2, w1, den)
	return int64(q), q <= math.MaxInt64
}
