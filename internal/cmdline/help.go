package cmdline

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maxFlags is the number of flags up to which help shows all of them.
const maxFlags = 20

const helpAll = "help-all"

// limitHelp limits the help of commands with more than maxFlags flags to the common flags, and adds the flag --help-all, which shows all flags.
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
	_ = root.PersistentFlags().MarkHidden(helpAll) // fails only if there is no such flag
}

// hideFlags hides flags that are not common if a command has more than maxFlags, and returns how many it hides. It hides inherited flags and, if the
// command alone has more than maxFlags, its other flags, too.
func hideFlags(cmd *cobra.Command, common []string, all bool) int {
	local, inherited := visibleFlags(cmd.NonInheritedFlags()), visibleFlags(cmd.InheritedFlags())
	if all || len(local)+len(inherited) <= maxFlags {
		return 0
	}
	hidden := hideUncommon(inherited, common)
	if len(local) > maxFlags {
		hidden += hideUncommon(local, common)
	}
	return hidden
}

func visibleFlags(flags *pflag.FlagSet) (list []*pflag.Flag) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			list = append(list, f)
		}
	})
	return list
}

func hideUncommon(flags []*pflag.Flag, common []string) (hidden int) {
	for _, f := range flags {
		if !slices.Contains(common, f.Name) {
			f.Hidden, hidden = true, hidden+1
		}
	}
	return hidden
}
