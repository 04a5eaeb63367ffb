package cmdline

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// MaxFlags is how many flags help shows without --help-all.
const MaxFlags = 20

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

// hideFlags hides all flags but the common ones if a command has more than MaxFlags, and returns how many it hid.
func hideFlags(cmd *cobra.Command, common []string, all bool) int {
	visible := 0
	each := func(visit func(*pflag.Flag)) {
		cmd.NonInheritedFlags().VisitAll(visit)
		cmd.InheritedFlags().VisitAll(visit)
	}
	each(func(f *pflag.Flag) {
		if !f.Hidden {
			visible++
		}
	})
	if all || visible <= MaxFlags {
		return 0
	}
	hidden := 0
	each(func(f *pflag.Flag) {
		if !f.Hidden && !slices.Contains(common, f.Name) {
			f.Hidden, hidden = true, hidden+1
		}
	})
	return hidden
}
