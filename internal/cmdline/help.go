package cmdline

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maxFlags is how many flags help shows without --help-all.
const maxFlags = 20

const helpAll = "help-all"

// limitHelp has help of a command with more than MaxFlags flags show the common ones alone, and --help-all show all.
func limitHelp(root *cobra.Command, common []string) {
	show := root.HelpFunc()
	var all bool
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if hidden := hideFlags(cmd, common, all); hidden > 0 {
			defer fmt.Fprintf(cmd.OutOrStdout(), "\n%d more flags: %s --%s\n", hidden, cmd.CommandPath(), helpAll)
		}
		show(cmd, args)
	})
	root.PersistentFlags().BoolFunc(helpAll, "help with every flag", func(string) error {
		all = true
		return pflag.ErrHelp
	})
	_ = root.PersistentFlags().MarkHidden(helpAll) // fails only where there is no such flag
}

// hideFlags hides flags of a command that has more than MaxFlags, and returns how many it hid: first those of the commands above, then all but the
// common ones.
func hideFlags(cmd *cobra.Command, common []string, all bool) int {
	own, above := shown(cmd.NonInheritedFlags()), shown(cmd.InheritedFlags())
	if all || len(own)+len(above) <= maxFlags {
		return 0
	}
	hidden := hideRare(above, common)
	if len(own) > maxFlags {
		hidden += hideRare(own, common)
	}
	return hidden
}

func shown(flags *pflag.FlagSet) (list []*pflag.Flag) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			list = append(list, f)
		}
	})
	return list
}

func hideRare(flags []*pflag.Flag, common []string) (hidden int) {
	for _, f := range flags {
		if !slices.Contains(common, f.Name) {
			f.Hidden, hidden = true, hidden+1
		}
	}
	return hidden
}
