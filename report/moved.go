package report

import (
	"dyno/report/answer"
	"dyno/report/changes"
	"dyno/report/export"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/report/short"
)

// The names that are in packages of their own.
type (
	Answer = answer.Answer
	Screen = short.Screen
)

var (
	Make          = answer.Make
	Incomplete    = judged.Incomplete
	Short         = short.Text
	ShortMarkdown = short.Markdown
	Histogram     = short.Histogram
	JSON          = export.JSON
	Hgrm          = export.Hgrm
	CSV           = export.CSV
	TrialsCSV     = export.TrialsCSV
	JUnit         = export.JUnit
	Benchmark     = export.Benchmark
	Diff          = changes.Diff
	History       = changes.History
	Seconds       = figure.Seconds
	Duration      = figure.Duration
	Count         = figure.Count
	PerSecond     = figure.PerSecond
	Printable     = figure.Printable
	CommandLine   = figure.CommandLine
)
