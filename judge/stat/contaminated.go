package stat

// CleanLevels returns the two quantiles of the values that nothing disturbed between
// which the q-quantile of all values lies, when a share f of all is disturbed and
// nothing is assumed about those (Horowitz and Manski, Identification and Robustness
// with Contaminated and Corrupted Data, Econometrica 63, 1995). All of the disturbed
// values may lie above the quantile, which is then lower among the clean ones, or all
// below. A low of 0 or less says that nothing bounds the quantile from below, a high of
// more than 1 that nothing does from above. With f of 1 or more, both are so.
func CleanLevels(q, f float64) (low, high float64) {
	if !(f < 1) {
		return 0, 2
	}
	f = max(f, 0)
	return (q - f) / (1 - f), q / (1 - f)
}
