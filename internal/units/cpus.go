package units

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxCPU is the highest possible CPU number: the kernel's cpu_set_t has room for 1,024.
const MaxCPU = 1023

// ParseCPUs reads a list of CPUs, such as 0-3,8, and returns it sorted. Each CPU may be
// listed once.
func ParseCPUs(s string) ([]int, error) { return ParseList(s, MaxCPU) }

// ParseList reads a list of CPUs, or of other things that the kernel numbers and lists in
// the same form. most is the highest number allowed.
func ParseList(s string, most int) (list []int, err error) {
	if !isCPUs(s) {
		return nil, notA("a CPU list", s, CPUsExample)
	}
	seen := make([]bool, most+1)
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		switch {
		case err != nil || err2 != nil || first > most || last > most:
			return nil, fmt.Errorf("CPU %s is beyond %d, the highest there can be; %s", clip(part), most, CPUsExample)
		case first > last:
			return nil, fmt.Errorf("the range %s runs backwards; %s", part, CPUsExample)
		}
		for n := first; n <= last; n++ {
			if seen[n] {
				return nil, fmt.Errorf("CPU %d is listed twice; %s", n, CPUsExample)
			}
			seen[n] = true
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, nil
}

// FormatCPUs writes a sorted list in the form that ParseCPUs reads, with neighbours as
// ranges; "" if it is empty.
func FormatCPUs(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		last := i
		for last+1 < len(list) && list[last+1] == list[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(list[i]))
		if last > i {
			fmt.Fprintf(&b, "-%d", list[last])
		}
		i = last + 1
	}
	return b.String()
}
