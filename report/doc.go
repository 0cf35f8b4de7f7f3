// Package report prints a judged run: as text for a terminal, as JSON for
// programs, and as .hgrm for HdrHistogram's plotter. It needs nothing but what a
// run folder holds, so it works on a folder that somebody sent.
//
// Text says first whether the figures may be trusted, then shows them, with each
// trial's value beside the median. Whatever a run holds of other people's text
// (names, questions, messages) is printed without its control characters, so
// that no report can drive a terminal.
package report
