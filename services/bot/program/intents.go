package program

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"dyno/internal/command"
	"dyno/internal/exit"
	"dyno/internal/textfile"
	"dyno/services/bot/intent"
)

// intentsCommand returns the command that measures rules.
func intentsCommand() *cobra.Command {
	var rules, examples string
	cmd := &cobra.Command{
		Use:   "intents",
		Short: "Measure a file of rules on texts whose intents are known",
		Long: `Measure a file of rules on texts whose intents are known.

Each line of the examples has an intent, a tab and a text; empty lines, and those that
begin with #, say nothing. Of each intent, precision is the share of the texts taken for
it that are of it, recall the share of its texts that were taken for it, and F1 their
harmonic mean. Behind them is each mistake.`,
		Example: "  dyno-bot intents --rules rules.yaml --examples examples.tsv",
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			wrong := func(err error) error {
				return exit.With(exit.Usage, err, Name+" intents --help says what the files have")
			}
			if rules == "" || examples == "" {
				return exit.Misused(Name+" intents --help shows an example", "--rules and --examples must be given")
			}
			text, err := textfile.Read(rules, textfile.MaxBytes)
			if err != nil {
				return wrong(err)
			}
			parser, err := intent.Parse(text)
			if err != nil {
				return wrong(fmt.Errorf("%s: %w", rules, err))
			}
			if text, err = textfile.Read(examples, textfile.MaxBytes); err != nil {
				return wrong(err)
			}
			list, err := intent.ParseExamples(string(text))
			if err != nil {
				return wrong(fmt.Errorf("%s: %w", examples, err))
			}
			if len(list) == 0 {
				return wrong(fmt.Errorf("%s: no examples", examples))
			}
			return report(cmd, intent.Measure(parser, list))
		},
	}
	cmd.Flags().StringVar(&rules, "rules", "", "the `FILE` of the rules")
	cmd.Flags().StringVar(&examples, "examples", "", "the `FILE` of the examples")
	return cmd
}

// report prints what was measured.
func report(cmd *cobra.Command, m intent.Measurement) error {
	out := cmd.OutOrStdout()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "intent\ttexts\tprecision\trecall\tF1\t")
	for _, q := range m.Intents {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%.3f\t%.3f\t%.3f\t\n", q.Intent, q.Found+q.Missed, q.Precision, q.Recall, q.F1)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\naccuracy %.3f of %d texts\n", m.Accuracy, m.Examples)
	for _, mistake := range m.Mistakes {
		_, err = fmt.Fprintln(out, mistake)
	}
	return err
}
