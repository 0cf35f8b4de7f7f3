package series

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
)

// The columns of stalls.csv in addition to the time at which a thread was due to wake.
const (
	generatorLateColumn = "generator_late_seconds"
	targetLateColumn    = "target_late_seconds"
)

// A Stall is a stretch in which a CPU did not wake a thread that was due. It is a sign
// that something else had the CPU, independent of the load.
type Stall struct {
	Due    time.Duration // on the trial's time line, from the beginning of the warm-up
	Late   time.Duration
	Target bool // on the target's CPUs; else on the generator's
}

// WriteStalls writes stalls.csv: a line for each stall, in the order given.
func WriteStalls(w io.Writer, stalls []Stall) error {
	b := bufio.NewWriter(w)
	_, _ = fmt.Fprintf(b, "%s,%s,%s\n", TimeColumn, generatorLateColumn, targetLateColumn) // a bufio.Writer keeps its first error for Flush
	var line []byte
	for _, s := range stalls {
		line = strconv.AppendFloat(line[:0], s.Due.Seconds(), 'f', 6, 64)
		line = append(line, ',')
		if s.Target {
			line = append(line, ',')
		}
		line = strconv.AppendFloat(line, s.Late.Seconds(), 'f', 6, 64)
		if !s.Target {
			line = append(line, ',')
		}
		_, _ = b.Write(append(line, '\n'))
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write stalls: %w", err)
	}
	return nil
}

// ReadStalls reads stalls.csv. Errors say nothing of the file.
func ReadStalls(r io.Reader) (stalls []Stall, err error) {
	s, err := Read(r)
	if err != nil {
		return nil, err
	}
	for _, column := range []string{generatorLateColumn, targetLateColumn} {
		if !slices.Contains(s.Columns, column) {
			return nil, fmt.Errorf("there is no column %s", column)
		}
		late := s.Column(column)
		for i, due := range s.Column(TimeColumn) {
			if !math.IsNaN(late[i]) {
				stalls = append(stalls, Stall{Due: inTime(due), Late: inTime(late[i]), Target: column == targetLateColumn})
			}
		}
	}
	return stalls, nil
}

// inTime converts seconds, which a file may have wrong.
func inTime(seconds float64) time.Duration {
	const most = 1e9 // some thirty years
	return time.Duration(min(max(seconds, -most), most) * float64(time.Second))
}
