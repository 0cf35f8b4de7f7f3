// Package calibrate proves, on the user's machine, that dyno's figures are right.
// It measures what is known beforehand and says how far off the figures are:
//
//	oracles  servers with a known answer (package oracle), and the kernel's own
//	         time stamps where they may be read
//	stalls   the same while the generator's CPU is taken away, 5 ms at a time
//	noise    the same servers while CPUs are taken away, or kept busy: is what is
//	         then printed as it is, or as bounds, right, and how often is it said
//	aa       comparisons of a server with itself: how often is a difference
//	         found that is not there
//	power    comparisons with a server that is slower by a known share: how
//	         often is that found, and does the interval hold the true ratio
//	flags    generators that are starved, or have a noisy neighbour: are readers
//	         warned, and are the figures of healthy ones identified
//
// Run returns values (Reading, Comparison, Trial) and their sums (Tally, FlagShare). Text and Markdown write
// them as tables. Every raw row is written to a CSV file at once: a calibration that is interrupted keeps its
// rows.
//
// Servers have the first CPU that the process may use, the generator the last.
package calibrate
