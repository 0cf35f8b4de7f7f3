package verdict

import (
	"testing"

	"dyno/internal/texts"
	"dyno/judge/verdict/checks"
	"dyno/results/rundir"
)

func TestMostlyDisturbed(t *testing.T) {
	disturbed := func(trial int, kind string, causes ...string) rundir.Flag {
		f := rundir.Flag{Kind: kind, Trial: trial, Disturbs: true}
		if len(causes) > 0 {
			var parts []texts.Message
			for _, c := range causes {
				parts = append(parts, texts.New("cause", "cause", c))
			}
			m := texts.New("found.disturbed", "share", "30 %").With("causes", parts...)
			f.Detail = &m
		}
		return f
	}
	trials := func(disturbed ...bool) (list []rundir.Examined) {
		for i, s := range disturbed {
			list = append(list, rundir.Examined{Number: i + 1, Disturbed: s})
		}
		return list
	}
	for _, c := range []struct {
		name             string
		run              rundir.Run
		english, chinese string
	}{
		{"none", rundir.Run{Trials: trials(false, false)}, "", ""},
		{"no trials", rundir.Run{}, "", ""},
		{"half", rundir.Run{Trials: trials(true, false), Flags: []rundir.Flag{disturbed(1, checks.FlagSteal)}}, "", ""},
		{"most", rundir.Run{Trials: trials(true, true, false), Flags: []rundir.Flag{disturbed(1, checks.FlagSteal), disturbed(1, checks.FlagForeignCPU), disturbed(2, checks.FlagForeignCPU), disturbed(3, checks.FlagIOPressure)}},
			"2 of 3 trials were disturbed: other programs used the CPUs, the host took CPUs", "3 次试验中有 2 次受到干扰：其他程序占用了 CPU，宿主机占用了 CPU"},
		{"stretches", rundir.Run{Trials: trials(true), Flags: []rundir.Flag{disturbed(1, checks.FlagDisturbed, "late_wakeups", "unheard_of")}},
			"the trial was disturbed: threads woke late", "试验受到干扰：线程唤醒延迟"},
		{"of no known cause", rundir.Run{Trials: trials(true), Flags: []rundir.Flag{disturbed(1, checks.FlagDisturbed), disturbed(1, checks.FlagGeneratorCPU)}},
			"the trial was disturbed: something else needed the CPUs", "试验受到干扰：其他活动占用了 CPU"},
		{"measured again", rundir.Run{Trials: append(trials(false, false), rundir.Examined{Number: 3, Disturbed: true, Excluded: true}, rundir.Examined{Number: 4, Disturbed: true, Replaced: true},
			rundir.Examined{Number: 5, Disturbed: true, Purpose: "profile"}), Flags: []rundir.Flag{disturbed(3, checks.FlagSteal)}}, "", ""},
	} {
		m := MostlyDisturbed(&c.run)
		if m == nil {
			m = &texts.Message{}
			*m = texts.Verbatim("")
		}
		if got := m.In(texts.English); got != c.english {
			t.Errorf("%s: %q, want %q", c.name, got, c.english)
		}
		if got := m.In(texts.Chinese); got != c.chinese {
			t.Errorf("%s: %q, want %q", c.name, got, c.chinese)
		}
	}
}

// Every kind of disturbance that has a round measured again has words.
func TestDisturbancesHaveWords(t *testing.T) {
	for _, c := range checks.All() {
		if c.About == rundir.AboutMachine && !texts.Has("disturbance."+c.Kind) {
			t.Errorf("%s has none", c.Kind)
		}
	}
}
